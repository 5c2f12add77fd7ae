/* Holding a program at its start.
 *
 * Right after the exec, a static program is at its first instruction, and all of its code is there. Of others only the
 * program and its loader are. The loader tells debuggers when it has mapped the libraries: it calls a function that
 * does nothing, _dl_debug_state, and says in its struct r_debug that the list of modules is consistent. No
 * constructor has run by then. A trap stands at that function, and one at the program's entry: a loader
 * without such a function gets there, and what constructors of libraries allocate is missed.
 *
 * Traps are taken away before the program goes on. If heft is killed meanwhile, one that is left ends the program,
 * which has not done anything yet.
 *
 * Stops are looked at and not taken from the kernel (stop_held.c says why). Signals go on to the program. */
#include "attach/start.h"

#include "attach/target_links.h"
#include "hosted/proc_text.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TRAPS = 2, TRACE_TRIES = 100, TRACE_WAIT_NS = 2000000 };
#define CONSISTENT 0 /* RT_CONSISTENT of r_debug.r_state */

struct trap {
	uint64_t at; /* 0: there is none */
	uint8_t old;
	bool set;
};

struct start {
	pid_t pid;
	int memory;
	uint64_t entry, base;          /* of the auxiliary vector; base 0: there is no loader */
	struct target_modules modules; /* right after the exec */
	struct trap traps[TRAPS];
};

/* ---- one stop after the other */

struct happened {
	bool ended;
	int event, signal; /* of PTRACE_EVENT_*; or a signal that it is about to get */
};

static struct happened wait_for_stop(pid_t pid)
{
	siginfo_t info = {0};
	while (waitid(P_PID, (id_t)pid, &info,
		      WEXITED | WSTOPPED | WNOWAIT | __WALL | __WNOTHREAD) < 0)
		if (errno != EINTR)
			return (struct happened){.ended = true};
	if (info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED)
		return (struct happened){.event = info.si_status >> 8,
					 .signal = info.si_status & 0x7f};
	/* Its end is its parent's to see; we let go of it. */
	waitid(P_PID, (id_t)pid, &info, WEXITED | __WALL | __WNOTHREAD);
	return (struct happened){.ended = true};
}

/* Lets it run on from a stop that was none of ours. */
static void pass(pid_t pid, struct happened h)
{
	bool stays = h.event == PTRACE_EVENT_STOP && h.signal != SIGTRAP; /* SIGSTOP and the like */
	if (stays)
		ptrace(PTRACE_LISTEN, pid, NULL, NULL);
	else
		ptrace(PTRACE_CONT, pid, NULL, h.event ? NULL : (void *)(uintptr_t)h.signal);
}

static int ended(pid_t pid, struct heft_error *err)
{
	return heft_fail(err, HEFT_ENOTFOUND, "process %d has ended before it began", (int)pid);
}

/* ---- what was executed */

static void find_loader_function(struct start *s)
{
	static const char *const name[] = {"_dl_debug_state"};
	struct target_function found = {0};
	struct heft_error ignored;
	ssize_t loader = target_module_at(&s->modules, s->base);
	if (loader >= 0 &&
	    !target_functions(&s->modules, (size_t)loader, name, &found, 1, &ignored))
		s->traps[1].at = found.address;
}

/* ---- traps */

static const uint8_t trap_byte = 0xcc;

static bool set_trap(struct start *s, struct trap *t)
{
	t->set = pread(s->memory, &t->old, 1, (off_t)t->at) == 1 &&
		 pwrite(s->memory, &trap_byte, 1, (off_t)t->at) == 1;
	return t->set;
}

static bool remove_trap(const struct start *s, const struct trap *t)
{
	return pwrite(s->memory, &t->old, 1, (off_t)t->at) == 1;
}

static bool set_pc(pid_t pid, uint64_t pc)
{
	return !ptrace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, rip), pc);
}

/* The trap that it has run into; NULL: it has not. */
static struct trap *trapped(struct start *s, struct happened h)
{
	siginfo_t info;
	errno = 0;
	long pc = ptrace(PTRACE_PEEKUSER, s->pid, offsetof(struct user_regs_struct, rip), NULL);
	if (errno || h.event || h.signal != SIGTRAP ||
	    ptrace(PTRACE_GETSIGINFO, s->pid, NULL, &info) || info.si_code != SI_KERNEL)
		return NULL;
	for (unsigned i = 0; i < TRAPS; i++)
		if (s->traps[i].at && (uint64_t)pc == s->traps[i].at + 1)
			return &s->traps[i];
	return NULL;
}

/* The loader's list is whole. One that is not known is taken for whole. */
static bool is_consistent(const struct start *s)
{
	struct {
		uint64_t version, first, function;
		uint32_t state, unused;
	} debug = {0};
	uint64_t at = target_debug(&s->modules);
	return !at || !target_modules_memory(&s->modules, at, &debug, sizeof debug) ||
	       (debug.first && debug.state == CONSISTENT);
}

/* Runs the instruction under a trap. */
static bool step_over(struct start *s, struct trap *t)
{
	struct happened h = {0};
	if (!remove_trap(s, t) || !set_pc(s->pid, t->at))
		return false;
	do {
		if (ptrace(PTRACE_SINGLESTEP, s->pid, NULL, NULL))
			return false;
		h = wait_for_stop(s->pid);
	} while (!h.ended && (h.event || h.signal != SIGTRAP));
	return !h.ended && set_trap(s, t);
}

