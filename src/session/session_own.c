/* heft's own memory in a process that another heft records (session_own.h): whoever records it has the file mapped; anybody
 * else who may read the process finds the file's header there. */
#include "session/session_own.h"

#include "wire/session.h"

#include <string.h>

bool session_own_read(struct session_own own[SESSION_OWNS], uint64_t start,
		      session_own_read_fn *read, void *ctx)
{
	_Static_assert((int)SESSION_OWNS == WIRE_OWNS && sizeof *own == sizeof(struct wire_own),
		       "the same words");
	uint32_t version = 0, used = 0;
	memset(own, 0, SESSION_OWNS * sizeof *own);
	return read(ctx, start + offsetof(struct wire_header, version), &version, sizeof version) &&
	       version == WIRE_VERSION &&
	       read(ctx, start + offsetof(struct wire_header, own_used), &used, sizeof used) &&
	       read(ctx, start + offsetof(struct wire_header, own), own,
		    (used < SESSION_OWNS ? used : SESSION_OWNS) * sizeof *own);
}
