/* Asks the heft that records a process exactly to look at its live blocks now (heft map --leaks). */
#ifndef HEFT_SESSION_LOOK_CALL_H
#define HEFT_SESSION_LOOK_CALL_H

#include "hosted/error.h"

#include <sys/types.h>

/* Waits until that heft has looked: then the recording has what it saw. HEFT_ENOTFOUND: nobody records it exactly, as far
 * as can be seen here. HEFT_EREFUSED: its heft cannot look or does not answer, or it has ended meanwhile. */
int look_call(pid_t pid, struct heft_error *err);

#endif
