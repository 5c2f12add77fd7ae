/* growing-site: the memory of a function only ever grows, in a program that has reached a steady state.
 *
 * Live bytes that rise from start to end are not enough: a compiler, a loader or a script that fills a table
 * does just that, and then it is done. Growth is a leak in all but name if it goes on while the rest of the
 * program is steady. So two things must be seen:
 *
 *   growth    what the function keeps (the floor of its live bytes) rises in every stage of the run after
 *             the first, about evenly, up to the end. A cache that fills up, tables made at the start and
 *             sawteeth all have a stage in which the floor does not rise.
 *   steady    elsewhere in the program blocks are replaced again and again at a constant level (sessions, a
 *             cache). Or the program did not end by itself: a signal ended it, or the recording stopped
 *             while it ran. Then the function must have grown up to the last quarter of the time, or have
 *             paused before for half as long as it waits in the end: a program that first loads and then
 *             waits does not.
 *
 * Blocks that are all freed when the program ends were not forgotten: a data set, an arena. They are
 * reported only if the run was so long that the program is a service, if a signal ended it (Ctrl-C makes
 * Python free everything), or if they grow in step with blocks that are replaced, about one for each, as
 * when every request leaves something behind. */
#include "findings/endless_growth.h"

#include "findings/site_names.h"
#include "profile/profile_trend.h"

#include <math.h>
#include <stdlib.h>

enum {
	GROWING_PARTS = 16,
	GROWING_STARTUP = 2,
	GROWING_LEAST_SLOTS = 2 * GROWING_PARTS, /* a floor needs more than one point */
};
/* The first parts are start-up. After them, every stage of two or three parts must gain this part of its
 * share. (Not every single part: a program that does not run for a few milliseconds does not grow.) */
#define GROWING_LEAST_STAGE 0.25
/* A cache that is filled at random fills up ever more slowly: the second half of the run after
 * start-up must gain this part of its share. Even growth gains 1, growth with the square root of
 * time 0.8, a cache with as many replacements as four times its places 0.35. */
#define GROWING_LEAST_LATE 0.7
/* The two-sided quantile for one in a thousand (profile_trend.h). */
#define GROWING_LEAST_Z 3.29
/* It grows to its top, which comes late, and after it only shrinks. It does not reach that level, less 2 %,
 * long before. */
#define GROWING_LATEST_TOP 0.75
#define GROWING_TOP 0.98
#define GROWING_LATEST_REACHED 0.9
/* It pauses while it grows by less than this part of its top in a slot, once it has that other part. */
#define GROWING_STILL 0.0005
#define GROWING_BEGUN 0.05
/* A level is constant if it stays above half of its highest after the first quarter of the run. */
#define STEADY_FLOOR 0.5
/* Two sites grow in step if their numbers of blocks differ by at most this factor. */
#define GROWING_IN_STEP 4

struct growing {
	uint64_t *bytes; /* live bytes, by slot */
	uint32_t site;   /* the largest one */
	uint64_t largest;
	uint64_t allocations, frees, live_bytes;
	bool paced; /* other blocks of the program are replaced at a constant level */
};

static const char growing_rule[] = "What a function keeps (the floor of its live bytes) rises in "
				   "every stage of the run after the first, "
				   "about evenly, while the program works at a steady pace.";

/* Whether its blocks are replaced at a constant level. *most: that level, at its highest. */
static bool is_steady(const struct profile *p, uint32_t site, uint64_t *most)
{
	const struct profile_site *s = &p->sites[site];
	if (s->history >= p->behaviour.history.row_count)
		return false;
	const struct profile_history_row *row = &p->behaviour.history.rows[s->history];
	uint32_t count = p->behaviour.history.slot_count, from = count / 4, to = count - count / 8;
	uint64_t least = UINT64_MAX, blocks = 0;
	*most = 0;
	for (uint32_t i = from; i < to; i++) {
		if (row->bytes[i] < least)
			least = row->bytes[i];
		if (row->bytes[i] > *most)
			*most = row->bytes[i];
		if (row->blocks[i] > blocks)
			blocks = row->blocks[i];
	}
	return to > from && endless_is_population(p, *most, blocks, s->frees) &&
	       (double)least >= STEADY_FLOOR * (double)*most;
}

static bool is_in_step(const struct profile *p, uint64_t allocations)
{
	uint64_t level;
	for (uint32_t i = 0; i < p->site_count; i++)
		if (is_steady(p, i, &level) && endless_is_large_population(p, level) &&
		    allocations <= GROWING_IN_STEP * p->sites[i].frees &&
		    p->sites[i].frees <= GROWING_IN_STEP * allocations)
			return true;
	return false;
}

/* The last slot of the greatest level. */
static uint32_t last_top(const uint64_t *bytes, uint32_t count)
{
	uint32_t top = 0;
	for (uint32_t i = 0; i < count; i++)
		if (bytes[i] >= bytes[top])
			top = i;
	return top;
}