/* Stands still as stop.h wants it: PTRACE_EVENT_STOP, not a stop for a signal. */
static int stand_still(pid_t pid, struct heft_error *err)
{
	if (ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) || ptrace(PTRACE_CONT, pid, NULL, NULL))
		return ended(pid, err);
	for (;;) {
		struct happened h = wait_for_stop(pid);
		if (h.ended)
			return ended(pid, err);
		if (h.event == PTRACE_EVENT_STOP)
			return 0;
		ptrace(PTRACE_INTERRUPT, pid, NULL, NULL);
		pass(pid, h);
	}
}

static int run_to_trap(struct start *s, struct heft_error *err)
{
	ptrace(PTRACE_CONT, s->pid, NULL, NULL);
	for (;;) {
		struct happened h = wait_for_stop(s->pid);
		if (h.ended)
			return ended(s->pid, err);
		struct trap *t = trapped(s, h);
		if (!t) {
			pass(s->pid, h);
			continue;
		}
		if (t != s->traps && !is_consistent(s)) {
			if (!step_over(s, t))
				return ended(s->pid, err);
			ptrace(PTRACE_CONT, s->pid, NULL, NULL);
			continue;
		}
		bool removed = set_pc(s->pid, t->at);
		for (unsigned i = 0; i < TRAPS; i++)
			removed &= !s->traps[i].at || remove_trap(s, &s->traps[i]);
		return removed ? 0 : ended(s->pid, err);
	}
}

static int run_to_libraries(struct start *s, struct heft_error *err)
{
	char path[64];
	int rc = 0;
	snprintf(path, sizeof path, "/proc/%d/mem", (int)s->pid);
	s->memory = open(path, O_RDWR | O_CLOEXEC);
	if (s->memory < 0)
		return heft_fail_errno(err, "cannot open the memory of process %d", (int)s->pid);
	s->traps[0].at = s->entry;
	find_loader_function(s);
	for (unsigned i = 0; i < TRAPS && !rc; i++)
		if (s->traps[i].at && !set_trap(s, &s->traps[i]))
			rc = heft_fail_errno(err, "cannot write to process %d", (int)s->pid);
	if (!rc)
		rc = run_to_trap(s, err);
	for (unsigned i = 0; i < TRAPS && rc; i++)
		if (s->traps[i].set)
			remove_trap(s, &s->traps[i]);
	close(s->memory);
	return rc;
}

enum {
	TRACED = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC,
	TRACED_PARENT = TRACED | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEFORK | PTRACE_O_TRACECLONE,
};

static int seize(pid_t pid, uintptr_t options, bool wait, struct heft_error *err)
{
	/* Where only parents may trace (Yama), the process says that others may, which takes it a moment. */
	for (int i = 0; i < TRACE_TRIES; i++) {
		if (!ptrace(PTRACE_SEIZE, pid, NULL, (void *)options))
			return 0;
		if (errno != EPERM || !wait)
			break;
		nanosleep(&(struct timespec){.tv_nsec = TRACE_WAIT_NS}, NULL);
		errno = EPERM;
	}
	int why = errno;
	char text[16];
	proc_text(text, sizeof text, "/proc/sys/kernel/yama/ptrace_scope");
	if (why == ESRCH)
		return ended(pid, err);
	if (text[0] == '2' || text[0] == '3')
		return heft_fail(err, HEFT_EREFUSED,
				 "this system lets %s trace a process: "
				 "kernel.yama.ptrace_scope is %c\n%s",
				 text[0] == '3' ? "nobody" : "only root", text[0],
				 text[0] == '3' ? "It stays so until the next boot."
						: "Run heft as root.");
	return heft_fail(err, HEFT_EREFUSED,
			 "the system does not permit to trace a process that heft has started: %s\n"
			 "In a container heft needs the system call ptrace and perhaps the "
			 "capability SYS_PTRACE (docker run --cap-add=SYS_PTRACE).",
			 strerror(why));
}

int start_trace(pid_t pid, bool wait, struct heft_error *err)
{
	return seize(pid, TRACED, wait, err);
}

int start_trace_parent(pid_t tid, bool wait, struct heft_error *err)
{
	return seize(tid, TRACED_PARENT, wait, err);
}

/* The kernel traces the child as the parent is traced. It begins with a stop. */
int start_trace_child(pid_t tid, pid_t *child, struct heft_error *err)
{
	unsigned long number = 0;
	for (;;) {
		struct happened h = wait_for_stop(tid);
		if (h.ended)
			return ended(tid, err);
		if (h.event == PTRACE_EVENT_VFORK || h.event == PTRACE_EVENT_FORK ||
		    h.event == PTRACE_EVENT_CLONE)
			break;
		pass(tid, h);
	}
	bool known = !ptrace(PTRACE_GETEVENTMSG, tid, NULL, &number);
	ptrace(PTRACE_DETACH, tid, NULL, NULL);
	*child = (pid_t)number;
	if (!known || wait_for_stop(*child).ended ||
	    ptrace(PTRACE_SETOPTIONS, *child, NULL, (void *)(uintptr_t)TRACED) ||
	    ptrace(PTRACE_CONT, *child, NULL, NULL))
		return ended(tid, err);
	return 0;
}

int start_hold(pid_t pid, unsigned execs, struct heft_error *err)
{
	struct start s = {.pid = pid, .memory = -1};
	for (;;) {
		struct happened h = wait_for_stop(pid);
		if (h.ended)
			return ended(pid, err);
		if (h.event == PTRACE_EVENT_EXEC && !--execs)
			break;
		pass(pid, h);
	}
	int rc = target_modules_read(&s.modules, pid, err);
	if (rc)
		return rc;
	s.entry = target_auxiliary(pid, AT_ENTRY);
	s.base = target_auxiliary(pid, AT_BASE);
	if (s.base)
		rc = run_to_libraries(&s, err);
	if (!rc)
		rc = stand_still(pid, err);
	target_modules_fini(&s.modules);
	return rc;
}
