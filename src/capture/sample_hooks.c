/* What the exported functions do in a sampled process when the countdown has run
 * out, or when a block that ends may be a sample. */
#include "capture/hooks.h"
#include "capture/hotpath.h"
#include "capture/sample.h"

void *heft_sampled_malloc(size_t size)
{
	void *p = heft_next.malloc(size);
	heft_sample_taken(p, size, HERE(), WIRE_VIA_MALLOC);
	return p;
}

void *heft_sampled_calloc(size_t n, size_t each)
{
	void *p = heft_next.calloc(n, each);
	heft_sample_taken(p, n * each, HERE(), WIRE_VIA_CALLOC);
	return p;
}

void heft_sampled_free(void *p)
{
	struct wire_sample was;
	if (!p || heft_in_arena(p))
		return;
	heft_sample_gone(p, &was);
	heft_next.free(p);
}

void *heft_sampled_realloc(void *old, size_t size)
{
	struct wire_sample was;
	if (UNLIKELY(heft_in_arena(old)))
		return heft_exact_realloc(old, size);
	/* Before the call: from then on the address may be somebody else's. */
	int sampled = old && heft_sample_gone(old, &was);
	void *p = heft_next.realloc(old, size);
	if (!p && size) {
		if (sampled)
			heft_sample_back(old, &was);
		return p;
	}
	if (p && !heft_passes(size))
		heft_sample_taken(p, size, HERE(), WIRE_VIA_REALLOC);
	return p;
}

int heft_sampled_posix_memalign(void **out, size_t alignment, size_t size)
{
	int rc = heft_next.posix_memalign(out, alignment, size);
	heft_sample_taken(rc ? NULL : *out, size, HERE(), WIRE_VIA_POSIX_MEMALIGN);
	return rc;
}

void *heft_sampled_aligned_alloc(size_t alignment, size_t size)
{
	void *p = heft_next.aligned_alloc(alignment, size);
	heft_sample_taken(p, size, HERE(), WIRE_VIA_ALIGNED_ALLOC);
	return p;
}

void *heft_sampled_memalign(size_t alignment, size_t size)
{
	void *p = heft_next.memalign(alignment, size);
	heft_sample_taken(p, size, HERE(), WIRE_VIA_MEMALIGN);
	return p;
}

void *heft_sampled_valloc(size_t size)
{
	void *p = heft_next.valloc(size);
	heft_sample_taken(p, size, HERE(), WIRE_VIA_VALLOC);
	return p;
}

void *heft_sampled_pvalloc(size_t size)
{
	void *p = heft_next.pvalloc(size);
	heft_sample_taken(p, size, HERE(), WIRE_VIA_PVALLOC);
	return p;
}
