/* Session files are made by others, who may cut them short while they are mapped here: touching what
 * is no longer there is a SIGBUS. With the guard it reads as zeros. */
#ifndef HEFT_SESSION_SESSION_GUARD_H
#define HEFT_SESSION_SESSION_GUARD_H

#include <stdbool.h>
#include <stddef.h>

enum { SESSION_GUARD_MOST = 16384 };

/* For the whole program; once is enough. */
void session_guard_install(void);
/* base: WIRE_FILE_BYTES of a mapped session file. False: more of them than can be guarded. */
bool session_guard_add(void *base);
/* The same for any mapping, of files of others that are only read. */
bool session_guard_add_bytes(void *base, size_t bytes);
void session_guard_remove(void *base);

#endif
