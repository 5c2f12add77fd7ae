/* What the exported functions (entry.c) do in a process that only counts (heft run --count, HEFT_MODE=count). */
#include "capture/count.h"
#include "capture/hooks.h"

/* Calls from inside of heft's own work, and blocks of the start-up arena, do not count. */
static inline void *counted(void *p, size_t size)
{
	if (LIKELY(p && !heft_tls_now()->guard) && !UNLIKELY(heft_in_arena(p)))
		heft_count_new(p, size);
	return p;
}

#define COUNTED_HOOK(name, parameters, arguments, size, via)                                       \
	void *heft_counted_##name parameters                                                       \
	{                                                                                          \
		return counted(heft_next.name arguments, size);                                    \
	}
HEFT_ALLOCATING_FUNCTIONS(COUNTED_HOOK)

int heft_counted_posix_memalign(void **out, size_t alignment, size_t size)
{
	int rc = heft_next.posix_memalign(out, alignment, size);
	if (!rc)
		counted(*out, size);
	return rc;
}

void heft_counted_free(void *p)
{
	if (UNLIKELY(!p || heft_in_arena(p)))
		return;
	if (LIKELY(!heft_tls_now()->guard))
		heft_count_end(p);
	heft_next.free(p);
}

void *heft_counted_realloc(void *old, size_t size)
{
	if (UNLIKELY(heft_in_arena(old)))
		return counted(heft_arena_realloc(old, size), size);
	if (!old || UNLIKELY(heft_tls_now()->guard))
		return counted(heft_next.realloc(old, size), size);
	/* From the call on the old block may be somebody else's. */
	size_t had = heft_count_size(old);
	void *p = heft_next.realloc(old, size);
	if (LIKELY(p))
		heft_count_resized(p, had, size);
	else if (!size)
		heft_count_ended(had);
	return p;
}
