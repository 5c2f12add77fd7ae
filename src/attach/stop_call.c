/* System calls in a thread of the process. The thread is stopped, its signals are blocked, it runs one
 * instruction of its own memory that enters the kernel, with our registers, and then gets its own back.
 *
 * An interrupted call of its own must go on afterwards. The kernel sees to that only on the way out of
 * PTRACE_EVENT_STOP, so the thread is brought to one before (signals pending then have been delivered)
 * and once more at the end, and gets its registers there. */
#include "attach/stop_held.h"

#include "hosted/monotonic.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ull
enum {
	TRY_THREADS = 8, /* at most so many threads are asked to stop */
	MOST_STOPS = 10000,
	REST_TRIES = 5,
};
#define WAIT_NS (100 * MS)
#define TRY_NS (50 * MS) /* before the next one is asked as well */
#define BORROW_NS (2000 * MS)
#define REST_AFTER_NS (5 * MS)
#define REST_NS 1000000

static struct held *borrowed(struct stop *s)
{
	return s->borrowed ? held_find(s, s->borrowed) : NULL;
}

/* On a loaded machine a thread that was woken waits for a processor while others have their time, and it is woken several
 * times for each call: that made up to half a second for a thread which computes. So it has a real-time priority
 * meanwhile, where that is permitted. If we are killed, it gives that back itself (stop_frame_x86_64.c), so it has it only
 * if the frame could be made. In a sandbox the call for that may be forbidden. */
static void plan_hurry(struct stop *s, const struct held *h)
{
	const int policy = s->has_filter ? -1 : sched_getscheduler(h->tid);
	const bool ordinary = policy == SCHED_OTHER || policy == SCHED_BATCH ||
			      policy == SCHED_IDLE;
	s->hurry.tid = 0;
	s->hurry.policy = ordinary ? policy : -1;
}

static void hurry(struct stop *s, const struct held *h)
{
	const struct sched_param least = {.sched_priority = 1}; /* ours is higher */
	if (s->hurry.policy >= 0 && s->frame.at && !sched_setscheduler(h->tid, SCHED_FIFO, &least))
		s->hurry.tid = h->tid;
}

static void hurry_no_more(struct stop *s)
{
	const struct sched_param none = {0};
	if (s->hurry.tid)
		sched_setscheduler(s->hurry.tid, s->hurry.policy, &none);
	s->hurry.tid = 0;
}

static void let_go(struct stop *s)
{
	hurry_no_more(s);
	stop_restore_priority(s);
}

static int lost(struct stop *s, struct heft_error *err)
{
	s->borrowed = 0;
	if (!s->all)
		let_go(s);
	return stop_ended(s, err);
}

/* Lets it run on to its next stop. */
static bool run_on(struct stop *s, struct held *h, enum __ptrace_request how)
{
	int signal = h->signal;
	h->signal = 0;
	h->state = HELD_RUNS;
	/* If this fails, it was killed, and its end is what we see next. */
	ptrace(how, h->tid, NULL, (uintptr_t)signal);
	held_wait(s, h);
	return h->state == HELD_STOPPED;
}

/* Brings a stopped thread to PTRACE_EVENT_STOP. Signals on the way are delivered: their handlers' frames are
 * made, and their handlers run when the thread is let go. */
static bool to_event_stop(struct stop *s, struct held *h, bool fresh)
{
	for (int i = 0; i < MOST_STOPS && (fresh || h->event != PTRACE_EVENT_STOP); i++) {
		fresh = false;
		held_interrupt(h);
		if (!run_on(s, h, PTRACE_CONT))
			return false;
	}
	return h->event == PTRACE_EVENT_STOP;
}

