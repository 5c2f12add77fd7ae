/* The threads that we trace: seized, told to stop, seen to stop, let go.
 *
 * A seized thread stops for one of these reasons, and each is as good as another: it was told to
 * (PTRACE_EVENT_STOP), a signal is about to be delivered (which it then gets when it is let go), or it
 * makes a thread or a process. What it makes is traced from its first instruction on.
 *
 * Stops are looked at with WNOWAIT and never taken from the kernel. If heft is killed now, the kernel lets
 * all threads go, and a thread still gets the signal it stopped for: a stop that was taken would lose it.
 *
 * Nobody waits for one thread alone without looking at the others: a process that was killed ends only when
 * each of its traced threads has been seen to. */
#include "attach/stop_held.h"

#include "hosted/monotonic.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BRIEF_NS                                                                                   \
	20000000ull /* the longest that a thread that nothing interrupts is waited for by who only looks */
#define STEPS_NS 1000000000ull

#define PF_IO_WORKER 0x00000010u
#define PF_USER_WORKER 0x00004000u
#define PF_KTHREAD 0x00200000u
#define NAP_NS 20000
enum { SEIZE_TRIES = 10 };

static const uintptr_t seize_options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE |
				       PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
				       PTRACE_O_TRACEEXEC;

void held_nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

struct held *held_find(struct stop *s, pid_t tid)
{
	/* Threads are mostly asked for in the order in which they were found. */
	for (size_t i = 0; i < s->held.count; i++) {
		size_t at = (s->hint + i) % s->held.count;
		struct held *h = s->held.items[at];
		if (h->tid == tid && h->state != HELD_GONE) {
			s->hint = at + 1;
			return h;
		}
	}
	return NULL;
}

static struct held *add(struct stop *s, pid_t tid)
{
	struct held *h = vector_reserve(&s->held, 1) ? calloc(1, sizeof *h) : NULL;
	if (h) {
		h->tid = tid;
		s->held.items[s->held.count++] = h;
	}
	return h;
}

/* What it does now, without taking it from the kernel. WEXITED alone would take a stop as well. */
static bool look(const struct held *h, siginfo_t *info)
{
	*info = (siginfo_t){0};
	return !waitid(P_PID, (id_t)h->tid, info,
		       WEXITED | WSTOPPED | WNOWAIT | WNOHANG | __WALL | __WNOTHREAD);
}

static bool is_stop(const siginfo_t *info)
{
	return info->si_code == CLD_TRAPPED || info->si_code == CLD_STOPPED;
}

static void see_end(struct stop *s, struct held *h)
{
	siginfo_t info;
	waitid(P_PID, (id_t)h->tid, &info, WEXITED | WNOHANG | __WALL | __WNOTHREAD);
	h->state = HELD_GONE;
	if (h->tid == s->pid)
		s->ended = true;
}

/* ---- SEIZE while a thread begins another program
 *
 * A thread that calls exec waits until all other threads are gone, and those that we trace go when we have taken
 * their ends. SEIZE of the one that calls exec waits in the kernel until the exec is done: both would wait for
 * ever. A signal interrupts SEIZE, which begins again after the handler. So a timer sends one every few milliseconds,
 * and its handler takes the ends.
 *
 * This holds for the first SEIZE, too. We may trace threads that we do not know: a traced thread makes one that is traced
 * from birth, and is killed before we have seen that; or the one that calls exec takes another number. */

enum { INTERRUPT_MS = 10 };
#define INTERRUPT_SIGNAL (SIGRTMAX - 7)
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* Volatile: the compiler knows that ptrace calls nothing here, and would leave the store out. */
static __thread struct stop *volatile seizing;

static void take_ends(int signal)
{
	const int saved = errno;
	struct stop *s = seizing;
	struct task_walk walk;
	siginfo_t info;
	(void)signal;
	if (s)
		task_walk_begin(&walk, s);
	/* One that a traced thread has made is traced, too, before we know it. */
	for (pid_t tid; s && (tid = task_walk_next(&walk)) > 0;) {
		struct held unknown = {.tid = tid}, *h = held_find(s, tid);
		if (look(h ? h : &unknown, &info) && info.si_pid && !is_stop(&info))
			see_end(s, h ? h : &unknown);
	}
	errno = saved;
}

/* Without a timer SEIZE is called as it is. */
static bool make_timer(struct stop *s)
{
	struct sigaction action = {.sa_handler = take_ends, .sa_flags = SA_RESTART};
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = INTERRUPT_SIGNAL};
	event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
	if (!s->timer.made)
		s->timer.made = !sigaction(INTERRUPT_SIGNAL, &action, NULL) &&
				!timer_create(CLOCK_MONOTONIC, &event, &s->timer.id);
	return s->timer.made;
}

