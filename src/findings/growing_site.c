/* growing-site: memory of a function that only ever grows, in a program that has found its pace.
 *
 * That live bytes rise from start to end is not enough: a compiler, a loader or a script that fills
 * a table does just that, and then it is done. What makes growth a leak in all but name is that it
 * goes on while the rest of the program has settled. So two things must be seen:
 *
 *   growth    what the function keeps (the floor of its live bytes) rises through every
 *             sixteenth of the run after the second, about evenly, up to the end. A cache that fills up, tables
 *             made at the start and sawteeth all have a part in which the floor does not rise.
 *   settled   somewhere else in the program blocks are replaced again and again at a constant level
 *             (sessions, a cache), or the program did not end by itself: it was killed, or the
 *             recording stopped while it ran.
 *
 * Blocks that are all freed when the program ends were not forgotten: a data set, an arena. They are
 * reported only after a run so long that it must be a service. */
#include "findings/diagnosis.h"

#include "findings/site_names.h"
#include "profile/profile_trend.h"

#include <signal.h>
#include <stdlib.h>

enum {
	GROWING_PARTS = 16,
	GROWING_STARTUP = 2,
	GROWING_LEAST_SLOTS = 2 * GROWING_PARTS, /* a floor of one point is no floor */
};
/* The first parts are start-up. After them, no step may be less than this part of the mean step. */
#define GROWING_LEAST_STEP 0.25
/* Two-sided chance of one in a thousand (profile_trend.h). */
#define GROWING_LEAST_Z 3.29
/* Most of it is there at the end: what shrinks in the last tenth is taken down, what shrank before
 * does not grow without end. */
#define GROWING_LATEST_PEAK 0.9
#define GROWING_LEAST_PEAK_SHARE 0.05
#define GROWING_LEAST_BYTES (256u << 10)
/* Freed at the end: less than half of it is left. */
#define GROWING_LEFT_SHARE 0.5
#define GROWING_SERVICE_NS 60000000000u
/* Seen for less than this, a program that still runs may just be starting. */
#define GROWING_WATCHED_NS 10000000000u
/* Settled: after the first quarter of the run its level stays within half of its highest, and its
 * blocks were replaced at least twice. Smaller than this part of the peak it proves nothing. */
#define SETTLED_FLOOR 0.5
#define SETTLED_TURNS 2
#define SETTLED_LEAST_SHARE 0.005

struct growing {
	uint64_t *bytes; /* live, by slot */
	uint32_t site;   /* the largest */
	uint64_t largest;
	uint64_t allocations, frees, live_bytes;
};

static bool did_not_end_by_itself(const struct profile *p)
{
	if (p->end == PROFILE_END_RUNNING || p->end == PROFILE_END_DETACHED)
		return p->duration_ns >= GROWING_WATCHED_NS;
	return p->end == PROFILE_END_SIGNAL && p->signal == SIGKILL;
}

static bool is_settled(const struct profile *p, uint32_t site)
{
	const struct profile_site *s = &p->sites[site];
	if (s->history >= p->history.row_count)
		return false;
	const struct profile_history_row *row = &p->history.rows[s->history];
	uint32_t count = p->history.slot_count, from = count / 4, to = count - count / 16;
	uint64_t least = UINT64_MAX, most = 0, blocks = 0;
	for (uint32_t i = from; i < to; i++) {
		if (row->bytes[i] < least)
			least = row->bytes[i];
		if (row->bytes[i] > most)
			most = row->bytes[i];
		if (row->blocks[i] > blocks)
			blocks = row->blocks[i];
	}
	return to > from && share_of(most, p->totals.peak_bytes) >= SETTLED_LEAST_SHARE &&
	       (double)least >= SETTLED_FLOOR * (double)most &&
	       s->frees >= SETTLED_TURNS * blocks && blocks > 1;
}

/* Bytes gained after start-up; 0: it does not grow from there to the end. `top` is the last slot of
 * its greatest level. */
static uint64_t growth_of(const uint64_t *bytes, uint32_t count, uint32_t *top)
{
	uint64_t floors[GROWING_PARTS], most = 0;
	*top = 0;
	for (uint32_t i = 0; i < count; i++)
		if (bytes[i] >= most) {
			most = bytes[i];
			*top = i;
		}
	if (*top + 1 < GROWING_LEAST_SLOTS || (double)*top < GROWING_LATEST_PEAK * (count - 1))
		return 0;
	trend_floors(floors, GROWING_PARTS, bytes, *top + 1);
	if (floors[GROWING_PARTS - 1] <= floors[GROWING_STARTUP])
		return 0;
	uint64_t gained = floors[GROWING_PARTS - 1] - floors[GROWING_STARTUP];
	double step = GROWING_LEAST_STEP * (double)gained / (GROWING_PARTS - 1 - GROWING_STARTUP);
	for (uint32_t i = GROWING_STARTUP + 1; i < GROWING_PARTS; i++)
		if ((double)floors[i] - (double)floors[i - 1] < step)
			return 0;
	return gained;
}