static int see_to_sandbox(struct stop *s, struct held *h, struct heft_error *err)
{
	char status[4096];
	if (!stop_task_file(s, h->tid, "status", status, sizeof status) ||
	    stop_status_field(status, "Seccomp") <= 0)
		return 0;
	s->has_filter = true;
	if (!ptrace(PTRACE_SETOPTIONS, h->tid, NULL,
		    (uintptr_t)(PTRACE_O_TRACESYSGOOD | PTRACE_O_SUSPEND_SECCOMP)))
		return 0;
	return heft_fail(
		err, HEFT_EREFUSED,
		"process %d is in a sandbox (seccomp), which might kill it for heft's system "
		"calls\nRun heft as root: root may suspend the sandbox for an instant.",
		s->pid);
}

/* Another thread has ended the process, or begins another program. */
static int vanished(const struct stop *s, const struct held *h, struct heft_error *err)
{
	return heft_fail(err, HEFT_EBUSY, "thread %d of process %d ends", h->tid, s->pid);
}

/* Makes a stopped thread the borrowed one. 0, or why this one cannot be it. */
static int take(struct stop *s, struct held *h, struct heft_error *err)
{
	if (h->event == PTRACE_EVENT_VFORK) /* it would wait for its child, as long as that likes */
		return heft_fail(err, HEFT_EBUSY, "thread %d of process %d is in vfork", h->tid,
				 s->pid);
	if (!to_event_stop(s, h, false))
		return vanished(s, h, err);
	if (!arch_can_enter(s, h))
		return stop_ended(s, err);
	int result = see_to_sandbox(s, h, err);
	if (!result)
		result = arch_keep(s, h, err);
	if (result)
		return result;
	const uint64_t none_through = ~0ull;
	if (ptrace(PTRACE_GETSIGMASK, h->tid, sizeof s->mask, &s->mask))
		return vanished(s, h, err);
	plan_hurry(s, h);
	frame_make(s, h);
	/* From the moment its mask is changed, the frame must be what it meets if we are killed. */
	if ((s->frame.at && !arch_set_call(s, h, SYS_getpid, (uint64_t[6]){0})) ||
	    ptrace(PTRACE_SETSIGMASK, h->tid, sizeof none_through, &none_through))
		return vanished(s, h, err);
	s->borrowed = h->tid;
	s->called = false;
	if (!s->all)
		hurry(s, h);
	return 0;
}

/* Takes the first that has stopped and can be had. 1: none has stopped. */
static int take_any(struct stop *s, struct heft_error *err)
{
	int result = 1;
	held_poll_all(s);
	for (size_t i = 0; i < s->held.count && result; i++) {
		struct held *h = s->held.items[i];
		if (h->state != HELD_STOPPED || h->child)
			continue;
		result = take(s, h, err);
		if (result && !s->all)
			held_release(h);
	}
	return result;
}

struct candidates {
	pid_t tids[TRY_THREADS];
	size_t count;
};

/* Threads that wait for something that a signal interrupts stop at once; those that run, when they get a
 * processor. Others cannot be stopped, nor let go of. */
static void find_candidates(struct stop *s, struct candidates *c)
{
	struct task_walk walk;
	*c = (struct candidates){0};
	for (int runs = 0; runs < 2; runs++) {
		task_walk_begin(&walk, s);
		for (pid_t tid; c->count < TRY_THREADS && (tid = task_walk_next(&walk)) > 0;) {
			char state = stop_task_state(s, tid, NULL);
			if (state && strchr(runs ? "R" : "STt", state))
				c->tids[c->count++] = tid;
		}
	}
}

/* Whether a thread is held that has stopped or may still. One may have stopped since take_any has looked. */
static bool holds_any(const struct stop *s)
{
	for (size_t i = 0; i < s->held.count; i++)
		if (!s->held.items[i]->child && s->held.items[i]->state != HELD_GONE)
			return true;
	return false;
}