static long interruptible_seize(struct stop *s, pid_t tid)
{
	const struct itimerspec never = {0};
	const struct timespec often = {.tv_nsec = INTERRUPT_MS * 1000000L};
	const struct itimerspec soon = {often, often};
	sigset_t own, before;
	if (!make_timer(s))
		return ptrace(PTRACE_SEIZE, tid, NULL, seize_options);
	sigemptyset(&own);
	sigaddset(&own, INTERRUPT_SIGNAL);
	seizing = s;
	pthread_sigmask(SIG_UNBLOCK, &own, &before);
	timer_settime(s->timer.id, 0, &soon, NULL);
	long result = ptrace(PTRACE_SEIZE, tid, NULL, seize_options);
	const int why = errno;
	timer_settime(s->timer.id, 0, &never, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	seizing = NULL;
	errno = why;
	return result;
}

/* SEIZE said no: is there a reason that is none to worry about? */
static int not_seized(struct stop *s, pid_t tid, struct heft_error *err)
{
	int why = errno;
	unsigned flags = 0;
	char state = stop_task_state(s, tid, &flags), status[4096];
	if (why == ESRCH || !state || state == 'Z' || state == 'X')
		return 1;
	if (flags & (PF_IO_WORKER | PF_USER_WORKER | PF_KTHREAD))
		return 1; /* works for io_uring, never in the program's code */
	long tracer = stop_task_file(s, tid, "status", status, sizeof status)
			      ? stop_status_field(status, "TracerPid")
			      : 0;
	if (tracer > 0)
		return heft_fail(err, HEFT_EREFUSED,
				 "thread %d of process %d is already traced, by process %ld\n"
				 "A thread can have one tracer only: end that one first.",
				 tid, s->pid, tracer);
	errno = why;
	heft_fail_errno(err, "process %d: cannot trace its thread %d", s->pid, tid);
	return why == EPERM ? HEFT_EREFUSED : HEFT_EIO;
}

/* Traces a thread, unless it is traced already. 0; 1: there is nothing to trace, it has ended or is the kernel's own;
 * negative: an error. */
static int seize(struct stop *s, pid_t tid, struct heft_error *err)
{
	int result = 0;
	if (held_find(s, tid))
		return 0; /* since an earlier try: it waits for a processor, and has not stopped yet */
	/* While a process begins another program, its thread changes names, and SEIZE fails. */
	for (int tries = 0; tries < SEIZE_TRIES; tries++) {
		if (!interruptible_seize(s, tid))
			return add(s, tid) ? 0 : heft_fail(err, HEFT_ENOMEM, "no memory");
		/* If one of ours has made it, it is ours already: INTERRUPT does not fail. */
		int why = errno;
		if (why == EPERM && !ptrace(PTRACE_INTERRUPT, tid, NULL, NULL))
			return add(s, tid) ? 0 : heft_fail(err, HEFT_ENOMEM, "no memory");
		errno = why;
		result = not_seized(s, tid, err);
		if (result != HEFT_EREFUSED)
			break;
		held_nap();
	}
	return result;
}

int held_seize_new(struct stop *s, struct heft_error *err)
{
	struct task_walk walk;
	int found = 0;
	task_walk_begin(&walk, s);
	for (pid_t tid; (tid = task_walk_next(&walk)) > 0;) {
		if (held_find(s, tid))
			continue;
		int result = seize(s, tid, err);
		if (result < 0)
			return result;
		found += !result;
	}
	return found;
}

void held_interrupt(const struct held *h)
{
	ptrace(PTRACE_INTERRUPT, h->tid, NULL, NULL);
}

int held_stop(struct stop *s, pid_t tid, struct heft_error *err)
{
	int result = seize(s, tid, err);
	const struct held *h = result ? NULL : held_find(s, tid);
	if (h && h->state == HELD_RUNS)
		held_interrupt(h);
	return result;
}

void held_interrupt_all(struct stop *s)
{
	for (size_t i = 0; i < s->held.count; i++)
		if (s->held.items[i]->state == HELD_RUNS && !s->held.items[i]->child)
			held_interrupt(s->held.items[i]);
}

/* A stopped thread may be killed. It is not stopped any more then, and its end waits for us. */
static void see_killed(struct stop *s, struct held *h)
{
	siginfo_t info;
	if (h->state == HELD_STOPPED && (!look(h, &info) || (info.si_pid && !is_stop(&info))))
		see_end(s, h);
}

/* A thread or a process was made. It is traced, and will stop before its first instruction. */
static void see_made(struct stop *s, const struct held *maker)
{
	unsigned long made = 0;
	int event = maker->event;
	bool by_child = maker->child;
	if (ptrace(PTRACE_GETEVENTMSG, maker->tid, NULL, &made) || !made)
		return;
	struct held *h = held_find(s, (pid_t)made);
	if (!h)
		h = add(s, (pid_t)made);
	if (!h)
		return;
	h->child = by_child || event != PTRACE_EVENT_CLONE || !stop_task_state(s, h->tid, NULL);
	if (h->child && !by_child &&
	    (event == PTRACE_EVENT_VFORK || sharers_same_memory(maker->tid, h->tid)))
		s->shared = true;
}

void held_poll(struct stop *s, struct held *h)
{
	siginfo_t info;
	if (!look(h, &info)) {
		h->state = HELD_GONE; /* not traced any more: it has ended */
		if (h->tid == s->pid)
			s->ended = true;
		return;
	}
	if (!info.si_pid)
		return;
	if (!is_stop(&info)) {
		see_end(s, h);
		return;
	}
	h->state = HELD_STOPPED;
	h->event = info.si_status >> 8;
	h->signal = 0;
	if (!h->event && info.si_status != (SIGTRAP | 0x80))
		h->signal = info.si_status;
	arch_read(s, h);
	switch (h->event) {
	case PTRACE_EVENT_CLONE:
	case PTRACE_EVENT_FORK:
	case PTRACE_EVENT_VFORK: see_made(s, h); break;
	case PTRACE_EVENT_EXEC:
		s->ended = true; /* another program, in other memory */
		break;
	}
}

void held_release_children(struct stop *s)
{
	for (size_t i = 0; i < s->held.count && !s->all; i++) {
		struct held *h = s->held.items[i];
		if (h->child && h->state == HELD_RUNS)
			held_poll(s, h);
		if (!h->child || h->state != HELD_STOPPED)
			continue;
		change_repair_child(s, h);
		held_release(h);
	}
}

size_t held_poll_all(struct stop *s)
{
	size_t late = 0;
	for (size_t i = 0; i < s->held.count; i++) {
		struct held *h = s->held.items[i];
		if (h->state == HELD_RUNS)
			held_poll(s, h);
		late += h->state == HELD_RUNS && !h->child;
	}
	return late;
}

/* A first thread that ended before the others stays, and never runs. */
static void see_first_end(struct stop *s, struct held *h)
{
	char state = h->tid == s->pid ? stop_task_state(s, h->tid, NULL) : 'R';
	if (state == 'Z' || state == 'X')
		h->state = HELD_GONE;
}

void held_wait(struct stop *s, struct held *h)
{
	for (unsigned round = 1; h->state == HELD_RUNS; round++) {
		held_poll(s, h);
		if (h->state != HELD_RUNS)
			return;
		held_nap();
		if (round % 64 == 0) {
			held_release_children(s);
			for (size_t i = 0; i < s->held.count; i++)
				see_killed(s, s->held.items[i]);
			see_first_end(s, h);
		}
	}
}

void held_release(struct held *h)
{
	if (h->state != HELD_STOPPED)
		return;
	if (!ptrace(PTRACE_DETACH, h->tid, NULL, (uintptr_t)h->signal))
		h->state = HELD_GONE;
	else /* it was killed in its stop, and ends now */
		h->state = HELD_RUNS;
}

static void sweep(struct stop *s)
{
	size_t kept = 0;
	for (size_t i = 0; i < s->held.count; i++)
		if (s->held.items[i]->state != HELD_GONE)
			s->held.items[kept++] = s->held.items[i];
		else
			free(s->held.items[i]);
	s->held.count = kept;
	if (!kept)
		s->changed.count = 0;
}

void held_release_stopped(struct stop *s)
{
	/* To repair one may mean to wait until it has had a processor: that one comes last. */
	for (int late = 0; late < 2; late++)
		for (size_t i = 0; i < s->held.count; i++) {
			struct held *h = s->held.items[i];
			if (h->child || h->state != HELD_STOPPED ||
			    (!late && !h->seen && s->changed.count))
				continue;
			change_repair_late(s, h);
			held_release(h);
		}
}

size_t stop_unsettled(struct stop *s)
{
	size_t left = 0;
	for (size_t i = 0; i < s->held.count; i++) {
		struct held *h = s->held.items[i];
		if (h->tid == s->borrowed)
			continue;
		if (h->state == HELD_RUNS)
			held_poll(s, h);
		if (h->state == HELD_RUNS)
			see_first_end(s, h);
		left += h->state == HELD_RUNS;
		if (h->state != HELD_STOPPED)
			continue;
		if (h->child)
			change_repair_child(s, h);
		else
			change_repair_late(s, h);
		held_release(h);
	}
	sweep(s);
	return left;
}

void stop_be_brief(struct stop *s, void (*step)(void *ctx), void *ctx)
{
	s->brief = true;
	s->step = step;
	s->step_ctx = ctx;
}

/* Whether all threads that have not gone on yet are where nothing interrupts them: then they get no EINTR either. */
static bool only_uninterruptible(const struct stop *s)
{
	for (size_t i = 0; i < s->held.count; i++) {
		const struct held *h = s->held.items[i];
		if (h->state == HELD_RUNS && h->tid != s->borrowed &&
		    (h->child || stop_task_state(s, h->tid, NULL) != 'D'))
			return false;
	}
	return true;
}

void held_settle(struct stop *s, uint64_t until_ns)
{
	const uint64_t began_ns = monotonic_ns();
	for (unsigned round = 0; stop_unsettled(s) && monotonic_ns() < until_ns; round++) {
		const uint64_t waited_ns = monotonic_ns() - began_ns;
		if (s->brief && !s->changed.count && waited_ns > BRIEF_NS &&
		    only_uninterruptible(s))
			return;
		if (s->step && waited_ns < STEPS_NS)
			s->step(s->step_ctx);
		held_nap();
		/* A thread that only a slow disk can wake is not worth a processor. */
		if (round > 1000)
			nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
	}
}
