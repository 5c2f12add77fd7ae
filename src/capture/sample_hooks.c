/* What the exported functions do in a sampled process when the countdown has run
 * out, or when a block that ends may be a sample.
 *
 * The first call of any process comes here, since nothing is counted down yet. It
 * opens the process, and if that is an exact one, goes on to the exact hook. */
#include "capture/hooks.h"
#include "capture/hotpath.h"
#include "capture/sample.h"

#define SAMPLED_HOOK(name, parameters, arguments, size, via)                                       \
	void *heft_sampled_##name parameters                                                       \
	{                                                                                          \
		if (UNLIKELY(!heft_is_sampled()))                                                  \
			return heft_exact_##name arguments;                                        \
		void *p = HEFT_WAITED_FOR(void *, heft_next.name arguments);                       \
		heft_sample_test(p, size, HERE(), via);                                            \
		return p;                                                                          \
	}
HEFT_ALLOCATING_FUNCTIONS(SAMPLED_HOOK)

int heft_sampled_posix_memalign(void **out, size_t alignment, size_t size)
{
	if (UNLIKELY(!heft_is_sampled()))
		return heft_exact_posix_memalign(out, alignment, size);
	int rc = HEFT_WAITED_FOR(int, heft_next.posix_memalign(out, alignment, size));
	heft_sample_test(rc ? NULL : *out, size, HERE(), WIRE_VIA_POSIX_MEMALIGN);
	return rc;
}

static NOINLINE void forget(void *p)
{
	struct wire_sample was;
	heft_sample_remove(p, &was);
}

/* It jumps to the real function: nothing of its own is on the stack meanwhile. */
void heft_sampled_free(void *p)
{
	if (!p || heft_in_arena(p))
		return;
	forget(p);
	heft_next.free(p);
}

void *heft_sampled_realloc(void *old, size_t size)
{
	struct wire_sample was;
	if (UNLIKELY(!heft_is_sampled()))
		return heft_exact_realloc(old, size);
	bool arena = heft_in_arena(old);
	/* Before the call: from then on the address may be somebody else's. */
	int sampled = old && !arena && heft_sample_remove(old, &was);
	void *p = arena ? heft_arena_realloc(old, size)
			: HEFT_WAITED_FOR(void *, heft_next.realloc(old, size));
	if (!p && size) {
		if (sampled)
			heft_sample_restore(old, &was);
		return p;
	}
	if (p && !heft_passes(size))
		heft_sample_test(p, size, HERE(), WIRE_VIA_REALLOC);
	return p;
}
