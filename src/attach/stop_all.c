/* All threads stop for an instant, the freeze, and go on.
 *
 * First every thread is traced, pass by pass until nothing new is found: a thread that a traced one makes is
 * traced from its birth, so this ends. Then all are told to stop. It would be wrong to wait until each has:
 * a thread that waits for a processor stops only when it gets one, seconds later on a loaded machine.
 * But until it has stopped it cannot run a single instruction of the program. So the freeze begins when the
 * process's processor clock stands still. That is a hint and no proof: stop_change.c is right even if a late
 * thread runs. Late threads are waited for after the others have gone on. A late thread may have the kernel's
 * lock on the memory, which we need: stop_memory.c finds that out.
 *
 * In the freeze this thread has a real-time priority, where that is permitted: a loaded machine would
 * otherwise take the processor away from it in the worst moment, for up to 200 ms. */
#include "attach/stop_held.h"

#include "hosted/monotonic.h"
#include "hosted/number_words.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SETTLE_NS 5000000000ull
#define SHORT_NS 8000000ull
enum {
	CLEAN_PASSES = 2, /* so many passes must find no new thread: a walk may miss one */
	SHORT_TRIES = 3,
	LOOK_AT_THREADS = 64, /* the children of at most so many stopped threads are looked at */
};

void stop_raise_priority(struct stop *s)
{
	struct sched_param now = {0};
	if (s->raised)
		return;
	s->policy = sched_getscheduler(0);
	errno = 0;
	s->nice = getpriority(PRIO_PROCESS, 0);
	s->raised = false;
	if (s->policy != SCHED_OTHER && s->policy != SCHED_BATCH && s->policy != SCHED_IDLE)
		return;         /* it is real time already */
	now.sched_priority = 2; /* a borrowed thread has 1 (stop_call.c) */
	if (!sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &now)) {
		s->raised = true;
		return;
	}
	s->raised = !setpriority(PRIO_PROCESS, 0, -20);
}

void stop_restore_priority(struct stop *s)
{
	if (!s->raised)
		return;
	const struct sched_param none = {0};
	sched_setscheduler(0, s->policy, &none);
	setpriority(PRIO_PROCESS, 0, s->nice);
	s->raised = false;
}

/* 0 if nobody can tell. */
static uint64_t processor_clock(const struct stop *s)
{
	clockid_t clock;
	return clock_getcpuclockid(s->pid, &clock) ? 0 : clock_ns(clock);
}

/* Traces every thread, tells those to stop that were found; 0 or a negative code. */
static int seize_all(struct stop *s, bool *news, struct heft_error *err)
{
	*news = false;
	for (int clean = 0; clean < CLEAN_PASSES;) {
		int found = held_seize_new(s, err);
		if (found < 0)
			return found;
		*news |= found > 0;
		clean = found ? 0 : clean + 1;
		if (found && monotonic_ns() > s->until_ns)
			return heft_fail(err, HEFT_EBUSY,
					 "process %d makes threads faster than they can be stopped",
					 s->pid);
	}
	if (!s->unasked)
		held_interrupt_all(s);
	return 0;
}

static int look_for_sharers(struct stop *s, struct heft_error *err)
{
	bool few = s->held.count <= LOOK_AT_THREADS;
	for (size_t i = 0; i < s->held.count; i++) {
		const struct held *h = s->held.items[i];
		if (h->child || h->state == HELD_GONE || (h->state == HELD_STOPPED && !few))
			continue;
		int result = sharers_look_at_children(s, h->tid, err);
		if (result)
			return result;
	}
	return 0;
}

static int too_late(struct stop *s, size_t late, struct heft_error *err)
{
	return heft_fail(err, HEFT_EBUSY, "%s of process %d did not stop within %s",
			 words_many(late, "thread", "threads").text, s->pid,
			 words_duration(monotonic_ns() - s->began_ns).text);
}

/* Whether it is still in the program that was opened. */
static bool is_opened(struct stop *s)
{
	uint8_t byte;
	size_t got;
	return stop_read_some(s, s->enter, &byte, sizeof byte, &got) && got == sizeof byte;
}

