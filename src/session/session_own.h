/* Where heft's library has memory of its own in a process, as the process's session file says. */
#ifndef HEFT_SESSION_SESSION_OWN_H
#define HEFT_SESSION_SESSION_OWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SESSION_OWNS = 1024 };
struct session_own {
	uint64_t at, bytes; /* at is 0: an empty place */
};
typedef bool session_own_read_fn(void *ctx, uint64_t at, void *to, size_t bytes);

/* Reads it by `read` from memory of the process that has the file's beginning at `start`. Who uses it checks it. False: it
 * is not there, or of another version. */
bool session_own_read(struct session_own own[SESSION_OWNS], uint64_t start,
		      session_own_read_fn *read, void *ctx);

#endif
