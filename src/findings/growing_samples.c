/* growing-site in a sampled profile, which has no history but knows when each live sample was made.
 *
 * Of a leak, a constant part of what is allocated stays: its survivors were made evenly over the run.
 * A working set's were made just now, what start-up left was made then, and a cache that fills up has
 * made fewer and fewer. So the births of what is live at the peak are looked at, function by
 * function, in the life of the process up to there:
 *
 *   whole     every part of it must have left survivors, the first and the last eighth too: a queue
 *             or a ring whose blocks live for less than the run has none from its beginning
 *   even      of its middle (the last eighth also holds what is about to be freed, the first what
 *             start-up made) either half must have left at least a third, and that must be
 *             significant: not to be put down to chance with more than 5 % probability
 *   settled   as for exact recordings: somewhere else a population of blocks is replaced again and
 *             again, all of it young; or the program did not end by itself
 *
 * For a plateau of blocks with exponential lifetimes, the earlier half holds a third if they live for
 * 0.54 of the run on average: at shorter lifetimes the rule is silent (but for 5 % of borderline
 * cases), and by four such lifetimes a plateau is reached within 2 %. Even growth passes in half of
 * the cases with 70 samples, in 99 of 100 with 220 (docs/sampling.md). */
#include "findings/endless_growth.h"

#include "findings/site_names.h"
#include "profile/estimate.h"

#include <math.h>
#include <stdlib.h>

enum { EIGHTHS = 8 };
/* What every eighth must have of its even share; as for stages of history (growing_site.c). */
#define BIRTHS_LEAST_PART 0.25
/* A half of the middle, at least: see above. */
#define BIRTHS_LEAST_HALF (1.0 / 3)
/* One-sided chance of 5 %. */
#define BIRTHS_Z 1.645
/* It still grows when it is largest: not long before the end. */
#define BIRTHS_EARLIEST_PEAK 0.75
/* Young: of a population nearly all, within the last quarter of its process's life. */
#define YOUNG_AFTER 0.75
#define YOUNG_SHARE 0.9

struct survivors {
	double part[EIGHTHS];   /* bytes made in each eighth */
	double square[EIGHTHS]; /* sum of the squares of what each sample stands for */
	double bytes, life_ns;
	uint32_t samples;
	uint32_t site; /* the largest */
	uint64_t largest;
	uint64_t allocations, frees, live_bytes;
};

static void add_birth(struct survivors *v, const struct profile_birth *b)
{
	unsigned at = b->at < 1 ? (unsigned)(b->at * EIGHTHS) : EIGHTHS - 1;
	v->part[at] += b->bytes;
	v->square[at] += b->bytes * b->bytes;
	v->bytes += b->bytes;
	v->samples++;
	if (b->at < 1 && (double)b->age_ns / (1 - b->at) > v->life_ns)
		v->life_ns = (double)b->age_ns / (1 - b->at);
}

static double sum(const double *parts, unsigned from, unsigned to)
{
	double all = 0;
	for (unsigned i = from; i < to; i++)
		all += parts[i];
	return all;
}

/* Bytes gained in the middle, from 1/8 to 7/8; 0: it does not grow evenly over all of the run. How
 * many blocks survive is chance too, not only which of them are sampled: hence whole squares. */
static double even_growth(const struct survivors *v)
{
	double early = sum(v->part, 1, EIGHTHS / 2), late = sum(v->part, EIGHTHS / 2, EIGHTHS - 1);
	double middle = early + late, even = middle / (EIGHTHS - 2);
	if (middle <= 0)
		return 0;
	for (unsigned i = 0; i < EIGHTHS; i++)
		if (v->part[i] < BIRTHS_LEAST_PART * even)
			return 0;
	double variance = (late * late * sum(v->square, 1, EIGHTHS / 2) +
			   early * early * sum(v->square, EIGHTHS / 2, EIGHTHS - 1)) /
			  (middle * middle * middle * middle);
	double least = (early < late ? early : late) / middle;
	return least - BIRTHS_Z * sqrt(variance) > BIRTHS_LEAST_HALF ? middle : 0;
}

