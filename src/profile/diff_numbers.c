/* The numbers of a comparison (profile_diff.h): each measure on both sides, how far the change may be
 * from the truth, what counts as a change, and the order of changes. */
#include "profile/profile_diff.h"

#include "hosted/ranking.h"
#include "profile/estimate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double measure_of(const struct profile_diff_side *s, enum measure_id measure)
{
	return measure == MEASURE_LIFETIME ? s->lifetime_ns
					   : (double)measure_of_site(&s->sums, measure);
}

double *profile_diff_variance(struct profile_diff_side *s, enum measure_id measure)
{
	return (double *)((char *)&s->variance + measures[measure].spread - 1);
}

double profile_diff_side_error95(const struct profile_diff_side *s, enum measure_id measure)
{
	return sqrt(measure_variance(&s->variance, measure));
}

bool profile_diff_has(const struct profile_diff *d, enum measure_id measure)
{
	return measure_is_compared(measure) && measure_known(d->old, measure) &&
	       measure_known(d->new, measure);
}

bool profile_diff_divides(const struct profile_diff *d, enum measure_id measure)
{
	switch (d->per.unit) {
	case PROFILE_PER_RUN: return false;
	case PROFILE_PER_SECOND: return measures[measure].kind == MEASURE_OVER_TIME;
	case PROFILE_PER_OPERATIONS: return measures[measure].kind != MEASURE_OF_BLOCKS;
	}
	return false;
}

double profile_diff_old(const struct profile_diff *d, const struct profile_diff_side *s,
			enum measure_id measure)
{
	return measure_of(s, measure) / (profile_diff_divides(d, measure) ? d->per.old : 1);
}

double profile_diff_new_value(const struct profile_diff *d, const struct profile_diff_side *s,
			      enum measure_id measure)
{
	return measure_of(s, measure) / (profile_diff_divides(d, measure) ? d->per.new : 1);
}

double profile_diff_change(const struct profile_diff *d, const struct profile_diff_entry *e,
			   enum measure_id measure)
{
	return profile_diff_new_value(d, &e->new, measure) - profile_diff_old(d, &e->old, measure);
}

bool profile_diff_is_estimate(const struct profile_diff *d)
{
	return d->old->estimates.errors || d->new->estimates.errors;
}

/* The error of one side; `other` is the same stack on the other one. */
static double side_error(const struct profile *p, const struct profile_diff_side *s,
			 const struct profile_diff_side *other, enum measure_id measure)
{
	if (!p->estimates.errors || s->sites)
		return profile_diff_side_error95(s, measure);
	double unseen = estimate_unseen_bytes(p->run.rate_bytes);
	if (measure != MEASURE_ALLOCATIONS)
		return profile_diff_side_error95(other, measure) > 0 ||
				       measure_of(other, measure) > 0
			       ? unseen
			       : 0;
	double blocks = (double)other->sums.allocations;
	return unseen / ((blocks > 0 ? (double)other->sums.allocated_bytes / blocks : 0) + 1);
}

double profile_diff_error95(const struct profile_diff *d, const struct profile_diff_entry *e,
			    enum measure_id measure)
{
	bool divides = profile_diff_divides(d, measure);
	return estimate_together(
		side_error(d->old, &e->old, &e->new, measure) / (divides ? d->per.old : 1),
		side_error(d->new, &e->new, &e->old, measure) / (divides ? d->per.new : 1));
}

double profile_diff_total_error95(const struct profile_diff *d, enum measure_id measure)
{
	bool divides = profile_diff_divides(d, measure);
	return estimate_together(
		profile_diff_side_error95(&d->old_total, measure) / (divides ? d->per.old : 1),
		profile_diff_side_error95(&d->new_total, measure) / (divides ? d->per.new : 1));
}

const char *profile_change_name(enum profile_change change)
{
	static const char *const names[PROFILE_CHANGES] = {
		[PROFILE_SAME] = "same",   [PROFILE_INSIGNIFICANT] = "insignificant",
		[PROFILE_GROWN] = "grown", [PROFILE_SHRUNK] = "shrunk",
		[PROFILE_NEW] = "new",     [PROFILE_VANISHED] = "vanished",
	};
	return change < PROFILE_CHANGES ? names[change] : "unknown";
}

enum profile_change profile_diff_classify(const struct profile_diff *d,
					  const struct profile_diff_entry *e,
					  enum measure_id measure, double threshold)
{
	double change = profile_diff_change(d, e, measure);
	if (fabs(change) <= threshold)
		return PROFILE_SAME;
	if (profile_diff_is_estimate(d) && fabs(change) <= profile_diff_error95(d, e, measure))
		return PROFILE_INSIGNIFICANT;
	if (!e->old.sites)
		return PROFILE_NEW;
	if (!e->new.sites)
		return PROFILE_VANISHED;
	return change > 0 ? PROFILE_GROWN : PROFILE_SHRUNK;
}

struct profile_threshold profile_threshold_for(const struct profile_threshold *given,
					       enum measure_id asked, enum measure_id measure)
{
	if (measure == asked || !given->absolute)
		return *given;
	return (struct profile_threshold){.share = PROFILE_NOISE};
}

void profile_diff_summarise(const struct profile_diff *d, enum measure_id measure,
			    const struct profile_threshold *threshold,
			    struct profile_diff_summary *s)
{
	memset(s, 0, sizeof *s);
	s->old = profile_diff_old(d, &d->old_total, measure);
	s->new = profile_diff_new_value(d, &d->new_total, measure);
	double whole = s->old > s->new ? s->old : s->new;
	if (measure == MEASURE_LIFETIME)
		whole = (double)(d->old->run.duration_ns > d->new->run.duration_ns
					 ? d->old->run.duration_ns
					 : d->new->run.duration_ns);
	if (!threshold->absolute)
		s->threshold = threshold->share * whole;
	else
		s->threshold = threshold->value;
	s->error95 = profile_diff_total_error95(d, measure);
	s->largest_entry = s->next_entry = PROFILE_NONE;
	double next = 0;
	for (uint32_t i = 0; i < d->count; i++) {
		const struct profile_diff_entry *e = &d->entries[i];
		double change = profile_diff_change(d, e, measure);
		enum profile_change kind = profile_diff_classify(d, e, measure, s->threshold);
		s->counts[kind]++;
		if (kind == PROFILE_SAME)
			s->below += change;
		if (fabs(change) > fabs(s->largest)) {
			s->largest = change;
			s->largest_entry = i;
		}
		if (kind > PROFILE_INSIGNIFICANT && fabs(change) > next) {
			next = fabs(change);
			s->next_entry = i;
		}
	}
	s->changed = s->counts[PROFILE_SAME] + s->counts[PROFILE_INSIGNIFICANT] < d->count ||
		     fabs(s->new - s->old) > fmax(s->threshold, s->error95);
	if (s->next_entry == PROFILE_NONE)
		s->next_entry = s->largest_entry;
}

uint32_t *profile_diff_sorted(const struct profile_diff *d, enum measure_id measure)
{
	struct ranked *list = malloc(((size_t)d->count + 1) * sizeof *list);
	for (uint32_t i = 0; list && i < d->count; i++) {
		double change = profile_diff_change(d, &d->entries[i], measure);
		list[i] = (struct ranked){rank_value(fabs(change)), i};
	}
	return rank_take_order(list, d->count);
}
