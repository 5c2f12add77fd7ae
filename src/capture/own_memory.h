/* Memory that heft maps for itself inside the program: the outside knows how much it is, and where. */
#ifndef HEFT_CAPTURE_OWN_MEMORY_H
#define HEFT_CAPTURE_OWN_MEMORY_H

#include "capture/inside.h"

/* Whether the page of an entry is there. The first page of them is asked for with the header. */
static inline int heft_own_is_there(struct wire_header *h, unsigned i)
{
	return (uintptr_t)&h->own[i] / 4096 == (uintptr_t)h->own / 4096 ||
	       !sys_populate(&h->own[i], sizeof h->own[i]);
}
static inline unsigned heft_own_used(const struct wire_header *h)
{
	uint32_t used = h ? atomic_load(&h->own_used) : 0;
	return used < WIRE_OWNS ? used : WIRE_OWNS;
}
/* Says where it is. Else a ledger would take it for the program's, and what heft knows about blocks would lead to them. */
static inline void heft_list_own(struct wire_header *h, const void *at, uint64_t bytes)
{
	for (unsigned i = 0; h && i < WIRE_OWNS; i++) {
		uint64_t empty = 0;
		uint32_t used = atomic_load(&h->own_used);
		if (i >= used) {
			if (!heft_own_is_there(h, i))
				break;
			while (used <= i &&
			       !atomic_compare_exchange_weak(&h->own_used, &used, i + 1))
				;
		}
		if (atomic_load_explicit(&h->own[i].at, memory_order_relaxed))
			continue;
		if (atomic_compare_exchange_strong(&h->own[i].at, &empty, (uint64_t)at)) {
			atomic_store(&h->own[i].bytes, bytes);
			break;
		}
	}
}
/* heft has mapped memory for itself, or given it back: the outside subtracts it from the program's. */
static inline void heft_mapped_own(void *at, size_t bytes)
{
	struct heft_process *p = heft_process;
	if (p && p->session.header) {
		atomic_fetch_add(&p->session.header->own_bytes, (uint64_t)bytes);
		heft_list_own(p->session.header, at, bytes);
	}
	heft_around_mapped(at, bytes);
}
static inline void heft_unmap_own(void *at, size_t bytes)
{
	struct heft_process *p = heft_process;
	if (p && p->session.header) {
		struct wire_header *h = p->session.header;
		atomic_fetch_sub(&h->own_bytes, (uint64_t)bytes);
		for (unsigned i = 0; i < heft_own_used(h); i++)
			if (atomic_load(&h->own[i].at) == (uint64_t)at)
				atomic_store(&h->own[i].at, 0);
	}
	heft_around_unmapped(at);
	sys_munmap(at, bytes);
}

#endif
