/* Finding the heft that is attached to a process, and asking it to leave. */
#ifndef HEFT_SESSION_ATTACH_CALL_H
#define HEFT_SESSION_ATTACH_CALL_H

#include "hosted/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { ATTACH_CALLERS = 16 };

/* On the side of the attached heft */
struct attach_calls {
	int listener; /* -1: nobody can call */
	struct attach_caller {
		int fd;
		bool asked; /* it wants us to leave, and waits for the answer */
	} callers[ATTACH_CALLERS];
	uint32_t count;
};

/* Takes the process as ours to attach to. HEFT_EBUSY: another heft has it. If nobody can call because a stranger
 * has taken the name, it is no failure, and *warning says so; else *warning is NULL. */
int attach_calls_open(struct attach_calls *c, pid_t pid, const char **warning,
		      struct heft_error *err);
/* Takes calls without waiting. True: somebody has asked us to leave. */
bool attach_calls_look(struct attach_calls *c);
/* We have left: tells those who asked. problem: why it went wrong; NULL: it did not. */
void attach_calls_close(struct attach_calls *c, const char *problem);

/* The process of the heft that is attached to `pid`; 0: none, as far as can be seen from here. */
pid_t attach_holder(pid_t pid);
/* Asks it to leave, and waits until it has. HEFT_ENOTFOUND: nobody is attached. HEFT_EREFUSED: it may not be
 * asked by us. HEFT_EIO: it left, but not cleanly; the message is its own. */
int attach_ask_to_leave(pid_t pid, struct heft_error *err);
/* The same of a holder who is connected already. hung_up: it gave no answer, and will give none. */
struct ucred;
int attach_ask_holder(int fd, pid_t pid, const struct ucred *who, bool *hung_up,
		      struct heft_error *err);

#endif
