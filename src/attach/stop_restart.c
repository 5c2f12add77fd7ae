/* Which system calls may be made again after they said EINTR because of our stop.
 *
 * The kernel restarts most calls by itself when no handler of the program's ran. The calls below say EINTR
 * even then. They have done nothing when they say so: what they wait for has not come, and nothing was taken
 * or given. Made again they wait again; one with a time limit waits that long once more.
 *
 * Calls that are not here keep their EINTR. connect has sent its request and must not send another; close has
 * freed its number, which may be another file by now; ioctl is whatever a driver makes of it. */
#include "attach/stop_held.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

/* On a socket a write that says EINTR has sent nothing. Of file systems in user space nobody knows. */
static bool is_socket(const struct stop *s, pid_t tid, uint64_t fd)
{
	char path[64], to[32];
	snprintf(path, sizeof path, "%d/fd/%d", tid, (int)fd);
	ssize_t n = readlinkat(s->tasks, path, to, sizeof to);
	return n > 8 && !strncmp(to, "socket:[", 8);
}

bool restart_is_safe(const struct stop *s, pid_t tid, long number, const uint64_t args[6])
{
	switch (number) {
	/* wait for one of several files */
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
	case SYS_epoll_pwait2:
	case SYS_poll:
	case SYS_ppoll:
	case SYS_select:
	case SYS_pselect6:
	/* wait for signals, time, processes, locks, messages */
	case SYS_pause:
	case SYS_rt_sigsuspend:
	case SYS_rt_sigtimedwait:
	case SYS_nanosleep:
	case SYS_clock_nanosleep:
	case SYS_restart_syscall:
	case SYS_wait4:
	case SYS_waitid:
	case SYS_futex:
	case SYS_flock:
	case SYS_semop:
	case SYS_semtimedop:
	case SYS_msgrcv:
	case SYS_msgsnd:
	case SYS_mq_timedreceive:
	case SYS_mq_timedsend:
	case SYS_io_getevents:
	case SYS_io_uring_enter: /* says how many it submitted, if any */
	/* take what has come */
	case SYS_read:
	case SYS_readv:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_recvmmsg:
	case SYS_accept:
	case SYS_accept4:
	/* a socket with a time limit for sending */
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_sendmmsg: return true;
	case SYS_write:
	case SYS_writev: return is_socket(s, tid, args[0]);
	case SYS_fcntl: return args[1] == F_SETLKW || args[1] == F_OFD_SETLKW;
	case SYS_fallocate: /* undone when it is interrupted; twice is as good as once but for these */
		return !(args[1] & (FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE));
	}
	return false;
}
