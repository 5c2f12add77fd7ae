/* The ladder: rungs at equal distances in events, each the tally of everything before
 * its time. As many as fit into the memory that was granted.
 *
 * Invariants: rungs rise in time and are never changed once they are counted; a rung
 * stands between two different times, so "before" has one meaning. */
#include "trace/trace_ladder.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A caller waits for the laying if the recording has no more events than this. The laying goes through some ten
 * million events a second and soon passes any moment; replaying the same events beside it would only slow it down. */
enum { WAIT_EVENTS = 128 << 20 };
enum { MOST_RUNGS = 256 };

struct rung {
	uint64_t time_ns;
	struct tally tally;
};

struct trace_ladder {
	pthread_mutex_t lock; /* guards count, laying and whole */
	pthread_cond_t more;
	struct rung rungs[MOST_RUNGS];
	uint32_t count, most;
	bool laying;
	bool whole; /* all of them are there */
	bool worth_waiting;
	uint64_t distance;
	uint32_t site_count, thread_count;
};

struct trace_ladder *trace_ladder_new(const struct trace_contents *c, size_t most_bytes,
				      uint64_t least_events)
{
	size_t rung = (size_t)c->site_count * sizeof(struct tally_site) +
		      (size_t)c->thread_count * sizeof(struct tally_thread) + 4096;
	size_t most = most_bytes / rung;
	if (most > MOST_RUNGS)
		most = MOST_RUNGS;
	if (most > c->events / least_events)
		most = (size_t)(c->events / least_events);
	struct trace_ladder *l = most ? calloc(1, sizeof *l) : NULL;
	if (!l)
		return NULL;
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->more, NULL);
	l->laying = true; /* it is about to be */
	l->worth_waiting = c->events < WAIT_EVENTS;
	l->most = (uint32_t)most;
	l->distance = c->events / (most + 1) + 1;
	l->site_count = c->site_count;
	l->thread_count = c->thread_count;
	return l;
}

void trace_ladder_free(struct trace_ladder *l)
{
	if (!l)
		return;
	for (uint32_t i = 0; i < l->count; i++)
		tally_fini(&l->rungs[i].tally);
	pthread_mutex_destroy(&l->lock);
	pthread_cond_destroy(&l->more);
	free(l);
}

/* Copies into t, which is empty. */
static int copy_tally(struct tally *t, const struct tally *from)
{
	int rc = tally_reserve(t, from->site_count, from->thread_count);
	if (rc < 0)
		return rc;
	if (from->site_count)
		memcpy(t->sites, from->sites, from->site_count * sizeof *t->sites);
	if (from->thread_count)
		memcpy(t->threads, from->threads, from->thread_count * sizeof *t->threads);
	t->live_bytes = from->live_bytes;
	t->live_blocks = from->live_blocks;
	t->peak_bytes = from->peak_bytes;
	t->peak_blocks = from->peak_blocks;
	t->peak_time_ns = from->peak_time_ns;
	t->events = from->events;
	t->peak_epoch = from->peak_epoch;
	return 0;
}

struct laying {
	struct trace_ladder *l;
	struct tally now;
	uint64_t last_ns;
	const atomic_bool *stop;
};

static int lay_rung(struct laying *x, uint64_t time_ns)
{
	struct rung *rung = &x->l->rungs[x->l->count];
	rung->time_ns = time_ns;
	tally_init(&rung->tally);
	if (copy_tally(&rung->tally, &x->now) < 0) {
		tally_fini(&rung->tally);
		return HEFT_ENOMEM;
	}
	pthread_mutex_lock(&x->l->lock);
	x->l->count++;
	pthread_cond_broadcast(&x->l->more);
	pthread_mutex_unlock(&x->l->lock);
	return 0;
}

enum { STOPPED = -1000 };

static int lay_batch(void *ctx, const struct trace_event *events, size_t count)
{
	struct laying *x = ctx;
	if (x->stop && atomic_load_explicit(x->stop, memory_order_relaxed))
		return STOPPED;
	uint64_t due = x->l->distance * ((uint64_t)x->l->count + 1);
	size_t first = 0;
	if (x->l->count < x->l->most && x->now.events + count >= due) {
		/* The rung stands at the first change of time from here on. */
		uint64_t last = x->last_ns;
		for (; first < count && events[first].time_ns == last; first++)
			last = events[first].time_ns;
		tally_apply(&x->now, events, first);
		if (first < count && lay_rung(x, events[first].time_ns) < 0)
			return HEFT_ENOMEM;
	}
	tally_apply(&x->now, events + first, count - first);
	x->last_ns = events[count - 1].time_ns;
	return 0;
}

int trace_ladder_lay(struct trace_ladder *l, struct trace_reader *own, const atomic_bool *stop,
		     struct heft_error *err)
{
	struct laying x = {.l = l, .stop = stop};
	tally_init(&x.now);
	int rc = tally_reserve(&x.now, l->site_count, l->thread_count);
	if (rc == 0)
		rc = trace_reader_events(own, 0, UINT64_MAX, lay_batch, &x, err);
	tally_fini(&x.now);
	pthread_mutex_lock(&l->lock);
	l->whole = rc == 0;
	l->laying = false;
	pthread_cond_broadcast(&l->more);
	pthread_mutex_unlock(&l->lock);
	return rc == STOPPED ? 0 : rc;
}

static int replay(void *ctx, const struct trace_event *events, size_t count)
{
	tally_apply(ctx, events, count);
	return 0;
}

int trace_ladder_before(struct trace_ladder *l, struct trace_reader *r, uint64_t before_ns,
			struct tally *t, struct heft_error *err)
{
	/* Below the first rung is the start. The file's own tallies are used only where there is no
	 * ladder yet: they have lifetimes to the nanosecond, and mixed differences would be off. */
	static const struct rung start;
	pthread_mutex_lock(&l->lock);
	while (l->worth_waiting && l->laying &&
	       !(l->count && l->rungs[l->count - 1].time_ns > before_ns))
		pthread_cond_wait(&l->more, &l->lock);
	const struct rung *from = l->count || l->whole ? &start : NULL;
	for (uint32_t i = 0; i < l->count && l->rungs[i].time_ns <= before_ns; i++)
		/* The last rung of a ladder that still grows may be far away: the file may have a nearer tally. */
		from = i + 1 < l->count || l->whole ? &l->rungs[i] : NULL;
	pthread_mutex_unlock(&l->lock);
	if (!from)
		return trace_reader_tally_before(r, before_ns, t, err);
	if (tally_reserve(t, l->site_count, l->thread_count) < 0 || copy_tally(t, &from->tally) < 0)
		return heft_fail(err, HEFT_ENOMEM, "not enough memory for a part of the recording");
	return before_ns > from->time_ns
		       ? trace_reader_events(r, from->time_ns, before_ns - 1, replay, t, err)
		       : 0;
}
