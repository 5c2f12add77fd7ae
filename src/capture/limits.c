/* Functions by which a program locks or limits its memory: the inside then maps
 * less of its session file (file_parts.c). */
#include "capture/inside.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/types.h>

static int (*next_mlockall)(int);
static int (*next_setrlimit)(int, const struct rlimit *);
static int (*next_prlimit)(pid_t, int, const struct rlimit *, struct rlimit *);

void heft_limits_init(void)
{
	next_setrlimit = (__typeof__(next_setrlimit))heft_next_symbol("setrlimit");
	next_prlimit = (__typeof__(next_prlimit))heft_next_symbol("prlimit");
	next_mlockall = (__typeof__(next_mlockall))heft_next_symbol("mlockall");
}

EXPORT int mlockall(int flags)
{
	heft_resolve_next();
	heft_parts_shrink();
	return next_mlockall ? next_mlockall(flags)
			     : (int)heft_as_libc(sys_call4(SYS_mlockall, flags, 0, 0, 0));
}

/* The program limits its own addresses. The call has succeeded, so the limit can be read. */
static int limited(int rc, int resource, const struct rlimit *limit)
{
	int saved = errno;
	if (!rc && resource == RLIMIT_AS && limit &&
	    limit->rlim_cur / HEFT_PART_SHARE < WIRE_FILE_BYTES)
		heft_parts_shrink();
	errno = saved;
	return rc;
}

/* Each has two names: files of any size are no option on 64 bits. */
#define LIMITS(name)                                                                               \
	EXPORT int heft_set##name(int resource, const struct rlimit *limit) __asm__("set" #name);  \
	EXPORT int heft_set##name(int resource, const struct rlimit *limit)                        \
	{                                                                                          \
		heft_resolve_next();                                                               \
		return limited(next_setrlimit                                                      \
				       ? next_setrlimit(resource, limit)                           \
				       : (int)heft_as_libc(sys_call4(SYS_setrlimit, resource,      \
								     (long)limit, 0, 0)),          \
			       resource, limit);                                                   \
	}
LIMITS(rlimit)
LIMITS(rlimit64)
#undef LIMITS

#define LIMITS(name)                                                                               \
	EXPORT int heft_##name(pid_t pid, int resource, const struct rlimit *limit,                \
			       struct rlimit *old) __asm__(#name);                                 \
	EXPORT int heft_##name(pid_t pid, int resource, const struct rlimit *limit,                \
			       struct rlimit *old)                                                 \
	{                                                                                          \
		heft_resolve_next();                                                               \
		int rc = next_prlimit ? next_prlimit(pid, resource, limit, old)                    \
				      : (int)heft_as_libc(sys_call4(SYS_prlimit64, pid, resource,  \
								    (long)limit, (long)old));      \
		return pid && pid != sys_getpid() ? rc : limited(rc, resource, limit);             \
	}
LIMITS(prlimit)
LIMITS(prlimit64)
#undef LIMITS
