/* What other parts of the inside need of marks.c. */
#ifndef HEFT_CAPTURE_MARKS_H
#define HEFT_CAPTURE_MARKS_H

#include "capture/inside.h"

#include <stdbool.h>

/* The same as heft_pool_* do. here: the frame of the function that the program called (heft_entry). Whether it is recorded. */
HIDDEN bool heft_remark_pool(uintptr_t here, enum wire_remark kind, uint32_t name, uint64_t pool,
			     uint64_t object, uint64_t size);
HIDDEN void heft_remark_region(uint64_t serial, uint32_t name, unsigned scope, bool ends);
#ifdef HEFT_BLOB
static inline void heft_followed_ends(struct heft_tls *tls, const void *p)
{
	(void)tls, (void)p;
}
static inline void heft_followed_moves(struct heft_tls *tls, const void *p)
{
	(void)tls, (void)p;
}
#else
/* The guard is set. p is about to be freed. */
HIDDEN void heft_followed_ends(struct heft_tls *tls, const void *p);
/* A realloc of p begins; it has made p of `was`. p NULL: it has freed it. */
HIDDEN void heft_followed_moves(struct heft_tls *tls, const void *p);
HIDDEN void heft_followed_moved(struct heft_tls *tls, const void *was, const void *p);
#endif

#endif
