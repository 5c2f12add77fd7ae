/* Session files are made by others, who may cut them short while they are mapped here: touching what
 * is no longer there is a SIGBUS. With the guard it reads as zeros. */
#ifndef HEFT_SESSION_SESSION_GUARD_H
#define HEFT_SESSION_SESSION_GUARD_H

#include <stdbool.h>
#include <stddef.h>

enum { SESSION_GUARD_MOST = 16384 };

/* In every thread that reads a session file and did not map one itself: one that blocks SIGBUS would
 * be killed by it. */
void session_guard_install(void);
/* base: WIRE_FILE_BYTES of a mapped session file. False: more of them than can be guarded. */
bool session_guard_add(void *base);
void session_guard_remove(void *base);

#endif