/* The first of the slots before `top` that are all at its level, less 2 %. */
static uint32_t reached_from(const uint64_t *bytes, uint32_t top)
{
	uint32_t reached = top;
	while (reached > 0 && (double)bytes[reached - 1] >= GROWING_TOP * (double)bytes[top])
		reached--;
	return reached;
}

/* The least that a stage gained, against its even share, and what the second half did. */
static double least_stage(const uint64_t *floors, double gained, double *late)
{
	enum { LAST = GROWING_PARTS - 1, FIRST = GROWING_STARTUP, MIDDLE = (FIRST + LAST) / 2 };
	static const uint32_t stages[] = {FIRST, 5, 8, 11, 13, LAST};
	double least = INFINITY;
	for (uint32_t i = 1; i < sizeof stages / sizeof *stages; i++) {
		double even = gained * (stages[i] - stages[i - 1]) / (LAST - FIRST);
		double is = (double)floors[stages[i]] - (double)floors[stages[i - 1]];
		if (is / even < least)
			least = is / even;
	}
	*late = ((double)floors[LAST] - (double)floors[MIDDLE]) /
		(gained * (LAST - MIDDLE) / (LAST - FIRST));
	return least;
}

/* Whether it grows up to the end. Sets what it gained after start-up, its course, and how late it grew. */
static bool grows(const uint64_t *bytes, uint32_t count, struct endless *e)
{
	enum { LAST = GROWING_PARTS - 1, FIRST = GROWING_STARTUP };
	uint64_t floors[GROWING_PARTS];
	struct rule *r = &e->rule;
	uint32_t top = last_top(bytes, count);
	if (top + 1 < GROWING_LEAST_SLOTS ||
	    !rule_at_least(r, "part of the run after which it has its greatest level", UNIT_SHARE,
			   (double)top / (count - 1), GROWING_LATEST_TOP))
		return false;
	for (uint32_t i = top + 1; i < count; i++) /* it must not grow again after its top */
		if (bytes[i] > bytes[i - 1])
			return false;
	if (!rule_at_least(r, "part of the way after which it has 98 % of its greatest level",
			   UNIT_SHARE, (double)reached_from(bytes, top) / top,
			   GROWING_LATEST_REACHED))
		return false;
	trend_floors(floors, GROWING_PARTS, bytes, top + 1);
	if (floors[LAST] <= floors[FIRST])
		return false;
	e->gained_bytes = floors[LAST] - floors[FIRST];
	double gained = (double)e->gained_bytes, least = least_stage(floors, gained, &e->late);
	for (unsigned i = 0; i < ENDLESS_POINTS; i++)
		e->course[i] = ((double)floors[LAST * (i + 1) / ENDLESS_POINTS] -
				(double)floors[FIRST]) /
			       gained;
	return rule_at_least(r, "least gain of a stage, against even growth", UNIT_SHARE, least,
			     GROWING_LEAST_STAGE) &&
	       rule_at_least(r, "gain of the second half, against even growth", UNIT_SHARE, e->late,
			     GROWING_LEAST_LATE);
}

/* How far the program had come at slot i: twice its allocations. (That is its calls, plus one free for each
 * live block: frees at the end are no progress.) */
static double progress_at(const struct profile *p, uint32_t i)
{
	return (double)p->behaviour.history.events[i] + (double)p->behaviour.history.blocks[i];
}

/* Slots in which the program worked. If they are few, the machine had other things to do, and every slot holds
 * a large part of the run. */
static uint32_t busy_slots(const struct profile *p)
{
	uint32_t busy = 0;
	for (uint32_t i = 1; p->behaviour.history.events && i < p->behaviour.history.slot_count;
	     i++)
		busy += progress_at(p, i) > progress_at(p, i - 1);
	return p->behaviour.history.events ? busy : p->behaviour.history.slot_count;
}

/* Measures the levels by the program's progress instead of time, if progress is known: a program that waits
 * or does not run does not grow. Slot k is the state when k + 1 of `slot_count` parts of all allocations
 * had been made. */
static void over_progress(const struct profile *p, const uint64_t *bytes, uint64_t *out)
{
	uint32_t count = p->behaviour.history.slot_count, at = 0;
	double all = p->behaviour.history.events ? progress_at(p, count - 1) : 0;
	for (uint32_t k = 0; k < count; k++) {
		while (all > 0 && at + 1 < count && progress_at(p, at) < all * (k + 1) / count)
			at++;
		out[k] = all > 0 ? bytes[at] : bytes[k];
	}
}

/* Whether the program may have gone on: the wait at the end is short, or the program has paused before for
 * half as long. A program that first loads and then waits has not. */
static bool was_at_work(const struct profile *p, const uint64_t *bytes, uint32_t top)
{
	uint32_t last = p->behaviour.history.slot_count - 1, reached = reached_from(bytes, top);
	uint32_t pause = 0, longest = 0;
	if ((double)reached >= GROWING_LATEST_TOP * last)
		return true;
	for (uint32_t i = 1; i <= reached; i++) {
		bool rose = (double)bytes[i] - (double)bytes[i - 1] >
			    GROWING_STILL * (double)bytes[top];
		/* What was not there yet did not pause. */
		pause = rose || (double)bytes[i] < GROWING_BEGUN * (double)bytes[top] ? 0
										      : pause + 1;
		if (pause > longest)
			longest = pause;
	}
	return longest >= ENDLESS_PAUSE_SHARE * (last - reached);
}

