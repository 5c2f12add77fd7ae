/* When the sampled blocks that are live were made, by site. That distinguishes a leak (its blocks were
 * made evenly over the run) from a working set (made just now) and from what start-up left (made long
 * ago and no more since).
 *
 * A block that was resized is as old as its last resize, because it was sampled anew then. */
#include "profile/trace_load.h"

#include "hosted/compare.h"
#include "profile/estimate.h"

#include <stdlib.h>

/* How far the process had come when the last of these was made; 0: not known (the numbers come from the
 * program, so they may be anything). */
static double way_of(const struct trace_sample *blocks, uint32_t count)
{
	double way = 0;
	bool known = false;
	for (uint32_t i = 0; i < count; i++) {
		double here = (double)blocks[i].progress_bytes + (double)blocks[i].rate_bytes;
		known |= blocks[i].progress_bytes > 0;
		way = here > way ? here : way;
	}
	return known ? way : 0;
}

static void add_births(struct profile_births *to, const struct trace_sample *blocks, uint32_t count,
		       const uint32_t *final, const struct trace_process *q, uint32_t process,
		       uint64_t time_ns)
{
	double way = way_of(blocks, count);
	uint64_t now = trace_samples_moment(q, time_ns);
	double life = now > q->start_ns ? (double)(now - q->start_ns) : 1;
	for (uint32_t i = 0; i < count; i++) {
		struct estimate_weight w = estimate_of_block(blocks[i].size, blocks[i].rate_bytes);
		uint64_t age = blocks[i].birth_ns < now ? now - blocks[i].birth_ns : 0;
		double at = 1 - (double)age / life;
		if (final[blocks[i].site] == PROFILE_NONE)
			continue;
		to->list[to->count++] = (struct profile_birth){
			.site = final[blocks[i].site],
			.process = process,
			.age_ns = age,
			.at = at > 0 ? at : 0,
			.progress = way > 0  ? (double)blocks[i].progress_bytes / way
				    : at > 0 ? at
					     : 0,
			.bytes = w.bytes,
			.variance = w.bytes_variance,
		};
	}
}

static int oldest_first(const void *a, const void *b)
{
	const struct profile_birth *x = a, *y = b;
	return compare_numbers(x->site, y->site) ?: compare_numbers(y->age_ns, x->age_ns) ?: (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* The age that `share` of the bytes are younger than or as old as. */
static uint64_t age_at(const struct profile_birth *b, uint32_t count, double all, double share)
{
	double older = 0;
	for (uint32_t i = 0; i < count; i++) {
		if (all - older - b[i].bytes < share * all)
			return b[i].age_ns;
		older += b[i].bytes;
	}
	return b[count - 1].age_ns;
}

static void describe(struct profile_age *a, const struct profile_birth *b)
{
	double all = 0, old = 0;
	for (uint32_t i = 0; i < a->count; i++) {
		all += b[i].bytes;
		old += b[i].at < 0.5 ? b[i].bytes : 0;
	}
	a->max_ns = b[0].age_ns;
	a->min_ns = b[a->count - 1].age_ns;
	a->p50_ns = age_at(b, a->count, all, 0.5);
	a->p99_ns = age_at(b, a->count, all, 0.99);
	a->old_share = all > 0 ? old / all : 0;
}

static bool reserve_births(struct profile_births *b, uint64_t count)
{
	b->list = malloc(((size_t)count + 1) * sizeof *b->list);
	return b->list != NULL;
}

int trace_load_births(struct load *l, const uint32_t *final)
{
	struct profile *p = l->p;
	struct profile_estimates *e = &p->estimates;
	const struct trace_contents *c = l->c;
	uint64_t live = 0, peak = 0;
	for (uint32_t i = 0; i < c->samples_count; i++) {
		uint32_t n;
		uint64_t time_ns;
		trace_samples_peak(&c->samples[i], &n, &time_ns);
		live += c->samples[i].live_count;
		peak += n;
	}
	e->ages = calloc((size_t)p->site_count + 1, sizeof *e->ages);
	if (!reserve_births(&e->live_births, live) || !reserve_births(&e->peak_births, peak) ||
	    !e->ages)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < c->samples_count; i++) {
		const struct trace_samples *s = &c->samples[i];
		const struct trace_process *q = &c->processes[s->process];
		uint32_t n;
		uint64_t peak_ns;
		const struct trace_sample *at_peak = trace_samples_peak(s, &n, &peak_ns);
		uint32_t process = l->processes[s->process];
		if (process == PROFILE_NONE)
			continue;
		add_births(&e->live_births, s->live, s->live_count, final, q, process, s->time_ns);
		add_births(&e->peak_births, at_peak, n, final, q, process, peak_ns);
		double way = way_of(at_peak, n), all = (double)s->progress_bytes;
		p->processes[process].peak_progress = way > 0 && way < all ? way / all
						      : way > 0            ? 1
									   : 0;
	}
	qsort(e->live_births.list, e->live_births.count, sizeof *e->live_births.list, oldest_first);
	qsort(e->peak_births.list, e->peak_births.count, sizeof *e->peak_births.list, oldest_first);
	for (uint32_t i = 0; i < e->live_births.count; i++) {
		struct profile_age *a = &e->ages[e->live_births.list[i].site];
		if (!a->count++)
			a->first = i;
	}
	for (uint32_t i = 0; i < p->site_count; i++)
		if (e->ages[i].count)
			describe(&e->ages[i], &e->live_births.list[e->ages[i].first]);
	return 0;
}
