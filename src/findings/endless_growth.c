/* What the two rules about growth without end share: when growth is worth reporting, when a program has
 * reached a steady state, and the words. */
#include "findings/endless_growth.h"

#include <signal.h>

#define ENDLESS_LEAST_PEAK_SHARE 0.05
#define ENDLESS_LEAST_BYTES (256u << 10)
/* At least half of what it holds at the end came after start-up. A random walk drifts up too, but passes
 * this in only one of 300 runs. */
#define ENDLESS_LEAST_GAIN 0.5
/* It counts as freed at the end if less than half of it is left. */
#define ENDLESS_LEFT_SHARE 0.5
/* A program that was watched for less than this, and still runs, may just be starting. */
#define ENDLESS_WATCHED_NS 10000000000u
/* A population was replaced at least twice: two buffers that a loader fills in turn are not sessions. A
 * population smaller than this share of the peak proves nothing. */
#define POPULATION_TURNS 2
#define POPULATION_LEAST_BLOCKS 16
#define POPULATION_LEAST_SHARE 0.005
/* A limit that is more than a year away is not mentioned. */
#define LIMIT_FARTHEST_S (366.0 * 86400)

bool endless_was_stopped(const struct profile *p)
{
	/* SIGPIPE is how a filter usually ends: `heft run -- git log | head`. */
	if (p->run.end == PROFILE_END_SIGNAL)
		return p->run.signal != SIGPIPE;
	/* A handler of these signals exits with this status if it follows the shell's custom. */
	return p->run.end == PROFILE_END_EXIT &&
	       (p->run.exit_status == 128 + SIGHUP || p->run.exit_status == 128 + SIGINT ||
		p->run.exit_status == 128 + SIGTERM);
}

bool endless_did_not_end(const struct profile *p)
{
	if (p->run.end == PROFILE_END_RUNNING || p->run.end == PROFILE_END_DETACHED)
		return p->run.duration_ns >= ENDLESS_WATCHED_NS;
	return endless_was_stopped(p);
}

bool endless_is_large(const struct profile *p, uint64_t gained, uint64_t level)
{
	return gained >= ENDLESS_LEAST_BYTES &&
	       (double)gained >= ENDLESS_LEAST_GAIN * (double)level &&
	       share_of(gained, p->totals.peak_bytes) >= ENDLESS_LEAST_PEAK_SHARE;
}

bool endless_is_freed(uint64_t live_bytes, uint64_t level)
{
	return (double)live_bytes < ENDLESS_LEFT_SHARE * (double)level;
}

bool endless_is_population(const struct profile *p, uint64_t bytes, uint64_t blocks, uint64_t frees)
{
	return share_of(bytes, p->totals.peak_bytes) >= POPULATION_LEAST_SHARE &&
	       frees >= POPULATION_TURNS * blocks && blocks >= POPULATION_LEAST_BLOCKS;
}

/* How long memory lasts at this rate; 0: not known, or so long that it does not matter. */
static double time_to_limit_ns(const struct profile *p, double rate)
{
	uint64_t used = p->totals.peak_rss_bytes > p->totals.peak_bytes ? p->totals.peak_rss_bytes
									: p->totals.peak_bytes;
	if (p->run.memory_limit_bytes <= used || rate <= 0)
		return 0;
	double seconds = (double)(p->run.memory_limit_bytes - used) / rate;
	return seconds < LIMIT_FARTHEST_S ? seconds * 1e9 : 0;
}

struct draft endless_draft(struct diagnosis *d, const struct endless *e)
{
	const struct profile *p = d->p;
	uint32_t name = d->named[e->site];
	/* A block that was resized here counts as freed here, but was made elsewhere. */
	double freed = e->frees > e->allocations ? 1 : share_of(e->frees, e->allocations);
	struct draft f = draft_begin(FINDING_GROWING_SITE, e->site, e->level_bytes);
	f.finding.severity = e->freed_at_end ? FINDING_MEDIUM : FINDING_HIGH;
	const char *fate = e->freed_at_end ? "all of it freed only at the end"
			   : !e->frees     ? "nothing is ever freed"
					   : diagnosis_text(d, "%s of its blocks were freed",
							    words_percent(freed).text);
	double limit_ns = e->freed_at_end ? 0 : time_to_limit_ns(p, e->rate);
	const char *limit = "", *within = "";
	if (e->rate_error95 > 0)
		within = diagnosis_text(d, " (+- %s)",
					words_size(whole_number(e->rate_error95)).text);
	if (limit_ns > 0)
		limit = diagnosis_text(d, "; at this rate %s of %s is used up in %s",
				       p->run.limit_is_cgroup ? "its cgroup's limit" : "the memory",
				       words_size(p->run.memory_limit_bytes).text,
				       words_time(limit_ns).text);
	f.no_memory = !fate || !within || !limit;
	f.finding.summary = diagnosis_text(
		d,
		"memory from %s grows %s: by %s%s a second over the whole run, to %s (%s of "
		"the peak heap), %s%s",
		phrase_place(p, name).text,
		e->freed_at_end ? "as long as the program runs" : "without end",
		words_size(whole_number(e->rate)).text, within ? within : "",
		words_size(e->level_bytes).text,
		words_percent(share_of(e->level_bytes, p->totals.peak_bytes)).text,
		fate ? fate : "", limit ? limit : "");
	f.finding.advice = diagnosis_text(
		d, "%s",
		e->freed_at_end ? "Free each block when it is no longer needed, not at the end: "
				  "the longer the program runs, the more it holds."
				: "Find who should free these blocks, or put a limit on what "
				  "keeps them (a list, a map, a cache without eviction).");
	draft_text(&f, "function", p->stacks.frames[p->stacks.nodes[name].frame].function);
	draft_rate(&f, "bytes_per_second", e->rate);
	if (e->rate_error95 > 0)
		draft_rate(&f, "bytes_per_second_error95", e->rate_error95);
	draft_share(&f, "freed_share", freed);
	draft_text(&f, "freed", e->freed_at_end ? "at-end" : e->frees ? "partly" : "never");
	draft_bytes(&f, "gained_bytes", e->gained_bytes);
	draft_bytes(&f, "level_bytes", e->level_bytes);
	draft_count(&f, "allocations", e->allocations);
	if (limit_ns > 0) {
		draft_bytes(&f, "limit_bytes", p->run.memory_limit_bytes);
		draft_time(&f, "time_to_limit_ns", limit_ns);
	}
	return f;
}