/* Adds the function to the list if it grows. */
static int look_at(struct diagnosis *d, const struct growing *g, uint64_t *progress,
		   struct endless *list, uint32_t *count)
{
	const struct profile *p = d->p;
	struct endless e = {.rule = rule_begin(growing_rule)};
	over_progress(p, g->bytes, progress);
	if (!grows(progress, p->behaviour.history.slot_count, &e))
		return 0;
	/* The rate needs the time of the top. */
	uint32_t top = last_top(g->bytes, p->behaviour.history.slot_count);
	if (!g->paced && !was_at_work(p, g->bytes, top))
		return 0;
	struct trend trend;
	if (trend_of(&trend, g->bytes, top + 1) < 0)
		return HEFT_ENOMEM;
	if (!rule_at_least(&e.rule, "Mann and Kendall's test of the trend", UNIT_NUMBER, trend.z,
			   GROWING_LEAST_Z) ||
	    trend.slope < 0)
		return 0;
	e.site = g->site;
	e.name = d->named[g->site];
	e.level_bytes = g->bytes[top];
	/* The median slope of a program that mostly waits is 0. */
	double steps = trend.slope > 0 ? trend.slope : (double)e.gained_bytes / (top + 1);
	e.rate = steps * 1e9 / (double)p->behaviour.history.slot_ns;
	e.live_bytes = g->live_bytes;
	e.allocations = g->allocations;
	e.frees = g->frees;
	e.paced = g->paced;
	list[(*count)++] = e;
	return 0;
}

static int report(struct diagnosis *d, struct endless *e)
{
	const struct profile *p = d->p;
	if (!endless_is_large(p, e))
		return 0;
	/* What a short run frees at its end needs the best of signs. */
	if (e->freed_at_end && p->run.duration_ns < ENDLESS_SERVICE_NS && !endless_was_stopped(p) &&
	    (busy_slots(p) < GROWING_LEAST_SLOTS || !is_in_step(p, e->allocations)))
		return 0;
	endless_explain(d, e);
	struct draft f = endless_draft(d, e);
	return draft_add(d, &f);
}

static int look_at_functions(struct diagnosis *d, uint64_t *bytes, bool paced, struct endless *list,
			     uint32_t *grown)
{
	const struct profile *p = d->p;
	const uint32_t *sites = d->by_function;
	uint32_t count = d->by_function_count, slots = p->behaviour.history.slot_count;
	int rc = 0;
	for (uint32_t i = 0, next; i < count && rc == 0; i = next) {
		struct growing g = {.bytes = bytes, .site = PROFILE_NONE, .paced = paced};
		for (uint32_t k = 0; k < slots; k++)
			bytes[k] = 0;
		for (next = i; next < count && named_alike(p, d->named, sites[i], sites[next]);
		     next++) {
			const struct profile_site *s = &p->sites[sites[next]];
			if (s->history >= p->behaviour.history.row_count || d->told[sites[next]])
				continue;
			const struct profile_history_row *row =
				&p->behaviour.history.rows[s->history];
			for (uint32_t k = 0; k < slots; k++)
				bytes[k] += row->bytes[k];
			g.allocations += s->allocations;
			g.frees += s->frees;
			g.live_bytes += s->live_bytes;
			if (g.site == PROFILE_NONE || s->own_peak_bytes > g.largest) {
				g.site = sites[next];
				g.largest = s->own_peak_bytes;
			}
		}
		if (g.site != PROFILE_NONE)
			rc = look_at(d, &g, bytes + slots, list, grown);
	}
	return rc;
}

int diagnose_growing_site(struct diagnosis *d)
{
	const struct profile *p = d->p;
	if (p->behaviour.history.slot_count < GROWING_LEAST_SLOTS ||
	    !p->behaviour.history.slot_ns || busy_slots(p) < GROWING_PARTS)
		return 0;
	bool paced = false;
	uint64_t level;
	for (uint32_t i = 0; i < p->site_count && !paced; i++)
		paced = is_steady(p, i, &level);
	if (!paced && !endless_did_not_end(p))
		return 0;
	/* A function that grows has a row of the history. */
	uint32_t rows = p->behaviour.history.row_count, count = 0;
	uint64_t *bytes = malloc(2 * (size_t)p->behaviour.history.slot_count * sizeof *bytes);
	struct endless *list = malloc(((size_t)rows + 1) * sizeof *list);
	int rc = bytes && list ? look_at_functions(d, bytes, paced, list, &count) : HEFT_ENOMEM;
	int left = rc == 0 ? endless_merge(d, list, count) : rc;
	rc = left < 0 ? left : 0;
	for (int i = 0; i < left && rc == 0; i++)
		rc = report(d, &list[i]);
	free(bytes);
	free(list);
	return rc;
}
