/* Finds growing-site in a sampled profile, which has no history but knows when each live sample was made
 * (its birth).
 *
 * A leak keeps a constant share of what it allocates: its survivors were made evenly over the run. The
 * blocks of a working set were made just now, those of start-up at the start, and a cache that fills up made
 * fewer and fewer. So this file looks at the births of what is live at the peak, function by function, from
 * the start of the process to its peak:
 *
 *   whole     every eighth of that time must have left survivors, the first and the last too: a queue or a
 *             ring whose blocks live for less than the run has none from the beginning
 *   even      each half of the middle must have left at least a third of the middle's survivors, and that
 *             must be significant: at most 5 % probable by chance. The last eighth is left out because it
 *             also holds what is about to be freed, the first because it holds start-up
 *   steady    as for exact recordings: elsewhere a population of blocks is replaced again and again, so
 *             all its blocks are young; or the program did not end by itself
 *
 * If there are several processes, each is looked at by itself: a sum over processes would grow just because
 * one starts after the other. Only processes that ran for half of the recording are looked at; shorter ones
 * were started for a task. If several processes show it at the same function (workers), it is reported once,
 * with the numbers of the process that holds most.
 *
 * For a plateau of blocks with exponential lifetimes, the earlier half holds a third if blocks live for 0.54
 * of the run on average. At shorter lifetimes the rule is silent (but for 5 % of borderline cases), and
 * after four such lifetimes a plateau is reached within 2 %. Even growth passes in half of the cases with 70
 * samples, in 99 of 100 with 220 (docs/sampling.md). */
#include "findings/endless_growth.h"

#include "findings/site_names.h"
#include "profile/measure.h"
#include "profile/estimate.h"

#include <math.h>
#include <stdlib.h>

enum { EIGHTHS = 8 };
/* Every eighth must have this part of its even share, as stages of the history do (growing_site.c). */
#define BIRTHS_LEAST_PART 0.25
/* Each half of the middle must have this share: see above. */
#define BIRTHS_LEAST_HALF (1.0 / 3)
/* The one-sided quantile for 5 %. */
#define BIRTHS_Z 1.645
/* Growth without end has its peak near the end. */
#define BIRTHS_EARLIEST_PEAK 0.75
/* Nearly all blocks of a population are young: made in the last quarter of the process's life. */
#define YOUNG_AFTER 0.75
#define YOUNG_SHARE 0.9
/* One of several processes must have run for at least this part of the recording. */
#define LEAST_LIFE 0.5

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

/* Bytes gained in the middle, from 1/8 to 7/8; 0: it does not grow evenly over the whole run. The variance
 * uses whole squares, because chance also decides how many blocks survive, not only which are sampled. */
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

static uint64_t life_of(const struct profile *p, uint32_t process)
{
	if (p->process_count <= 1)
		return p->run.duration_ns;
	const struct profile_process *q = &p->processes[process];
	uint64_t end = q->end == PROFILE_END_RUNNING ? p->run.duration_ns : q->end_ns;
	return end > q->start_ns ? end - q->start_ns : 0;
}

/* Whether it grows, and how. `process` is one of several, or 0. */
static bool grows(const struct profile *p, const struct survivors *v, uint32_t process,
		  struct endless *e)
{
	double middle = even_growth(v), seconds = v->life_ns * (EIGHTHS - 2) / EIGHTHS / 1e9;
	uint64_t gained = estimate_rounded(middle * (EIGHTHS - 1) / (EIGHTHS - 2));
	uint64_t level = estimate_rounded(v->bytes);
	if (middle <= 0 || seconds <= 0 || !endless_is_large(p, gained, level))
		return false;
	*e = (struct endless){
		.site = v->site,
		.rate = middle / seconds,
		.rate_error95 = estimate_error95(sum(v->square, 1, EIGHTHS - 1)) / seconds,
		.gained_bytes = gained,
		.level_bytes = level,
		.allocations = v->allocations,
		.frees = v->frees,
		.freed_at_end = endless_is_freed(v->live_bytes, level),
	};
	return !e->freed_at_end || life_of(p, process) >= ENDLESS_SERVICE_NS ||
	       endless_was_stopped(p);
}

/* Reports a function that grows in so many of several processes. */
static int report(struct diagnosis *d, const struct survivors *v, const struct endless *e,
		  uint32_t process, uint32_t processes)
{
	struct draft f = endless_draft(d, e);
	draft_count(&f, "samples", v->samples);
	draft_share(&f, "made_in_first_half_share", sum(v->part, 0, EIGHTHS / 2) / v->bytes);
	if (d->p->process_count > 1) {
		draft_count(&f, "pid", (uint64_t)d->p->processes[process].pid);
		draft_count(&f, "processes", processes);
		f.finding.summary = diagnosis_in_process(d, d->p, process, f.finding.summary);
	}
	return draft_add(d, &f);
}

/* Where the births of each site begin; [site_count] is the end of all. NULL: no memory. */
static uint32_t *births_by_site(const struct profile *p)
{
	uint32_t *first = calloc((size_t)p->site_count + 2, sizeof *first);
	for (uint32_t i = 0; first && i < p->estimates.peak_births.count; i++)
		first[p->estimates.peak_births.list[i].site + 1]++;
	for (uint32_t i = 0; first && i < p->site_count; i++)
		first[i + 1] += first[i];
	return first;
}

/* The share of a process in a site's numbers, which are sums over all processes: estimated as its share in
 * everything. */