static int look_at(struct diagnosis *d, const struct growing *g)
{
	const struct profile *p = d->p;
	uint32_t top;
	uint64_t gained = growth_of(g->bytes, p->history.slot_count, &top);
	if (gained < GROWING_LEAST_BYTES ||
	    share_of(gained, p->totals.peak_bytes) < GROWING_LEAST_PEAK_SHARE)
		return 0;
	uint64_t level = g->bytes[top];
	bool freed_at_end = (double)g->live_bytes < GROWING_LEFT_SHARE * (double)level;
	if (freed_at_end && p->duration_ns < GROWING_SERVICE_NS)
		return 0;
	struct trend trend;
	if (trend_of(&trend, g->bytes, top + 1) < 0)
		return HEFT_ENOMEM;
	if (trend.z < GROWING_LEAST_Z || trend.slope <= 0)
		return 0;
	uint32_t name = d->named[g->site];
	double rate = trend.slope * 1e9 / (double)p->history.slot_ns;
	double freed = share_of(g->frees, g->allocations);
	struct draft f = draft_begin(FINDING_GROWING_SITE, g->site, level);
	f.finding.severity = freed_at_end ? FINDING_MEDIUM : FINDING_HIGH;
	const char *fate = freed_at_end ? "all of it freed only at the end"
			   : !g->frees  ? "nothing is ever freed"
					: diagnosis_text(d, "%s of its blocks were freed",
							 phrase_share(freed).text);
	f.finding.summary = diagnosis_text(
		d,
		"memory from %s grows without end: by %s a second over the whole run, to %s (%s of "
		"the peak heap), %s",
		phrase_place(p, name).text, phrase_bytes((uint64_t)(rate + 0.5)).text,
		phrase_bytes(level).text, phrase_share(share_of(level, p->totals.peak_bytes)).text,
		fate ? fate : "");
	f.finding.advice = diagnosis_text(
		d, "%s",
		freed_at_end ? "Free each block when it is no longer needed, not at the end: "
			       "the longer the program runs, the more it holds."
			     : "Find who should free these blocks, or put a limit on what "
			       "keeps them (a list, a map, a cache without eviction).");
	draft_text(&f, "function", p->frames[p->nodes[name].frame].function);
	draft_rate(&f, "bytes_per_second", rate);
	draft_share(&f, "freed_share", freed);
	draft_text(&f, "freed", freed_at_end ? "at-end" : g->frees ? "partly" : "never");
	draft_bytes(&f, "gained_bytes", gained);
	draft_bytes(&f, "level_bytes", level);
	draft_count(&f, "allocations", g->allocations);
	return draft_add(d, &f);
}

static int look_at_functions(struct diagnosis *d, const uint32_t *sites, uint32_t count,
			     uint64_t *bytes)
{
	const struct profile *p = d->p;
	uint32_t slots = p->history.slot_count;
	int rc = 0;
	for (uint32_t i = 0, next; i < count && rc == 0; i = next) {
		struct growing g = {.bytes = bytes, .site = PROFILE_NONE};
		for (uint32_t k = 0; k < slots; k++)
			bytes[k] = 0;
		for (next = i; next < count && named_alike(p, d->named, sites[i], sites[next]);
		     next++) {
			const struct profile_site *s = &p->sites[sites[next]];
			if (s->history >= p->history.row_count || d->queued[sites[next]])
				continue;
			const struct profile_history_row *row = &p->history.rows[s->history];
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
			rc = look_at(d, &g);
	}
	return rc;
}

int diagnose_growing_site(struct diagnosis *d)
{
	const struct profile *p = d->p;
	if (p->history.slot_count < GROWING_LEAST_SLOTS || !p->history.slot_ns)
		return 0;
	bool settled = did_not_end_by_itself(p);
	for (uint32_t i = 0; i < p->site_count && !settled; i++)
		settled = is_settled(p, i);
	if (!settled)
		return 0;
	uint32_t count;
	uint32_t *sites = sites_by_function(p, d->named, &count);
	uint64_t *bytes = malloc(p->history.slot_count * sizeof *bytes);
	int rc = sites && bytes ? look_at_functions(d, sites, count, bytes) : HEFT_ENOMEM;
	free(sites);
	free(bytes);
	return rc;
}
