/* Sampled mode inside: the fast half, inlined into the exported functions
 * (entry.c); the rest is in sample.c. */
#ifndef HEFT_CAPTURE_SAMPLE_H
#define HEFT_CAPTURE_SAMPLE_H

#include "capture/inside.h"
#include "wire/samples.h"

extern HIDDEN uint8_t heft_sampling; /* this process is sampled (also while switched off) */
/* A page of ours. In a sampled process the first page of the session file is mapped over it, so that every
 * call finds the gate (enum wire_gate) at an address that is known when the library is linked. */
enum { HEFT_GATE_PAGE = 4096 };
extern HIDDEN unsigned char heft_gate_page[HEFT_GATE_PAGE];
#define HEFT_GATE_AT offsetof(struct wire_header, sampling.gate)
_Static_assert(HEFT_GATE_AT + sizeof(uint32_t) <= HEFT_GATE_PAGE, "in the first page");
static inline uint32_t heft_gate_now(void)
{
	return atomic_load_explicit((_Atomic uint32_t *)(heft_gate_page + HEFT_GATE_AT),
				    memory_order_relaxed);
}
/* Only where nothing is mapped over the page. */
static inline void heft_gate_set_exact(void)
{
	atomic_store_explicit((_Atomic uint32_t *)(heft_gate_page + HEFT_GATE_AT), WIRE_GATE_EXACT,
			      memory_order_relaxed);
}
/* Until the first call has opened the process the gate does not say. */
static inline int heft_is_sampled(void)
{
	return heft_gate_now() != WIRE_GATE_EXACT && (LIKELY(heft_sampling) || heft_start());
}
/* How many live samples share these bits of their address: a free asks here whether its block may be
 * one. Blocks that are neighbours are neighbours here too, so that the lines of the filter that are
 * in use follow those of the heap. Saturates.
 * With 8,000 live samples 3 % of all other frees are sent the long way. */
enum { HEFT_FILTER_BITS = 18 };
extern HIDDEN _Atomic uint8_t heft_filter[1 << HEFT_FILTER_BITS];

static inline unsigned heft_filter_slot(const void *p)
{
	return (unsigned)((uintptr_t)p >> 4) & ((1u << HEFT_FILTER_BITS) - 1);
}
static inline int heft_may_be_sampled(const void *p)
{
	return atomic_load_explicit(&heft_filter[heft_filter_slot(p)], memory_order_relaxed) != 0;
}
/* Takes size + 1 bytes off the thread's way to its next sample. 0: it is reached; nothing is taken,
 * the slow path decides. */
static inline int heft_passes(size_t size)
{
	uint64_t left = heft_tls.left;
	if (UNLIKELY(size >= left))
		return 0;
	heft_tls.left = left - size - 1;
	return 1;
}

/* The start-up arena's blocks must not reach the allocator: they are in the filter for good. */
HIDDEN void heft_filter_keep(const void *p);
HIDDEN int heft_sample_tables(struct wire_header *h); /* the first ones: 0, or no memory */
HIDDEN void heft_gate_set(struct wire_header *h); /* as its switch stands */
HIDDEN void heft_sample_begin(void); /* after a fork: nothing of the parent's is live here */
/* A block of `size` bytes was made and the way to the next sample is used up. */
HIDDEN void heft_sample_taken(void *p, size_t size, uintptr_t hook, unsigned via);
/* The block may be a sampled one: forgets it. Its slot's contents are kept for heft_sample_back. */
HIDDEN int heft_sample_gone(const void *p, struct wire_sample *was);
HIDDEN void heft_sample_back(const void *p, const struct wire_sample *was);

#endif
