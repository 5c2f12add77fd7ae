/* The blob's own: how a thread finds its state. inside.h includes it after struct heft_tls. */
#ifndef HEFT_CAPTURE_BLOB_THREAD_H
#define HEFT_CAPTURE_BLOB_THREAD_H

#include "capture/inside.h"
#include "wire/blob.h"

#ifdef HEFT_BLOB

extern EXPORT struct wire_blob heft_blob;
extern HIDDEN struct wire_blob_thread heft_blob_threads[WIRE_BLOB_THREADS];

_Static_assert(sizeof(struct wire_blob_thread) == 64, "a cache line");
_Static_assert(offsetof(struct wire_blob_thread, guard) -
				       offsetof(struct wire_blob_thread, thread) ==
			       offsetof(struct heft_tls, guard) &&
		       offsetof(struct wire_blob_thread, inside) -
				       offsetof(struct wire_blob_thread, thread) ==
			       offsetof(struct heft_tls, inside),
	       "the outside reads the same");

/* Looks further, or makes a place for a thread that is new here. */
HIDDEN struct heft_tls *heft_blob_find_thread(uintptr_t pointer, int32_t tid);

/* A thread pointer alone is not enough: the next thread on the same stack has the same one. */
static inline struct heft_tls *heft_tls_now(void)
{
	uintptr_t pointer = (uintptr_t)arch_thread_pointer();
	int32_t tid = *(const volatile int32_t *)(pointer + heft_blob.tid_offset);
	struct wire_blob_thread *t = &heft_blob_threads[wire_blob_slot(pointer)];
	if (LIKELY(atomic_load_explicit(&t->pointer, memory_order_relaxed) == pointer &&
		   atomic_load_explicit(&t->tid, memory_order_relaxed) == tid))
		return (struct heft_tls *)&t->thread;
	return heft_blob_find_thread(pointer, tid);
}

#endif

#endif
