/* What the other parts of the inside need of map_calls.c. The blob does not see calls that map memory. */
#ifndef HEFT_CAPTURE_MAP_CALLS_H
#define HEFT_CAPTURE_MAP_CALLS_H

#include "capture/inside.h"

#ifdef HEFT_BLOB
static inline int heft_calls_wait(const struct heft_tls *tls)
{
	(void)tls;
	return 0;
}
static inline void heft_waiting_write(struct heft_tls *tls, uintptr_t here, uint32_t site)
{
	(void)tls, (void)here, (void)site;
}
static inline int heft_waiting_reopen(struct heft_thread *t)
{
	(void)t;
	return 0;
}
static inline uintptr_t heft_break_now(void)
{
	return 0;
}
static inline void heft_break_look(struct heft_thread *t)
{
	(void)t;
}
#else
HIDDEN void heft_map_calls_init(void);
static inline int heft_calls_wait(const struct heft_tls *tls)
{
	return tls->waiting.count != 0;
}
/* Writes the calls that wait. Those that were made inside the hook with the frame `here` get its site; the call
 * stacks of others are not known. */
HIDDEN void heft_waiting_write(struct heft_tls *tls, uintptr_t here, uint32_t site);
/* Opens the stream again if it was closed for them. */
static inline int heft_waiting_reopen(struct heft_thread *t)
{
	struct heft_waiting *w = &heft_tls_now()->waiting;
	if (LIKELY(!w->limit))
		return 0;
	int same = t->chunk && t->chunk == w->chunk;
	if (same)
		t->limit = w->limit;
	w->limit = 0;
	return same && t->pos < t->limit;
}
HIDDEN uintptr_t heft_break_now(void);
/* Records that libc has moved the program's break, if it has. The stream must have space. */
HIDDEN void heft_break_look(struct heft_thread *t);
HIDDEN void heft_break_look_last(void); /* the same at the end of the program */
HIDDEN long heft_syscall_that_maps(long n, long a, long b, long c, long d, long e, long f);
typedef long heft_syscall_fn(long, long, long, long, long, long, long);
extern HIDDEN heft_syscall_fn *heft_next_syscall; /* sandbox.c */
#endif

#endif