static int borrow_one(struct stop *s, struct heft_error *err)
{
	struct candidates c;
	uint64_t begin = monotonic_ns();
	for (find_candidates(s, &c); !c.count && monotonic_ns() - begin < WAIT_NS;
	     find_candidates(s, &c))
		held_nap(); /* for a fast disk */
	if (!c.count && !stop_live_task(s))
		return stop_ended(s, err);
	if (!c.count)
		return heft_fail(
			err, HEFT_EBUSY,
			"process %d cannot be stopped: each of its threads is in a wait that "
			"nothing interrupts (vfork, or a slow disk)",
			s->pid);
	int failed = 0;
	size_t tried = 0;
	uint64_t next = begin, looked = begin;
	while (!s->ended) {
		uint64_t now = monotonic_ns();
		s->ran_ns = looked;
		looked = now;
		if (tried < c.count && now >= next) {
			int seized = held_stop(s, c.tids[tried++], err);
			if (seized < 0)
				return seized;
			next = now + (seized ? 0 : TRY_NS);
		}
		int taken = take_any(s, err);
		if (!taken)
			return 0;
		if (taken < 0) {
			failed = taken;
			next = 0;
		}
		held_release_children(s);
		bool none = tried == c.count && !holds_any(s);
		if (none && failed && failed != HEFT_EBUSY)
			return failed;
		if (none && !stop_live_task(s))
			break;
		if (now - begin > BORROW_NS)
			return heft_fail(err, HEFT_EBUSY,
					 "no thread of process %d has stopped within %llu ms",
					 s->pid, (unsigned long long)(BORROW_NS / MS));
		if (none) { /* all have ended, as threads do: there are others by now */
			find_candidates(s, &c);
			tried = 0;
		}
		if (none || taken == 1)
			held_nap();
	}
	return stop_ended(s, err);
}

int stop_borrow(struct stop *s, struct heft_error *err)
{
	if (s->borrowed)
		return heft_fail(err, HEFT_EUSAGE, "a thread is borrowed already");
	int result;
	stop_read_filters(s);
	if (!s->all) {
		stop_raise_priority(s);
		result = borrow_one(s, err);
	} else /* all may be late */
		while ((result = take_any(s, err)) == 1 && monotonic_ns() < s->until_ns)
			held_nap();
	if (result == 1)
		result = heft_fail(err, HEFT_EBUSY, "no thread of process %d has stopped", s->pid);
	if (!s->all && result)
		let_go(s);
	if (!s->all)
		held_settle(s, 0);
	return result;
}

static bool is_system_call_stop(const struct held *h)
{
	return !h->event && !h->signal;
}

int stop_call(struct stop *s, long number, const uint64_t args[6], int64_t *result,
	      struct heft_error *err)
{
	struct held *h = borrowed(s);
	if (!h)
		return heft_fail(err, HEFT_EUSAGE, "no thread is borrowed");
	for (bool repeat = true; repeat;) {
		if (!arch_set_call(s, h, number, args))
			return lost(s, err);
		s->called = true;
		/* Into the call, then out of it. A SIGSTOP, which nobody can block, may be on the way. */
		for (int stops = 0; stops < 2; stops += is_system_call_stop(h))
			if (!run_on(s, h, PTRACE_SYSCALL))
				return lost(s, err);
		if (!arch_result(h, result, &repeat))
			return lost(s, err);
	}
	if (!s->all)
		held_settle(s, 0); /* others that were asked to stop have by now, perhaps */
	return 0;
}

/* A signal whose handler will not run, because there is none. All of these are ignored then. */
static int choose_signal(const struct stop *s)
{
	static const int harmless[] = {SIGURG, SIGCHLD, SIGWINCH};
	char status[4096];
	bool known = stop_task_file(s, s->borrowed, "status", status, sizeof status);
	const char *line = known ? strstr(status, "\nSigCgt:") : NULL;
	uint64_t caught = line ? strtoull(line + sizeof "\nSigCgt:" - 1, NULL, 16) : 0;
	for (size_t i = 0; i < 2; i++)
		if (!(caught >> (harmless[i] - 1) & 1))
			return harmless[i];
	return harmless[2]; /* whoever handles it looks how large the terminal is */
}

