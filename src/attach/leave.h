/* Taking heft out of a program and out of all that was forked from it. */
#ifndef HEFT_ATTACH_LEAVE_H
#define HEFT_ATTACH_LEAVE_H

#include "attach/attach.h"

/* What is taken out. Forked processes have the same near page at the same address. */
struct leaving {
	pid_t program;
	uint64_t near_at;
	uint64_t guardian, guardian_id; /* who put it there, as the page says */
};

/* Reads who put the page there; false: there is none. */
bool leaving_read(struct leaving *l, pid_t program, uint64_t near_at);
/* Takes it out everywhere, the program first. Each process is traced by a thread of its own. 0 if it is nowhere any
 * more, or stays where report->left says. */
int leave_all(const struct leaving *l, struct attach_report *report, struct heft_error *err);

#endif
