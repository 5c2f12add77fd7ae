/* The exported functions. In a sampled process they count bytes down and pass the
 * call on, in a handful of instructions; in an exact one they go on to hooks.c,
 * by a jump, so that the caller's frame is what the hook sees.
 *
 * This file is built without frame pointers: a frame would be set up for every
 * call before it is known whether anything is to be done. */
#include "capture/hooks.h"
#include "capture/sample.h"

EXPORT void *malloc(size_t size)
{
	if (UNLIKELY(!heft_sampling))
		return heft_exact_malloc(size);
	if (LIKELY(heft_passes(size)))
		return heft_next.malloc(size);
	return heft_sampled_malloc(size);
}

EXPORT void *calloc(size_t n, size_t each)
{
	if (UNLIKELY(!heft_sampling))
		return heft_exact_calloc(n, each);
	if (LIKELY(heft_passes(n * each)))
		return heft_next.calloc(n, each);
	return heft_sampled_calloc(n, each);
}

EXPORT void free(void *p)
{
	if (UNLIKELY(!heft_sampling))
		heft_exact_free(p);
	else if (LIKELY(!heft_may_be_sampled(p)))
		heft_next.free(p);
	else
		heft_sampled_free(p);
}

EXPORT void free_sized(void *p, size_t size)
{
	(void)size;
	free(p);
}

EXPORT void free_aligned_sized(void *p, size_t alignment, size_t size)
{
	(void)alignment;
	(void)size;
	free(p);
}

EXPORT void *realloc(void *old, size_t size)
{
	if (UNLIKELY(!heft_sampling))
		return heft_exact_realloc(old, size);
	if (LIKELY(!heft_may_be_sampled(old)) && LIKELY(heft_passes(size)))
		return heft_next.realloc(old, size);
	return heft_sampled_realloc(old, size);
}

EXPORT void *reallocarray(void *old, size_t n, size_t each)
{
	size_t size;
	if (UNLIKELY(!heft_sampling) || UNLIKELY(__builtin_mul_overflow(n, each, &size)))
		return heft_exact_reallocarray(old, n, each);
	return realloc(old, size);
}

EXPORT int posix_memalign(void **out, size_t alignment, size_t size)
{
	if (UNLIKELY(!heft_sampling))
		return heft_exact_posix_memalign(out, alignment, size);
	if (LIKELY(heft_passes(size)))
		return heft_next.posix_memalign(out, alignment, size);
	return heft_sampled_posix_memalign(out, alignment, size);
}

#define ALIGNED(name)                                                                              \
	EXPORT void *name(size_t alignment, size_t size)                                           \
	{                                                                                          \
		if (UNLIKELY(!heft_sampling))                                                      \
			return heft_exact_##name(alignment, size);                                 \
		if (LIKELY(heft_passes(size)))                                                     \
			return heft_next.name(alignment, size);                                    \
		return heft_sampled_##name(alignment, size);                                       \
	}
#define BY_PAGE(name)                                                                              \
	EXPORT void *name(size_t size)                                                             \
	{                                                                                          \
		if (UNLIKELY(!heft_sampling))                                                      \
			return heft_exact_##name(size);                                            \
		if (LIKELY(heft_passes(size)))                                                     \
			return heft_next.name(size);                                               \
		return heft_sampled_##name(size);                                                  \
	}
ALIGNED(aligned_alloc)
ALIGNED(memalign)
BY_PAGE(valloc)
BY_PAGE(pvalloc)