static int look_at(struct diagnosis *d, const struct survivors *v)
{
	const struct profile *p = d->p;
	double middle = even_growth(v), seconds = v->life_ns * (EIGHTHS - 2) / EIGHTHS / 1e9;
	uint64_t gained = estimate_rounded(middle * (EIGHTHS - 1) / (EIGHTHS - 2));
	uint64_t level = estimate_rounded(v->bytes);
	if (middle <= 0 || seconds <= 0 || !endless_is_large(p, gained, level))
		return 0;
	struct endless e = {
		.site = v->site,
		.rate = middle / seconds,
		.rate_error95 = estimate_error95(sum(v->square, 1, EIGHTHS - 1)) / seconds,
		.gained_bytes = gained,
		.level_bytes = level,
		.allocations = v->allocations,
		.frees = v->frees,
		.freed_at_end = endless_is_freed(v->live_bytes, level),
	};
	if (e.freed_at_end && p->duration_ns < ENDLESS_SERVICE_NS)
		return 0;
	struct draft f = endless_draft(d, &e);
	draft_count(&f, "samples", v->samples);
	draft_share(&f, "made_in_first_half_share", sum(v->part, 0, EIGHTHS / 2) / v->bytes);
	return draft_add(d, &f);
}

/* Where a site's births begin: [site_count] is their end. NULL: no memory. */
static uint32_t *births_by_site(const struct profile *p)
{
	uint32_t *first = calloc((size_t)p->site_count + 2, sizeof *first);
	for (uint32_t i = 0; first && i < p->peak_births.count; i++)
		first[p->peak_births.list[i].site + 1]++;
	for (uint32_t i = 0; first && i < p->site_count; i++)
		first[i + 1] += first[i];
	return first;
}

static bool is_settled(const struct profile *p, const uint32_t *first, uint32_t site)
{
	const struct profile_site *s = &p->sites[site];
	double young = 0, all = 0;
	if (profile_few_samples(p, site, PROFILE_BY_PEAK))
		return false;
	for (uint32_t i = first[site]; i < first[site + 1]; i++) {
		const struct profile_birth *b = &p->peak_births.list[i];
		all += b->bytes;
		young += b->at >= YOUNG_AFTER ? b->bytes : 0;
	}
	return young >= YOUNG_SHARE * all &&
	       endless_is_population(
		       p, s->peak_bytes, s->peak_blocks,
		       s->allocations > s->peak_blocks ? s->allocations - s->peak_blocks : 0);
}

static int look_at_functions(struct diagnosis *d, const uint32_t *first)
{
	const struct profile *p = d->p;
	const uint32_t *sites = d->by_function;
	uint32_t count = d->by_function_count;
	int rc = 0;
	for (uint32_t i = 0, next; i < count && rc == 0; i = next) {
		struct survivors v = {.site = sites[i]};
		for (next = i; next < count && named_alike(p, d->named, sites[i], sites[next]);
		     next++) {
			const struct profile_site *s = &p->sites[sites[next]];
			for (uint32_t k = first[sites[next]]; k < first[sites[next] + 1]; k++)
				add_birth(&v, &p->peak_births.list[k]);
			v.allocations += s->allocations;
			/* Estimates of both are rounded: it is the samples that were freed. */
			if (p->spreads[sites[next]].samples > p->spreads[sites[next]].live_samples)
				v.frees += s->frees;
			v.live_bytes += s->live_bytes;
			if (s->peak_bytes > v.largest) {
				v.site = sites[next];
				v.largest = s->peak_bytes;
			}
		}
		rc = look_at(d, &v);
	}
	return rc;
}

int diagnose_growing_samples(struct diagnosis *d)
{
	const struct profile *p = d->p;
	if (!p->peak_births.count ||
	    (double)p->totals.peak_time_ns < BIRTHS_EARLIEST_PEAK * (double)p->duration_ns)
		return 0;
	uint32_t *first = births_by_site(p);
	if (!first)
		return HEFT_ENOMEM;
	bool settled = endless_did_not_end(p);
	for (uint32_t i = 0; i < p->site_count && !settled; i++)
		settled = is_settled(p, first, i);
	int rc = settled ? look_at_functions(d, first) : 0;
	free(first);
	return rc;
}
