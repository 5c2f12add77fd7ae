/* Finds growing-site in a sampled profile, which has no history but knows when each live sample was made
 * (its birth).
 *
 * A leak keeps a constant share of what it allocates: its survivors were made evenly over the run. The
 * blocks of a working set were made just now, those of start-up at the start, and a cache that fills up made
 * fewer and fewer. So this file looks at the births of what is live at the peak, function by function, from
 * the start of the process to its peak. It measures the way by what the process had allocated, not by time:
 * a server that nobody asks for an hour does not grow meanwhile, and has not stopped growing.
 *
 *   whole     every eighth of that way must have left survivors, the first and the last too: a queue or a
 *             ring whose blocks live for less than the run has none from the beginning
 *   even      each half of the middle must have left at least a third of the middle's survivors, and that
 *             must be significant: at most 5 % probable by chance. The last eighth is left out because it
 *             also holds what is about to be freed, the first because it holds start-up
 *   steady    as for exact recordings: elsewhere a population of blocks is replaced again and again, so
 *             all its blocks are young; or the program did not end by itself, and grew in the last quarter
 *             of its time or paused before for half as long as it waits in the end
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
#include "hosted/vector.h"
#include "profile/measure.h"
#include "profile/estimate.h"

#include <math.h>
#include <stdlib.h>

enum { EIGHTHS = 8 };
/* Every eighth must have this part of its even share, as stages of the history do (growing_site.c). */
#define BIRTHS_LEAST_PART 0.25
/* But start-up may take nearly all of the first eighth: libraries, tables, the first connections. A ring or a
 * queue has nothing from the beginning. */
#define BIRTHS_LEAST_FIRST 0.05
/* Each half of the middle must have this share: see above. */
#define BIRTHS_LEAST_HALF (1.0 / 3)
/* The one-sided quantile for 5 %. */
#define BIRTHS_Z 1.645
/* Growth without end has its peak near the end of the way. What stopped before 0.906 of the way to the peak has too little in the
 * last eighth. So this finds nothing that stopped before 0.77 of all, wherever chance puts the greatest estimate of a plateau. */
#define BIRTHS_EARLIEST_PEAK 0.85
/* Nearly all blocks of a population are young: made in the last quarter of the process's life. */
#define YOUNG_AFTER 0.75
#define YOUNG_SHARE 0.9
/* One of several processes must have run for at least this part of the recording. */
#define LEAST_LIFE 0.5

struct survivors {
	double part[EIGHTHS];   /* bytes made in each eighth of the way */
	double square[EIGHTHS]; /* sum of the squares of what each sample stands for */
	double bytes, life_ns;
	uint32_t samples;
	uint32_t site; /* the largest */
	uint64_t largest;
	uint64_t allocations, frees, live_bytes;
};

/* What grows in one process */
struct grown {
	struct endless e;
	uint32_t process, processes;
};

static const char samples_rule[] = "What a function has live at the peak was made evenly over the "
				   "whole run, measured by what the program "
				   "had allocated, while the program works at a steady pace.";

