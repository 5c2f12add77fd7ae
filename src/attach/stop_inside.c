/* Looking at threads one by one: whether one is in a piece of memory that is to be
 * unmapped, or comes back to it from a signal handler. Return addresses on the stack are not looked at: a stack is full of
 * old ones. Whoever asks knows by other means who has called what lies there. */
#include "attach/stop_held.h"

#include "hosted/monotonic.h"

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
static size_t show_stopped(struct stop *s, void (*visit)(void *, const struct stop_thread *),
			   void *ctx)
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
		if (stopped)
			held_release(h);
	}
	return running;
}

int stop_visit(struct stop *s, const pid_t *tids, size_t count, uint64_t limit_ns,
	       void (*visit)(void *ctx, const struct stop_thread *t), void *ctx,
	       struct heft_error *err)
{
	const uint64_t until = monotonic_ns() + limit_ns;
	int rc = 0;
	for (size_t i = 0; i < count && rc >= 0; i++) {
		rc = held_seize(s, tids[i], err);
		if (rc == 0)
			held_interrupt(s->held.items[s->held.count - 1]);
		if (rc == 1)
			visit(ctx, &(struct stop_thread){.tid = tids[i]});
	}
	while (rc >= 0 && show_stopped(s, visit, ctx) && monotonic_ns() < until)
		held_nap();
	/* Those that are late go on as soon as they have stopped. */
	held_settle(s, monotonic_ns() + SETTLE_NS);
	if (rc >= 0 && s->ended)
		return stop_ended(s, err);
	return rc < 0 ? rc : 0;
}
