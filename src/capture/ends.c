/* When processes end.
 *
 * The outside sees that a process is gone only when it next looks, some
 * milliseconds late. Until then the process's blocks would count as live, and a
 * program with many short children would seem to have had all of them at once. So the
 * end gets a place in the order of events: a process notes when it calls exit, _exit
 * or exec, and a process that waits for a child notes when the wait returned, and how
 * the child ended. For a child that was killed that is all there is. commands.c is about
 * children that are waited for in other ways.
 *
 * Nothing here takes a lock, or makes a system call that the program does not
 * make itself (but for the ledger, which knows about sandboxes): a sandbox may kill a program for getpid. All of these functions may be
 * called in a signal handler, or in a vfork child. A vfork child writes into its
 * parent's memory, so its _exit looks like the parent's. What the parent records later
 * corrects that, or its own end does.
 *
 * They never call each other by their exported names: a program may have functions of
 * these names itself. */
#include "capture/count.h"
#include "capture/ledger_request.h"
#include "capture/map_calls.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t (*next_wait4)(pid_t, int *, int, struct rusage *);
static int (*next_waitid)(idtype_t, id_t, siginfo_t *, int);
static void (*next__exit)(int);
static void (*next_exit)(int);
static void (*next_quick_exit)(int);

void heft_ends_init(void)
{
	next_wait4 = (__typeof__(next_wait4))heft_next_symbol("wait4");
	next_waitid = (__typeof__(next_waitid))heft_next_symbol("waitid");
	next__exit = (__typeof__(next__exit))heft_next_symbol("_exit");
	next_exit = (__typeof__(next_exit))heft_next_symbol("exit");
	next_quick_exit = (__typeof__(next_quick_exit))heft_next_symbol("quick_exit");
}

static void note_exit(void)
{
	struct wire_header *h = heft_own_header();
	if (h) {
		heft_count_publish();
		atomic_store(&h->exit_tsc, arch_stamp());
	}
}

static __attribute__((destructor)) void at_end(void)
{
	heft_break_look_last();
	note_exit();
}

static __attribute__((noreturn)) void leave_now(int status)
{
	note_exit();
	heft_sandbox_leave();
	if (next__exit)
		next__exit(status);
	for (;;)
		sys_call4(SYS_exit_group, status, 0, 0, 0);
}

EXPORT __attribute__((noreturn)) void _exit(int status)
{
	leave_now(status);
}

EXPORT __attribute__((noreturn)) void _Exit(int status)
{
	leave_now(status);
}

/* Its handlers run after this. The moment of the end is noted when they are done. */
EXPORT __attribute__((noreturn)) void exit(int status)
{
	heft_ledger_at_exit();
	if (next_exit)
		next_exit(status);
	leave_now(status);
}

EXPORT __attribute__((noreturn)) void quick_exit(int status)
{
	heft_ledger_at_exit();
	note_exit(); /* its handlers run after this; what they record moves the end */
	if (next_quick_exit)
		next_quick_exit(status);
	leave_now(status);
}

static uint32_t span(uint64_t cycles)
{
	cycles = (cycles >> WIRE_SINCE_SHIFT) + 1;
	return cycles < UINT32_MAX ? (uint32_t)cycles : UINT32_MAX;
}

void heft_reaped(struct wire_header *h, int pid, uint32_t status, uint32_t maxrss_kib,
		 uint64_t since_tsc)
{
	uint64_t now = arch_stamp();
	uint32_t number = atomic_fetch_add(&h->reap_count, 1);
	struct wire_reap *r = &h->reaps[number % WIRE_REAPS];
	atomic_store(&r->status, status);
	atomic_store(&r->maxrss_kib, maxrss_kib);
	atomic_store(&r->since, pid ? 0 : span(now - since_tsc));
	atomic_store(&r->tsc, now);
	atomic_store(&r->pid_number, (uint64_t)(number + 1u) << 32 | (uint32_t)pid);
}

static void reaped(pid_t pid, int status, uint32_t maxrss_kib)
{
	struct wire_header *h = heft_own_header();
	if (h)
		heft_reaped(h, pid, (uint16_t)status | WIRE_STATUS_KNOWN, maxrss_kib, 0);
}

/* All functions that wait by pid are this one to the kernel. It always asks for the child's resource usage. */
static pid_t wait_for(pid_t pid, int *status, int options, struct rusage *usage)
{
	int own_status = 0;
	struct rusage own_usage;
	if (!status)
		status = &own_status;
	if (!usage)
		usage = &own_usage;
	pid_t child = next_wait4 ? next_wait4(pid, status, options, usage)
				 : (pid_t)heft_as_libc(sys_call4(SYS_wait4, pid, (long)status,
								 options, (long)usage));
	if (child > 0 && (WIFEXITED(*status) || WIFSIGNALED(*status)))
		reaped(child, *status, (uint32_t)usage->ru_maxrss);
	return child;
}

EXPORT pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
	return wait_for(pid, status, options, usage);
}

EXPORT pid_t wait3(int *status, int options, struct rusage *usage)
{
	return wait_for(-1, status, options, usage);
}

EXPORT pid_t waitpid(pid_t pid, int *status, int options)
{
	return wait_for(pid, status, options, NULL);
}

EXPORT pid_t wait(int *status)
{
	return wait_for(-1, status, 0, NULL);
}

/* The status word of the other functions. */
static int status_of(const siginfo_t *info)
{
	if (info->si_code == CLD_EXITED)
		return (info->si_status & 0xff) << 8;
	return (info->si_status & 0x7f) | (info->si_code == CLD_DUMPED ? 0x80 : 0);
}

EXPORT int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
	siginfo_t own_info = {0};
	if (!info)
		info = &own_info;
	int rc = next_waitid ? next_waitid(type, id, info, options)
			     : (int)heft_as_libc(sys_call6(SYS_waitid, (long)type, (long)id,
							   (long)info, options, 0, 0));
	if (!rc && info->si_pid > 0 &&
	    (info->si_code == CLD_EXITED || info->si_code == CLD_KILLED ||
	     info->si_code == CLD_DUMPED))
		reaped(info->si_pid, status_of(info), 0);
	return rc;
}
