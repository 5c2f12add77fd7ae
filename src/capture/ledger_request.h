/* A process asks for a ledger of itself: ledger_request.c. */
#ifndef HEFT_CAPTURE_LEDGER_REQUEST_H
#define HEFT_CAPTURE_LEDGER_REQUEST_H

#include "capture/inside.h"

/* Asks for one before exit handlers run. Returns when it is taken, or not wanted, or nobody answers. */
HIDDEN void heft_ledger_at_exit(void);
/* Asks for one if the process is about to give back memory that it has mapped, and has more of its own than at the last
 * ledger. Right before the call that gives it back. */
HIDDEN void heft_ledger_before_giving_back(size_t bytes);
/* p, a block of glibc's of HEFT_LEDGER_BLOCK and more, is about to be freed: asks for one if the heap is near a new peak, or
 * has much memory of its own. Outside of hooks. */
enum { HEFT_LEDGER_BLOCK = 1 << 20 };
#ifdef HEFT_BLOB
static inline void heft_ledger_before_freeing(const void *p)
{
	(void)p;
}
#else
HIDDEN void heft_ledger_before_freeing(const void *p);
#endif
/* Asks for one if the heap has begun to shrink: if the thread's last records are mostly frees. In a hook, before it opens
 * a record. */
#ifdef HEFT_BLOB
static inline void heft_ledger_watch(struct heft_thread *t)
{
	(void)t;
}
#else
HIDDEN void heft_ledger_watch(struct heft_thread *t);
#endif

#endif