/* Runs a borrowed thread until its function has returned. Other signals on the way are not ours: a SIGSTOP, which
 * nobody can block, or the one that tells us, from somebody else. */
static int run_to_return(struct stop *s, struct held *h, const struct frame_way *way,
			 struct heft_error *err)
{
	do
		if (!run_on(s, h, PTRACE_CONT))
			return lost(s, err);
	while (h->signal != SIGTRAP && h->signal != SIGSEGV && h->signal != SIGBUS &&
	       h->signal != SIGILL && !(h->signal == way->signal && h->pc == way->told));
	bool right = h->signal == way->signal && h->pc == way->told;
	h->signal = 0;
	return right ? 0
		     : heft_fail(err, HEFT_EIO, "process %d: heft's own code failed at %#llx",
				 s->pid, (unsigned long long)h->pc);
}

static bool set_mask(const struct held *h, uint64_t mask)
{
	return !ptrace(PTRACE_SETSIGMASK, h->tid, sizeof mask, &mask);
}

int stop_function(struct stop *s, uint64_t function, uint64_t stack, uint64_t thread_pointer,
		  uint64_t back, int64_t *result, struct heft_error *err)
{
	struct held *h = borrowed(s);
	uint8_t vectors[VECTORS_MOST];
	struct iovec state = {vectors, sizeof vectors};
	struct frame_way way = {0};
	if (!h)
		return heft_fail(err, HEFT_EUSAGE, "no thread is borrowed");
	if ((s->called && !to_event_stop(s, h, true)) || !arch_keep_vectors(h, &state))
		return lost(s, err);
	way.signal = choose_signal(s);
	int rc = frame_for_function(s, h, stack, back, &way, err);
	if (rc)
		return rc;
	/* The registers come first: from then on the frame holds. */
	if (!arch_set_function(s, h, function, way.stack, thread_pointer) ||
	    !set_mask(h, ~(1ull << (way.signal - 1))))
		return lost(s, err);
	s->called = true;
	rc = run_to_return(s, h, &way, err);
	if (s->borrowed && (!set_mask(h, ~0ull) || (!rc && !arch_function_result(h, result)) ||
			    !arch_restore_vectors(h, &state)))
		return lost(s, err);
	return rc;
}

struct stop_thread stop_borrowed(struct stop *s)
{
	const struct held *h = borrowed(s);
	if (!h)
		return (struct stop_thread){0};
	return (struct stop_thread){h->tid, h->pc, h->sp, h->thread_pointer, true};
}

int stop_return(struct stop *s, struct heft_error *err)
{
	struct held *h = borrowed(s);
	if (!h)
		return heft_fail(err, HEFT_EUSAGE, "no thread is borrowed");
	/* The registers come last: until then the frame holds. */
	const bool stopped = !s->called || to_event_stop(s, h, true);
	hurry_no_more(s);
	if (!stopped || ptrace(PTRACE_SETSIGMASK, h->tid, sizeof s->mask, &s->mask) ||
	    !arch_restore(s, h))
		return lost(s, err);
	s->borrowed = 0;
	h->signal = 0;
	if (!s->all) {
		held_release(h);
		stop_note_pause(s, s->ran_ns);
		let_go(s);
		held_settle(s, monotonic_ns() + BORROW_NS);
	}
	return 0;
}

int stop_rest(struct stop *s, struct heft_error *err)
{
	if (s->all || !s->borrowed || monotonic_ns() - s->ran_ns < REST_AFTER_NS)
		return 0;
	int result = stop_return(s, err);
	for (unsigned i = 0; !result && i < REST_TRIES; i++) {
		nanosleep(&(struct timespec){.tv_nsec = REST_NS}, NULL);
		result = stop_borrow(s, err);
		if (result != HEFT_EBUSY)
			break;
		result = i + 1 < REST_TRIES ? 0 : result;
	}
	return result;
}
