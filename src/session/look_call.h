/* Asks the heft that records a process exactly to look at its live blocks now (heft map --leaks). */
#ifndef HEFT_SESSION_LOOK_CALL_H
#define HEFT_SESSION_LOOK_CALL_H

#include "hosted/error.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* Waits until that heft has looked: then the recording has what it saw. HEFT_ENOTFOUND: nobody records it exactly, as far
 * as can be seen here. HEFT_EREFUSED: its heft cannot look or does not answer, or it has ended meanwhile. */
int look_call(pid_t pid, struct heft_error *err);

/* ---- its parts, which take what the process may have forged */

/* maps: of /proc/PID/maps. Where the process has mapped the header of the file that it opened last: a forked child may still
 * have that of its parent. 0: nowhere. */
uint64_t look_call_header(FILE *maps);
/* Asks by the header at an address of its memory (-1: there is none), and waits for silent_ms without a sign of life. */
int look_call_memory(int memory, uint64_t at, pid_t pid, unsigned silent_ms,
		     struct heft_error *err);

#endif