/* Waits until no thread can run. */
static int wait_still(struct stop *s, struct heft_error *err)
{
	uint64_t clock = 0, since = 0;
	for (;;) {
		size_t late = held_poll_all(s);
		uint64_t now = monotonic_ns(), clock_now = late ? processor_clock(s) : 0;
		bool news, still = !late;
		if (s->ended || !s->held.count)
			return stop_ended(s, err);
		if (s->shared)
			return heft_fail(
				err, HEFT_EBUSY,
				"process %d has just started a process that shares its memory "
				"(vfork)",
				s->pid);
		if (late && clock_now && clock_now == clock)
			still = now - since >= s->still_ns;
		if (clock_now != clock || !since) {
			clock = clock_now;
			since = now;
			still |= !s->still_ns;
		}
		if (still) {
			int result = seize_all(s, &news, err);
			if (result)
				return result;
			if (!news && (!late || memory_is_free(s, s->until_ns)))
				return is_opened(s) ? look_for_sharers(s, err) : stop_ended(s, err);
			since = 0;
			now = monotonic_ns();
		}
		if (now > s->until_ns)
			return too_late(s, late, err);
		held_nap();
	}
}

/* Everything goes on. The forked children among them are let go by held_settle. */
static void resume(struct stop *s)
{
	held_release_stopped(s);
	s->all = false;
	s->pause_ns = monotonic_ns() - s->began_ns;
	stop_note_pause(s, s->began_ns);
	stop_restore_priority(s);
	if (s->unasked)
		held_interrupt_all(s);
	held_settle(s, monotonic_ns() + SETTLE_NS);
}

uint64_t stop_limit_of_try(unsigned tried)
{
	return tried < SHORT_TRIES ? SHORT_NS : STOP_LIMIT_NS;
}

int stop_all(struct stop *s, uint64_t limit_ns, struct heft_error *err)
{
	if (s->all || s->borrowed)
		return heft_fail(err, HEFT_EUSAGE, "the process is stopped already");
	if (stop_unsettled(s) && s->changed.count)
		return heft_fail(err, HEFT_EBUSY,
				 "%s of process %d %s not gone on since the last stop",
				 words_many(s->held.count, "thread", "threads").text, s->pid,
				 s->held.count == 1 ? "has" : "have");
	s->pause_ns = 0;
	int result = sharers_look_everywhere(s, err);
	if (result)
		return result;
	stop_read_filters(s);
	s->shared = false;
	memory_probe_begin(s);
	stop_raise_priority(s);
	s->began_ns = monotonic_ns();
	s->until_ns = s->began_ns + limit_ns;
	bool news;
	result = seize_all(s, &news, err);
	if (!result)
		result = wait_still(s, err);
	if (result)
		resume(s);
	else
		s->all = true;
	return result;
}

int stop_threads(struct stop *s, const struct stop_thread **list, size_t *count)
{
	s->list.count = 0;
	for (size_t i = 0; i < s->held.count; i++) {
		const struct held *h = s->held.items[i];
		bool stopped = h->state == HELD_STOPPED;
		if (h->child || h->state == HELD_GONE)
			continue;
		if (!vector_push(&s->list,
				 (struct stop_thread){
					 .tid = h->tid,
					 .pc = stopped ? h->pc : 0,
					 .sp = stopped ? h->sp : 0,
					 .thread_pointer = stopped ? h->thread_pointer : 0,
					 .stopped = stopped,
				 }))
			return HEFT_ENOMEM;
	}
	*list = s->list.items;
	*count = s->list.count;
	return 0;
}

void stop_wait_late(struct stop *s, uint64_t limit_ns)
{
	const uint64_t until = monotonic_ns() + limit_ns;
	while (s->all && held_poll_all(s) && monotonic_ns() < until)
		held_nap();
}

int stop_move(struct stop *s, pid_t tid, uint64_t pc, struct heft_error *err)
{
	struct held *h = held_find(s, tid);
	if (!h || h->state != HELD_STOPPED)
		return heft_fail(err, HEFT_EUSAGE, "thread %d is not stopped", tid);
	arch_set_pc(h, pc);
	return h->pc == pc ? 0 : stop_ended(s, err);
}

int stop_resume(struct stop *s, struct heft_error *err)
{
	if (!s->all)
		return heft_fail(err, HEFT_EUSAGE, "the process is not stopped");
	if (s->borrowed)
		stop_return(s, NULL);
	resume(s);
	return s->ended ? stop_ended(s, err) : 0;
}

void stop_note_pause(struct stop *s, uint64_t since_ns)
{
	const uint64_t lasted_ns = monotonic_ns() - since_ns;
	if (lasted_ns > s->longest_ns)
		s->longest_ns = lasted_ns;
}

uint64_t stop_longest_ns(const struct stop *s)
{
	return s->longest_ns;
}

uint64_t stop_pause_ns(const struct stop *s)
{
	return s->pause_ns;
}
