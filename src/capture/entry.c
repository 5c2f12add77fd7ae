/* The exported functions. In a sampled process they count bytes down and pass the
 * call on, in a handful of instructions. In an exact one they jump to hooks.c, so
 * that the hook sees the caller's frame.
 *
 * This file is built without frame pointers: with them every call would set up a
 * frame before it knows whether there is anything to do. */
#include "capture/hooks.h"
#include "capture/sample.h"

/* One comparison with memory and one or two branches. While sampling is switched off a call costs no more
 * than that. */
_Static_assert(WIRE_GATE_COUNT < WIRE_GATE_EXACT && WIRE_GATE_EXACT < WIRE_GATE_PASS, "in order");
static inline enum wire_gate gate_now(void)
{
#ifdef __x86_64__
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

/* What a call does. In a sampled process `counted`, the expression that counts it, decides. */
#define GATE(counted, next, sampled, exact)                                                        \
	do {                                                                                       \
		enum wire_gate gate_ = gate_now();                                                 \
		if (gate_ == WIRE_GATE_PASS)                                                       \
			return next;                                                               \
		if (gate_ == WIRE_GATE_EXACT)                                                      \
			return exact;                                                              \
		if (LIKELY(counted))                                                               \
			return next;                                                               \
		return sampled;                                                                    \
	} while (0)

#define ENTRY(name, parameters, arguments, size, via)                                              \
	EXPORT void *name parameters                                                               \
	{                                                                                          \
		GATE(heft_passes(size), heft_next.name arguments, heft_sampled_##name arguments,   \
		     heft_exact_##name arguments);                                                 \
	}
HEFT_ALLOCATING_FUNCTIONS(ENTRY)

EXPORT void free(void *p)
{
	GATE(!heft_may_be_sampled(p), heft_next.free(p), heft_sampled_free(p), heft_exact_free(p));
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
	GATE(!heft_may_be_sampled(old) && heft_passes(size), heft_next.realloc(old, size),
	     heft_sampled_realloc(old, size), heft_exact_realloc(old, size));
}

EXPORT void *reallocarray(void *old, size_t n, size_t each)
{
	size_t size;
	if (!heft_is_sampled() || UNLIKELY(__builtin_mul_overflow(n, each, &size)))
		return heft_exact_reallocarray(old, n, each);
	return realloc(old, size);
}

EXPORT int posix_memalign(void **out, size_t alignment, size_t size)
{
	GATE(heft_passes(size), heft_next.posix_memalign(out, alignment, size),
	     heft_sampled_posix_memalign(out, alignment, size),
	     heft_exact_posix_memalign(out, alignment, size));
}
