/* system() and popen(): libc makes the child and waits for it without calling any of
 * our functions, and we do not learn the child's pid. So we note that a child has ended
 * which began between two moments: the call of system() and its return, or the calls
 * of popen() and pclose().
 *
 * Nothing here takes a lock. If the table has no place for a stream, or if the program
 * closes it with fclose(), the outside sees by itself that the child has ended. */
#include "capture/inside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { STREAMS = 32 };

static int (*next_system)(const char *);
static FILE *(*next_popen)(const char *, const char *);
static int (*next_pclose)(FILE *);

static struct {
	_Atomic(FILE *) stream;
	_Atomic uint64_t since_tsc;
} opened[STREAMS];

void heft_commands_init(void)
{
	next_system = (__typeof__(next_system))heft_next_symbol("system");
	next_popen = (__typeof__(next_popen))heft_next_symbol("popen");
	next_pclose = (__typeof__(next_pclose))heft_next_symbol("pclose");
}

static void note_end(int status, uint64_t since_tsc)
{
	struct wire_header *h = heft_own_header();
	if (h)
		heft_reaped(h, 0, (uint16_t)status | WIRE_STATUS_KNOWN, 0, since_tsc);
}

EXPORT int system(const char *command)
{
	uint64_t since_tsc = sys_may_stamp() ? arch_stamp() : 0;
	heft_resolve_next();
	if (!next_system) {
		errno = ENOSYS;
		return -1;
	}
	int rc = next_system(command);
	if (command && rc != -1)
		note_end(rc, since_tsc);
	return rc;
}

EXPORT FILE *popen(const char *command, const char *mode)
{
	uint64_t since_tsc = sys_may_stamp() ? arch_stamp() : 0;
	heft_resolve_next();
	if (!next_popen) {
		errno = ENOSYS;
		return NULL;
	}
	FILE *stream = next_popen(command, mode);
	for (uint32_t i = 0; stream && i < STREAMS; i++) {
		FILE *none = NULL;
		if (atomic_compare_exchange_strong(&opened[i].stream, &none, stream)) {
			atomic_store(&opened[i].since_tsc, since_tsc);
			break;
		}
	}
	return stream;
}

EXPORT int pclose(FILE *stream)
{
	uint64_t since_tsc = 0;
	heft_resolve_next();
	/* Before it is closed: after that another thread's stream may have the same address. */
	for (uint32_t i = 0; i < STREAMS && !since_tsc; i++) {
		FILE *kept = atomic_load(&opened[i].stream);
		if (kept && kept == stream) {
			since_tsc = atomic_load(&opened[i].since_tsc);
			atomic_store(&opened[i].stream, NULL);
		}
	}
	if (!next_pclose) {
		errno = ENOSYS;
		return -1;
	}
	int rc = next_pclose(stream);
	if (rc != -1 && since_tsc)
		note_end(rc, since_tsc);
	return rc;
}
