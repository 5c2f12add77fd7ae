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
	return heft_fail(err, HEFT_EREFUSED, "%s does not record %s",
			 p->run.rate_bytes ? "a sampled recording" : "this file", what);
}

enum measure_id view_left_bytes(const struct view_query *q, const struct profile *p)
{
	bool chosen = q->has_pid || q->has_process || q->program;
	return chosen || profile_is_of_several(p->stacks.lender ? p->stacks.lender : p)
		       ? MEASURE_LEFT_BYTES
		       : MEASURE_LIVE_BYTES;
}

static int live_measure(struct view_measure *m, const struct view_query *q, const struct profile *p,
			struct heft_error *err)
{
	bool peak = q->at == VIEW_AT_PEAK;
	if (!(p->run.has & (PROFILE_HAS_PEAK | PROFILE_HAS_LIVE)))
		return refuse(p, "what is live", err);
	if (!(p->run.has & (peak ? PROFILE_HAS_PEAK : PROFILE_HAS_LIVE)))
		peak = !peak;
	if (q->count && (p->run.has & PROFILE_LACKS_BLOCKS))
		return refuse(p, "how many blocks are live", err);
	enum measure_id bytes = peak                   ? MEASURE_PEAK_BYTES
				: q->at == VIEW_AT_END ? view_left_bytes(q, p)
						       : MEASURE_LIVE_BYTES;
	m->id = q->count ? measures[bytes].blocks : bytes;
	return 0;
}

int view_measure_of(struct view_measure *m, const struct view_query *q, const struct profile *p,
		    struct heft_error *err)
{
	*m = (struct view_measure){0};
	switch (q->mode) {
	case VIEW_LIVE: return live_measure(m, q, p, err);
	case VIEW_GREW:
		if (!(p->run.has & PROFILE_HAS_LIVE) ||
		    (q->count && (p->run.has & PROFILE_LACKS_BLOCKS)))
			return refuse(p, "what grew", err);
		m->id = q->count ? MEASURE_GREW_BLOCKS : MEASURE_GREW_BYTES;
		return 0;
	case VIEW_ALLOCATED:
		if (!(p->run.has & PROFILE_HAS_ALLOCATED))
			return refuse(p, "what was allocated", err);
		m->id = q->count ? MEASURE_ALLOCATIONS : MEASURE_ALLOCATED_BYTES;
		return 0;
	case VIEW_CHURN: break;
	}
	if (!p->behaviour.lifetimes || !(p->run.has & PROFILE_HAS_LIFETIMES))
		return refuse(p, "how long blocks live", err);
	*m = (struct view_measure){MEASURE_FREES, buckets_within(q->within_ns)};
	return 0;
}

uint64_t view_value(const struct view_measure *m, const struct profile *p, uint32_t site)
{
	uint64_t soon = 0;
	if (!m->buckets)
		return measure_of_site(&p->sites[site], m->id);
	for (uint32_t i = 0; i < m->buckets; i++)
		soon += p->behaviour.lifetimes[site][i];
	return soon;
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
	enum measure_id id = m->id == MEASURE_GREW_BYTES ? MEASURE_LIVE_BYTES /* of the whole run */
			     : m->id == MEASURE_GREW_BLOCKS ? MEASURE_LIVE_BLOCKS
							    : m->id;
	*error = measure_error95(p, site, id);
	return p->estimates.errors && measures[id].errors;
}

const char *view_unit(const struct view_measure *m)
{
	return measures[m->id].unit == MEASURE_IS_BYTES ? "bytes" : "count";
}