static void add_birth(struct survivors *v, const struct profile_birth *b)
{
	unsigned at = b->progress < 1 ? (unsigned)(b->progress * EIGHTHS) : EIGHTHS - 1;
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
static double even_growth(struct rule *r, const struct survivors *v, double *late)
{
	double before = sum(v->part, 1, EIGHTHS / 2),
	       after = sum(v->part, EIGHTHS / 2, EIGHTHS - 1);
	double middle = before + after, even = middle / (EIGHTHS - 2), least_part = INFINITY;
	if (middle <= 0)
		return 0;
	for (unsigned i = 1; i < EIGHTHS; i++)
		if (v->part[i] / even < least_part)
			least_part = v->part[i] / even;
	double variance = (after * after * sum(v->square, 1, EIGHTHS / 2) +
			   before * before * sum(v->square, EIGHTHS / 2, EIGHTHS - 1)) /
			  (middle * middle * middle * middle);
	double least = (before < after ? before : after) / middle;
	/* Chance alone must not make it seem to slow down. */
	*late = (after / middle + BIRTHS_Z * sqrt(variance)) * 2;
	bool grows = rule_at_least(r, "first eighth of the way, against even growth", UNIT_SHARE,
				   v->part[0] / even, BIRTHS_LEAST_FIRST) &&
		     rule_at_least(r, "least of the other eighths, against even growth", UNIT_SHARE,
				   least_part, BIRTHS_LEAST_PART) &&
		     rule_at_least(r, "share of the lesser half of the middle, less its error",
				   UNIT_SHARE, least - BIRTHS_Z * sqrt(variance),
				   BIRTHS_LEAST_HALF);
	return grows ? middle : 0;
}

static uint64_t life_of(const struct profile *p, uint32_t process)
{
	if (p->process_count <= 1)
		return p->run.duration_ns;
	const struct profile_process *q = &p->processes[process];
	uint64_t end = q->end == PROFILE_END_RUNNING ? p->run.duration_ns : q->end_ns;
	return end > q->start_ns ? end - q->start_ns : 0;
}

/* Whether it grows, and how. */
static bool grows(const struct diagnosis *d, const struct survivors *v, bool paced,
		  struct endless *e)
{
	*e = (struct endless){.rule = rule_begin(samples_rule)};
	double middle = even_growth(&e->rule, v, &e->late), so_far = 0;
	/* Over the whole time, with all pauses, as for exact recordings. */
	double seconds = v->life_ns * (EIGHTHS - 2) / EIGHTHS / 1e9;
	if (middle <= 0 || seconds <= 0)
		return false;
	for (unsigned i = 0; i < ENDLESS_POINTS; i++)
		e->course[i] = (so_far += v->part[i * EIGHTHS / ENDLESS_POINTS]) / v->bytes;
	e->site = v->site;
	e->name = d->named[v->site];
	e->rate = middle / seconds;
	e->rate_variance = sum(v->square, 1, EIGHTHS - 1) / seconds / seconds;
	e->gained_bytes = estimate_rounded(middle * (EIGHTHS - 1) / (EIGHTHS - 2));
	e->level_bytes = estimate_rounded(v->bytes);
	e->live_bytes = v->live_bytes;
	e->allocations = v->allocations;
	e->frees = v->frees;
	e->paced = paced;
	e->samples = v->samples;
	e->early_bytes = sum(v->part, 0, EIGHTHS / 2);
	return true;
}

/* Reports a function that grows in so many of several processes. */
static int report(struct diagnosis *d, struct grown *g)
{
	struct endless *e = &g->e;
	struct draft f = endless_draft(d, e);
	draft_count(&f, "samples", e->samples);
	draft_share(&f, "made_in_first_half_share", e->early_bytes / (double)e->level_bytes);
	if (d->p->process_count > 1) {
		draft_count(&f, "pid", (uint64_t)d->p->processes[g->process].pid);
		draft_count(&f, "processes", g->processes);
		f.finding.summary = diagnosis_in_process(d, d->p, g->process, f.finding.summary);
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
		young += b->progress >= YOUNG_AFTER ? b->bytes : 0;
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

static bool is_paced(const struct profile *p, const uint32_t *first, uint32_t process)
{
	bool paced = false;
	for (uint32_t i = 0; i < p->site_count && !paced; i++)
		paced = is_steady_site(p, first, i, process);
	return paced;
}

static int by_time(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* The longest time in which nothing was made that is live at the peak, up to then; as part of that time. */
static double longest_pause(const struct profile *p, uint32_t process)
{
	uint32_t count = 0;
	double longest = 0, *at = malloc(((size_t)p->estimates.peak_births.count + 1) * sizeof *at);
	for (uint32_t i = 0; at && i < p->estimates.peak_births.count; i++)
		if (p->process_count <= 1 || p->estimates.peak_births.list[i].process == process)
			at[count++] = p->estimates.peak_births.list[i].at;
	if (at && count)
		qsort(at, count, sizeof *at, by_time);
	for (uint32_t i = 1; at && i < count; i++)
		if (at[i] - at[i - 1] > longest)
			longest = at[i] - at[i - 1];
	free(at);
	return longest;
}

/* Whether growth in this process means something. */
static bool is_watched(const struct profile *p, const uint32_t *first, uint32_t process,
		       bool *paced)
{
	double life = (double)life_of(p, process), peak = (double)p->totals.peak_time_ns;
	double way = process < p->process_count ? p->processes[process].peak_progress : 0;
	if (p->process_count > 1) {
		const struct profile_process *q = &p->processes[process];
		peak = q->totals.peak_time_ns > q->start_ns
			       ? (double)(q->totals.peak_time_ns - q->start_ns)
			       : 0;
		if (life < LEAST_LIFE * (double)p->run.duration_ns)
			return false;
	}
	bool late = peak >= BIRTHS_EARLIEST_PEAK * life;
	if (way > 0 ? way < BIRTHS_EARLIEST_PEAK : !late)
		return false;
	*paced = is_paced(p, first, process);
	return *paced ||
	       (endless_did_not_end(p) &&
		(late || longest_pause(p, process) * peak >= ENDLESS_PAUSE_SHARE * (life - peak)));
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

/* Adds what grows in one process to the list: functions, merged by their callers. */
static int look_at_process(struct diagnosis *d, const uint32_t *first, uint32_t process, bool paced,
			   struct endless *list)
{
	const struct profile *p = d->p;
	const uint32_t *sites = d->by_function;
	uint32_t count = d->by_function_count, used = 0;
	for (uint32_t i = 0, next; i < count; i = next) {
		struct survivors v = {.site = sites[i]};
		for (next = i; next < count && named_alike(p, d->named, sites[i], sites[next]);
		     next++)
			add_site(d, &v, process, sites[next], first);
		if (grows(d, &v, paced, &list[used]))
			used++;
	}
	int left = endless_merge(d, list, used), kept = 0;
	for (int i = 0; i < left; i++) {
		struct endless *e = &list[i];
		if (endless_is_large(p, e) &&
		    (!e->freed_at_end || life_of(p, process) >= ENDLESS_SERVICE_NS ||
		     endless_was_stopped(p)))
			list[kept++] = *e;
	}
	return left < 0 ? left : kept;
}

/* Workers show the same at the same function: the one that holds most stays. */
static int add_grown(struct grown **all, uint32_t *count, uint32_t *capacity,
		     const struct profile *p, const struct endless *e, uint32_t process)
{
	for (uint32_t i = 0; i < *count; i++) {
		struct grown *g = &(*all)[i];
		if (!same_function(p, p->stacks.nodes[g->e.name].frame,
				   p->stacks.nodes[e->name].frame))
			continue;
		if (g->process != process)
			g->processes++;
		if (e->level_bytes > g->e.level_bytes) {
			g->e = *e;
			g->process = process;
		}
		return 0;
	}
	if (!array_reserve(*all, *count, *capacity, 1))
		return HEFT_ENOMEM;
	(*all)[(*count)++] = (struct grown){.e = *e, .process = process, .processes = 1};
	return 0;
}

int diagnose_growing_samples(struct diagnosis *d)
{
	const struct profile *p = d->p;
	uint32_t processes = p->process_count > 1 ? p->process_count : 1, count = 0, capacity = 0;
	if (!p->estimates.peak_births.count)
		return 0;
	uint32_t *first = births_by_site(p);
	struct endless *list = malloc(((size_t)d->by_function_count + 1) * sizeof *list);
	struct grown *all = NULL;
	int rc = first && list ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; i < processes && rc == 0; i++) {
		bool paced = false;
		int found = is_watched(p, first, i, &paced)
				    ? look_at_process(d, first, i, paced, list)
				    : 0;
		rc = found < 0 ? found : 0;
		for (int k = 0; k < found && rc == 0; k++)
			rc = add_grown(&all, &count, &capacity, p, &list[k], i);
	}
	for (uint32_t i = 0; i < count && rc == 0; i++)
		rc = report(d, &all[i]);
	free(first);
	free(list);
	free(all);
	return rc;
}
