/* Inside src/agent: the rights of a running process, which a guardian takes before it looks into that process. */
#ifndef HEFT_AGENT_CREDENTIALS_H
#define HEFT_AGENT_CREDENTIALS_H

#include "agent/identity.h"

struct credentials {
	struct identity who;
	uint64_t capabilities; /* that it may use, one bit each */
	bool is_stopped;       /* by a signal or a debugger, or it is traced */
};

/* NULL: *c has them. Else why a guardian cannot have the same, in words; "": there is no such process. Its real user is in *c
 * in any case, if it can be read. */
const char *credentials_of(pid_t pid, struct credentials *c);
/* Whether a process of root's may be looked into by root: NULL, or why not, in words. It may look at files, so it may take
 * long: not for the supervisor. */
const char *credentials_root_refuses(pid_t pid, const struct credentials *c);
/* Has these rights from now on, and no others, for good. Who is not root has its own user's already. */
bool credentials_become(const struct credentials *c);

#endif
