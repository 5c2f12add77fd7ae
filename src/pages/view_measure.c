/* Modes and metrics as numbers of the model.
 *
 * "Freed soon" comes from the histogram of lifetimes, whose bounds are powers of
 * two: the limit is rounded up to one. What is live at the end of the recording is in
 * that histogram too, with its age: a block that young is one that nobody had the
 * time to free. */
#include "pages/view_measure.h"

#include <stdlib.h>

static uint32_t buckets_within(uint64_t within_ns)
{
	uint32_t n = 1;
	while (n < PROFILE_LIFE_BUCKETS - 1 && (UINT64_C(512) << (n - 1)) < within_ns)
		n++;
	return n;
}

static int refuse(const struct profile *p, const char *what, struct heft_error *err)
{
	return heft_fail(err, HEFT_EREFUSED, "%s does not tell %s",
			 p->rate_bytes ? "a sampled recording" : "this file", what);
}

static int live_measure(struct view_measure *m, const struct view_query *q, const struct profile *p,
			struct heft_error *err)
{
	bool peak = q->at == VIEW_AT_PEAK;
	if (!(p->has & (PROFILE_HAS_PEAK | PROFILE_HAS_LIVE)))
		return refuse(p, "what is live", err);
	if (!(p->has & (peak ? PROFILE_HAS_PEAK : PROFILE_HAS_LIVE)))
		peak = !peak;
	if (q->count && (p->has & PROFILE_LACKS_BLOCKS))
		return refuse(p, "how many blocks are live", err);
	m->number = peak		     ? (q->count ? VIEW_PEAK_BLOCKS : VIEW_PEAK_BYTES)
		    : q->at == VIEW_AT_END ? (q->count ? VIEW_LEFT_BLOCKS : VIEW_LEFT_BYTES)
					   : (q->count ? VIEW_LIVE_BLOCKS : VIEW_LIVE_BYTES);
	return 0;
}

int view_measure_of(struct view_measure *m, const struct view_query *q, const struct profile *p,
		    struct heft_error *err)
{
	*m = (struct view_measure){.bytes = !q->count};
	switch (q->mode) {
	case VIEW_LIVE:
		return live_measure(m, q, p, err);
	case VIEW_GREW:
		if (!(p->has & PROFILE_HAS_LIVE) || (q->count && (p->has & PROFILE_LACKS_BLOCKS)))
			return refuse(p, "what grew", err);
		m->number = q->count ? VIEW_GREW_BLOCKS : VIEW_GREW_BYTES;
		return 0;
	case VIEW_ALLOCATED:
		if (!(p->has & PROFILE_HAS_ALLOCATED))
			return refuse(p, "what was allocated", err);
		m->number = q->count ? VIEW_ALLOCATIONS : VIEW_ALLOCATED_BYTES;
		return 0;
	case VIEW_CHURN:
		break;
	}
	if (!p->lifetimes || !(p->has & PROFILE_HAS_LIFETIMES))
		return refuse(p, "how long blocks live", err);
	*m = (struct view_measure){.number = VIEW_FREED_SOON,
				   .buckets = buckets_within(q->within_ns)};
	return 0;
}

static uint64_t growth(uint64_t from, uint64_t to)
{
	return to > from ? to - from : 0;
}

uint64_t view_value(const struct view_measure *m, const struct profile *p, uint32_t site)
{
	const struct profile_site *s = &p->sites[site];
	uint64_t soon = 0;
	switch (m->number) {
	case VIEW_PEAK_BYTES:
		return s->peak_bytes;
	case VIEW_PEAK_BLOCKS:
		return s->peak_blocks;
	case VIEW_LIVE_BYTES:
		return s->live_bytes;
	case VIEW_LIVE_BLOCKS:
		return s->live_blocks;
	case VIEW_LEFT_BYTES:
		return s->left_bytes;
	case VIEW_LEFT_BLOCKS:
		return s->left_blocks;
	case VIEW_GREW_BYTES:
		return growth(s->start_bytes, s->live_bytes);
	case VIEW_GREW_BLOCKS:
		return growth(s->start_blocks, s->live_blocks);
	case VIEW_ALLOCATED_BYTES:
		return s->allocated_bytes;
	case VIEW_ALLOCATIONS:
		return s->allocations;
	case VIEW_FREED_SOON:
		for (uint32_t i = 0; i < m->buckets; i++)
			soon += p->lifetimes[site][i];
		return soon;
	}
	return 0;
}

uint64_t *view_values(const struct view_measure *m, const struct profile *p)
{
	uint64_t *values = malloc(((size_t)p->site_count + 1) * sizeof *values);
	for (uint32_t i = 0; values && i < p->site_count; i++)
		values[i] = view_value(m, p, i);
	return values;
}

uint64_t view_sum(const struct view_measure *m, const struct profile *p)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < p->site_count; i++)
		sum += view_value(m, p, i);
	return sum;
}

bool view_error(const struct view_measure *m, const struct profile *p, uint32_t site,
		uint64_t *error)
{
	if (!p->errors)
		return false;
	const struct profile_errors *e = site == PROFILE_NONE ? &p->total_errors : &p->errors[site];
	switch (m->number) {
	case VIEW_PEAK_BYTES:
		*error = e->peak_bytes;
		return true;
	case VIEW_PEAK_BLOCKS:
		*error = e->peak_blocks;
		return true;
	case VIEW_GREW_BYTES: /* of the whole run: what is live */
	case VIEW_LIVE_BYTES:
	case VIEW_LEFT_BYTES:
		*error = e->live_bytes;
		return true;
	case VIEW_GREW_BLOCKS:
	case VIEW_LIVE_BLOCKS:
	case VIEW_LEFT_BLOCKS:
		*error = e->live_blocks;
		return true;
	case VIEW_ALLOCATED_BYTES:
		*error = e->allocated_bytes;
		return true;
	case VIEW_ALLOCATIONS:
		*error = e->allocations;
		return true;
	case VIEW_FREED_SOON:
		break;
	}
	return false;
}

const char *view_unit(const struct view_measure *m)
{
	return m->bytes ? "bytes" : "count";
}