static double part_of(const struct profile *p, uint32_t process)
{
	return p->process_count <= 1 ? 1
				     : share_of(p->processes[process].totals.allocated_bytes,
						p->totals.allocated_bytes);
}

static bool is_steady_site(const struct profile *p, const uint32_t *first, uint32_t site,
			   uint32_t process)
{
	const struct profile_site *s = &p->sites[site];
	bool several = p->process_count > 1;
	double young = 0, all = 0, square = 0;
	uint64_t bytes = s->peak_bytes, blocks = s->peak_blocks, made = s->allocations;
	for (uint32_t i = first[site]; i < first[site + 1]; i++) {
		const struct profile_birth *b = &p->estimates.peak_births.list[i];
		if (several && b->process != process)
			continue;
		all += b->bytes;
		square += b->variance;
		young += b->at >= YOUNG_AFTER ? b->bytes : 0;
	}
	if (several) {
		bytes = estimate_rounded(all);
		blocks = s->allocated_bytes ? estimate_rounded(all * (double)s->allocations /
							       (double)s->allocated_bytes)
					    : 0;
		made = estimate_rounded((double)made * part_of(p, process));
	}
	if (several ? estimate_is_few(all, estimate_error95(square))
		    : measure_is_rough(p, site, MEASURE_PEAK_BYTES))
		return false;
	return young >= YOUNG_SHARE * all &&
	       endless_is_population(p, bytes, blocks, made > blocks ? made - blocks : 0);
}

static bool is_steady(const struct profile *p, const uint32_t *first, uint32_t process)
{
	bool steady = endless_did_not_end(p);
	for (uint32_t i = 0; i < p->site_count && !steady; i++)
		steady = is_steady_site(p, first, i, process);
	return steady;
}

/* Whether growth in this process means something. */
static bool is_watched(const struct profile *p, const uint32_t *first, uint32_t process)
{
	uint64_t life = life_of(p, process), peak = p->totals.peak_time_ns;
	if (p->process_count > 1) {
		const struct profile_process *q = &p->processes[process];
		peak = q->totals.peak_time_ns > q->start_ns ? q->totals.peak_time_ns - q->start_ns
							    : 0;
		if ((double)life < LEAST_LIFE * (double)p->run.duration_ns)
			return false;
	}
	return (double)peak >= BIRTHS_EARLIEST_PEAK * (double)life && is_steady(p, first, process);
}

/* How much a process has live at a site now. */
static uint64_t live_of(const struct profile *p, uint32_t site, uint32_t process)
{
	double bytes = 0;
	if (p->process_count <= 1 || !p->estimates.ages)
		return p->sites[site].live_bytes;
	const struct profile_age *a = &p->estimates.ages[site];
	for (uint32_t i = a->first; i < a->first + a->count; i++)
		if (p->estimates.live_births.list[i].process == process)
			bytes += p->estimates.live_births.list[i].bytes;
	return estimate_rounded(bytes);
}

static void add_site(const struct diagnosis *d, struct survivors *v, uint32_t process,
		     uint32_t site, const uint32_t *first)
{
	const struct profile *p = d->p;
	const struct profile_site *s = &p->sites[site];
	double part = part_of(p, process), bytes = 0;
	for (uint32_t k = first[site]; k < first[site + 1]; k++) {
		const struct profile_birth *b = &p->estimates.peak_births.list[k];
		if (p->process_count > 1 && b->process != process)
			continue;
		add_birth(v, b);
		bytes += b->bytes;
	}
	v->allocations += estimate_rounded((double)s->allocations * part);
	/* Both estimates are rounded; the numbers of samples show whether any were freed. */
	if (p->estimates.spreads[site].samples > p->estimates.spreads[site].left_samples)
		v->frees += estimate_rounded((double)s->frees * part);
	v->live_bytes += live_of(p, site, process);
	if (estimate_rounded(bytes) > v->largest) {
		v->site = site;
		v->largest = estimate_rounded(bytes);
	}
}

static int look_at_functions(struct diagnosis *d, const uint32_t *first, const uint32_t *watched,
			     uint32_t watched_count)
{
	const struct profile *p = d->p;
	const uint32_t *sites = d->by_function;
	uint32_t count = d->by_function_count;
	int rc = 0;
	for (uint32_t i = 0, next; i < count && rc == 0; i = next) {
		struct survivors most = {0};
		struct endless e, most_e = {0};
		uint32_t found = 0, process = 0;
		for (next = i; next < count && named_alike(p, d->named, sites[i], sites[next]);)
			next++;
		for (uint32_t w = 0; w < watched_count; w++) {
			struct survivors v = {.site = sites[i]};
			for (uint32_t k = i; k < next; k++)
				add_site(d, &v, watched[w], sites[k], first);
			if (!grows(p, &v, watched[w], &e))
				continue;
			found++;
			if (e.level_bytes > most_e.level_bytes) {
				most = v;
				most_e = e;
				process = watched[w];
			}
		}
		if (found)
			rc = report(d, &most, &most_e, process, found);
	}
	return rc;
}

int diagnose_growing_samples(struct diagnosis *d)
{
	const struct profile *p = d->p;
	uint32_t count = p->process_count > 1 ? p->process_count : 1, used = 0;
	if (!p->estimates.peak_births.count)
		return 0;
	uint32_t *first = births_by_site(p), *watched = malloc(count * sizeof *watched);
	int rc = first && watched ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; i < count && rc == 0; i++)
		if (is_watched(p, first, i))
			watched[used++] = i;
	if (used)
		rc = look_at_functions(d, first, watched, used);
	free(first);
	free(watched);
	return rc;
}
