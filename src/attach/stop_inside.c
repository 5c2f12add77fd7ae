/* Looking at threads one by one: whether one is in a piece of memory that is to be
 * unmapped, comes back to it from a signal handler, or has copied it for a child that it forks. Return addresses on the stack are not looked at: a stack is full of
 * old ones. Whoever asks knows by other means who has called what lies there. */
#include "attach/stop_held.h"

#include "hosted/monotonic.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>

#define SETTLE_NS 2000000000ull

static bool is_any(const void *ctx, uint64_t pc)
{
	(void)ctx, (void)pc;
	return true;
}

bool stop_is_inside(struct stop *s, const struct stop_thread *t, uint64_t low, uint64_t high)
{
	return (t->pc >= low && t->pc < high) || stack_find_frame(s, t, low, high, is_any, NULL);
}

/* Shows each held thread that has stopped or ended by now, and lets it go. Returns how many still run. */
static size_t show_stopped(struct stop *s, uint64_t ran_ns,
			   void (*visit)(void *, const struct stop_thread *), void *ctx)
{
	size_t running = 0;
	for (size_t i = 0; i < s->held.count; i++) {
		struct held *h = s->held.items[i];
		if (h->child || h->state == HELD_GONE)
			continue;
		if (h->state == HELD_RUNS)
			held_poll(s, h);
		running += h->state == HELD_RUNS;
		if (h->state == HELD_RUNS)
			continue;
		const bool stopped = h->state == HELD_STOPPED;
		const struct stop_thread t = {h->tid, h->pc, h->sp, h->thread_pointer, stopped};
		visit(ctx, &t);
		if (stopped) {
			held_release(h);
			stop_note_pause(s, ran_ns);
		}
	}
	return running;
}

int stop_visit(struct stop *s, const pid_t *tids, size_t count, uint64_t limit_ns,
	       void (*visit)(void *ctx, const struct stop_thread *t), void *ctx,
	       struct heft_error *err)
{
	const uint64_t began = monotonic_ns(), until = began + limit_ns;
	int rc = 0;
	stop_raise_priority(s);
	for (size_t i = 0; i < count && rc >= 0; i++) {
		rc = held_stop(s, tids[i], err);
		if (rc == 1)
			visit(ctx, &(struct stop_thread){.tid = tids[i]});
	}
	uint64_t looked = began;
	while (rc >= 0) {
		const uint64_t ran = looked;
		looked = monotonic_ns();
		if (!show_stopped(s, ran, visit, ctx) || monotonic_ns() >= until)
			break;
		held_nap();
	}
	stop_restore_priority(s);
	/* Those that are late go on as soon as they have stopped. */
	held_settle(s, monotonic_ns() + SETTLE_NS);
	if (rc >= 0 && s->ended)
		return stop_ended(s, err);
	return rc < 0 ? rc : 0;
}

/* ---- forks that are under way */

/* Whether a call makes a process that has a copy of the memory, and does not share it. first: its first argument */
static bool is_copying(struct stop *s, long number, uint64_t first)
{
	uint64_t flags = first;
	size_t got = sizeof flags;
	if (number == SYS_clone3)
		stop_read_some(s, first, &flags, sizeof flags, &got);
	return number == SYS_fork || ((number == SYS_clone || number == SYS_clone3) &&
				      (got < sizeof flags || !(flags & CLONE_VM)));
}

/* Whether a thread may be in a fork. Nobody knows what one does that is on a processor or waits for one. */
static bool may_fork(struct stop *s, pid_t tid)
{
	char text[256], *rest;
	if (!stop_task_file(s, tid, "syscall", text, sizeof text))
		return false; /* it has ended */
	long number = strtol(text, &rest, 10);
	return rest == text || is_copying(s, number, strtoull(rest, NULL, 16));
}

static void see(void *ctx, const struct stop_thread *t)
{
	(void)ctx, (void)t; /* it has stopped, so it is in none any more */
}

void stop_wait_for_forks(struct stop *s, pid_t but, uint64_t limit_ns)
{
	struct heft_error ignored;
	struct task_walk walk;
	VECTOR(pid_t) tids = {0};
	task_walk_begin(&walk, s);
	for (pid_t tid; (tid = task_walk_next(&walk)) > 0;)
		if (tid != but && may_fork(s, tid) && !vector_push(&tids, tid))
			break;
	if (tids.count)
		stop_visit(s, tids.items, tids.count, limit_ns, see, NULL, &ignored);
	vector_free(&tids);
}
