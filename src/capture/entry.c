/* The exported functions. In a sampled process they count bytes down and pass the
 * call on, in a handful of instructions. In an exact one they jump to hooks.c, so
 * that the hook sees the caller's frame.
 *
 * This file is built without frame pointers: with them every call would set up a
 * frame before it knows whether there is anything to do. */
#include "capture/count.h"
#include "capture/hooks.h"
#include "capture/sample.h"

/* One comparison with memory and two or three branches. While sampling is switched off a call costs no more
 * than that. */
_Static_assert(WIRE_GATE_COUNT < WIRE_GATE_EXACT && WIRE_GATE_EXACT < WIRE_GATE_PASS, "in order");
static inline enum wire_gate gate_now(void)
{
#if defined __x86_64__ && !defined HEFT_BLOB
	__asm__ goto("cmpl %0, %1\n\tjo %l2\n\tja %l3\n\tje %l4"
		     :
		     : "i"(WIRE_GATE_EXACT), "m"(*(const uint32_t *)(heft_gate_page + HEFT_GATE_AT))
		     : "cc"
		     : stats, pass, exact);
	return WIRE_GATE_COUNT;
stats:
	return WIRE_GATE_STATS;
pass:
	return WIRE_GATE_PASS;
exact:
	return WIRE_GATE_EXACT;
#elif defined __x86_64__
	__asm__ goto("cmpl %0, %1\n\tja %l2\n\tje %l3"
		     :
		     : "i"(WIRE_GATE_EXACT), "m"(*(const uint32_t *)(heft_gate_page + HEFT_GATE_AT))
		     : "cc"
		     : pass, exact);
	return WIRE_GATE_COUNT;
pass:
	return WIRE_GATE_PASS;
exact:
	return WIRE_GATE_EXACT;
#else
	return (enum wire_gate)heft_gate_now();
#endif
}

/* In the library these are the functions that the program calls. In the blob they are where the entries of those
 * functions lead to: there the call of a real function comes here again if that calls malloc itself, as
 * libc's memalign does for small alignments, and its realloc for a new block. */
#ifdef HEFT_BLOB
#define EXPORTED_NAME(name) heft_blob_##name
#define EXPORTED(type, name) HIDDEN type heft_blob_##name
#define PASSED_ON(type, name, parameters, arguments)                                               \
	static NOINLINE type passed_on_##name parameters                                           \
	{                                                                                          \
		return HEFT_WAITED_FOR(type, heft_next.name arguments);                            \
	}
PASSED_ON(void *, aligned_alloc, (size_t alignment, size_t size), (alignment, size))
PASSED_ON(void *, memalign, (size_t alignment, size_t size), (alignment, size))
PASSED_ON(void *, valloc, (size_t size), (size))
PASSED_ON(void *, pvalloc, (size_t size), (size))
PASSED_ON(int, posix_memalign, (void **out, size_t alignment, size_t size), (out, alignment, size))
PASSED_ON(void *, realloc, (void *old, size_t size), (old, size))
#else
#define EXPORTED_NAME(name) name
#define EXPORTED(type, name) EXPORT type name
#define passed_on_aligned_alloc heft_next.aligned_alloc
#define passed_on_memalign heft_next.memalign
#define passed_on_valloc heft_next.valloc
#define passed_on_pvalloc heft_next.pvalloc
#define passed_on_posix_memalign heft_next.posix_memalign
#define passed_on_realloc heft_next.realloc
#endif
#define passed_on_malloc heft_next.malloc
#define passed_on_calloc heft_next.calloc

/* The blob never only counts. */
#ifdef HEFT_BLOB
#define STATS_GATE(gate) 0
#else
#define STATS_GATE(gate) ((gate) == WIRE_GATE_STATS)
#endif

/* What a call does. In a sampled process `counted`, the expression that counts it, decides. */
#define GATE(counted, next, sampled, exact, stats)                                                 \
	do {                                                                                       \
		enum wire_gate gate_ = gate_now();                                                 \
		if (STATS_GATE(gate_))                                                             \
			return stats;                                                              \
		if (gate_ == WIRE_GATE_PASS)                                                       \
			return next;                                                               \
		if (gate_ == WIRE_GATE_EXACT)                                                      \
			return exact;                                                              \
		if (LIKELY(counted))                                                               \
			return next;                                                               \
		return sampled;                                                                    \
	} while (0)

#define ENTRY(name, parameters, arguments, size, via)                                              \
	EXPORTED(void *, name) parameters                                                          \
	{                                                                                          \
		GATE(heft_passes(size), passed_on_##name arguments, heft_sampled_##name arguments, \
		     heft_exact_##name arguments, heft_counted_##name arguments);                  \
	}
HEFT_ALLOCATING_FUNCTIONS(ENTRY)

/* When a thread ends, libc frees what it had kept for it: blocks that the program has freed before. In the library
 * that is not seen; in the blob it comes by the entry of free. */
EXPORTED(void, free)(void *p)
{
	if (UNLIKELY(heft_is_allocators_call((uintptr_t)__builtin_return_address(0)))) {
		heft_next.free(p);
		return;
	}
	GATE(!heft_may_be_sampled(p), heft_next.free(p), heft_sampled_free(p), heft_exact_free(p),
	     heft_counted_free(p));
}

#ifndef HEFT_BLOB
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

#endif

EXPORTED(void *, realloc)(void *old, size_t size)
{
	GATE(!heft_may_be_sampled(old) && heft_passes(size),
	     old ? heft_next.realloc(old, size) : passed_on_realloc(old, size),
	     heft_sampled_realloc(old, size), heft_exact_realloc(old, size),
	     heft_counted_realloc(old, size));
}

EXPORTED(void *, reallocarray)(void *old, size_t n, size_t each)
{
	size_t size;
	if (UNLIKELY(__builtin_mul_overflow(n, each, &size)))
		return heft_too_large(old, n, each);
	if (!heft_is_sampled() && !heft_counts_only())
		return heft_exact_reallocarray(old, size);
	return EXPORTED_NAME(realloc)(old, size);
}

EXPORTED(int, posix_memalign)(void **out, size_t alignment, size_t size)
{
	GATE(heft_passes(size), passed_on_posix_memalign(out, alignment, size),
	     heft_sampled_posix_memalign(out, alignment, size),
	     heft_exact_posix_memalign(out, alignment, size),
	     heft_counted_posix_memalign(out, alignment, size));
}
