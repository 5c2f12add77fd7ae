/* The guard of mapped files (hosted/map_guard.h) for session files. After a cut a session file reads
 * as zeros, which no table takes for an entry, and the header's magic is gone, by which the owner of
 * the mapping notices. */
#include "session/session_guard.h"

#include "hosted/map_guard.h"
#include "wire/session.h"

_Static_assert((int)SESSION_GUARD_MOST == (int)MAP_GUARD_MOST, "one list");

bool session_guard_add(void *base)
{
	return map_guard_add(base, WIRE_FILE_BYTES);
}

void session_guard_remove(void *base)
{
	map_guard_remove(base);
}

void session_guard_install(void)
{
	map_guard_this_thread();
}
