/* Sampled mode inside. The fast half is here, inlined into the exported functions
 * (entry.c); the slow half is in sample.c. */
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
static inline void heft_gate_choose(enum wire_gate gate)
{
	atomic_store_explicit((_Atomic uint32_t *)(heft_gate_page + HEFT_GATE_AT), gate,
			      memory_order_relaxed);
}
/* Until the first call has opened the process the gate does not say. */
static inline int heft_is_sampled(void)
{
	const uint32_t gate = heft_gate_now();
	return gate != WIRE_GATE_EXACT && gate != (uint32_t)WIRE_GATE_STATS &&
	       (LIKELY(heft_sampling) || heft_open_now());
}
/* A filter for frees: how many live samples have these bits in their address. 0 means that a block is no
 * sample. Neighbours in the heap are neighbours here too, so a small heap uses few cache lines of the
 * filter. A count stops at 255 for good. With 8,000 live samples 3 % of all other frees take the long way. */
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
/* Takes size + 1 bytes off the thread's distance to its next sample. 0: the distance is used up; nothing is
 * taken, and the slow path decides. */
static inline int heft_passes(size_t size)
{
	struct heft_tls *tls = heft_tls_now();
	uint64_t left = tls->left;
	if (UNLIKELY(heft_is_inner_call(tls)))
		return 1;
	if (UNLIKELY(size >= left))
		return 0;
	tls->left = left - size - 1;
	return 1;
}

/* Blocks of the start-up arena must not reach the allocator: they stay in the filter for good. */
HIDDEN void heft_filter_keep(const void *p);
HIDDEN int
heft_sample_make_tables(struct wire_header *h);   /* asks for the first ones; 0, or -1: no memory */
HIDDEN void heft_gate_set(struct wire_header *h); /* as its switch says */
HIDDEN void heft_sample_forget_all(void);         /* after a fork: forgets the parent's samples */
/* A new block of `size` bytes does not fit into the distance to the next sample: makes it a sample if it is
 * one, and draws the next distance. */
HIDDEN void heft_sample_test(void *p, size_t size, uintptr_t hook, unsigned via);
/* Removes a block if it is a sample (1) and stores what it was for heft_sample_restore, which puts it back. */
HIDDEN int heft_sample_remove(const void *p, struct wire_sample *was);
HIDDEN void heft_sample_restore(const void *p, const struct wire_sample *was);

#endif
