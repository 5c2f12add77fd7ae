/* Putting the blob into one process, and taking it out again. Called in the guardian, by the thread that traces
 * (stop.h). */
#ifndef HEFT_ATTACH_PLACEMENT_H
#define HEFT_ATTACH_PLACEMENT_H

#include "attach/attach.h"

/* What the header of a near page (near_page.h) says about the blob that it leads to. */
enum placement_own {
	OWN_BLOB_AT,     /* where it lies, right behind the page */
	OWN_BLOB_BYTES,  /* whole pages */
	OWN_SHARED,      /* its struct wire_blob */
	OWN_GUARDIAN,    /* who put it there: its pid, */
	OWN_GUARDIAN_ID, /* and when that began, as /proc/PID/stat has it */
	OWN_SESSION_DEVICE,
	OWN_SESSION_INODE, /* of the session directory */
	OWN_MAIN,          /* of a page further away: the one with the blob, which says all above */
	OWN_SIDES, /* of that one: where the others are, PLACEMENT_PAGES - 1 of them; 0: none */
};
enum { PLACEMENT_PAGES = 8 };

/* Nothing of the program is changed if it fails. *near_at: where the near page is; 0: it was never there. A child
 * that was forked meanwhile may have it, whether this fails or not. */
int placement_put(const struct attach_options *o, uint64_t *near_at, struct attach_report *report,
		  struct heft_error *err);
/* Restores every byte, waits until no thread is inside, and unmaps what heft has mapped. If a thread stays inside,
 * its blob stays too: report->left says so, and the result is 0 all the same. */
int placement_take(pid_t pid, uint64_t near_at, struct attach_report *report,
		   struct heft_error *err);
/* The next near page of a process that lies above `after`; 0: there is none. *guardian: who put it there, if that
 * still runs; or 0. */
uint64_t placement_find(pid_t pid, uint64_t after, pid_t *guardian);
/* Whether a thread of it has a filter for system calls (seccomp). */
bool placement_is_sandboxed(pid_t pid);
/* The number of a thread as it knows itself: another one than ours in a namespace. */
int32_t placement_number(pid_t pid, pid_t tid);

#endif
