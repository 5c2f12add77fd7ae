/* What the two rules about growth without end share: what grows together, when growth is worth reporting, when
 * a program has reached a steady state, how sure that is, and the words.
 *
 * One cause is one finding. A request that is remembered has a node, a key and a value, each made in a function
 * of its own. Functions that have a caller in common and gain the same share of their growth at the same time
 * are one finding: it names that caller, and adds up bytes and rates. All functions meet in main (or in the
 * first function of a thread). There they must also have made equally many blocks, in step.
 *
 * Not all growth is a leak. What heft sees of a store that is being filled, or of a cache that warms up, is the
 * same: every request leaves something behind. Three signs make it doubtful, and the finding at most medium:
 *
 *   the program was done       it ended by itself, after less than a minute: a program that works through its input
 *                              with a window of buffers, and fills a table meanwhile, looks the same as a server.
 *   nothing else is replaced   heft knows of a steady pace only because the program did not end by itself. A
 *                              program that loads data until somebody stops it looks the same. If the kernel
 *                              killed it for lack of memory, that does not matter any more.
 *   it slows down              the second half of the way gained less than nine tenths of its even share.
 *                              Each request leaks as much as the one before, but a cache that is asked at
 *                              random finds more and more, and stores less and less: asked half as often as
 *                              it has places it slows down to 0.89, asked once for each place to 0.79. */
#include "findings/endless_growth.h"

#include "findings/made_together.h"
#include "findings/site_names.h"
#include "hosted/compare.h"
#include "profile/estimate.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>

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
 * population smaller than this share of the peak was replaced more often. (Sessions beside a leak become an
 * ever smaller share of the peak, so a share alone must not decide.) */
#define POPULATION_TURNS 2
#define POPULATION_LEAST_BLOCKS 16
#define POPULATION_LARGE_SHARE 0.005
#define POPULATION_SMALL_TURNS 10
/* Two courses are the same if they never differ by more than this share of the gain. In step: their numbers of
 * blocks differ by at most this part. */
#define ENDLESS_COURSE_WITHIN 0.1
#define ENDLESS_IN_STEP 0.02
#define ENDLESS_KS95 1.36
/* Fewer frees than this are not worth a number. */
#define ENDLESS_HARDLY 0.001
/* After heft was attached to a program, new blocks may take the place of older ones, which heft does not know.
 * The growth counts if fewer older blocks than this part of it were freed, or if resident memory grew by this
 * part of it too. */
#define ENDLESS_REPLACED_PART 0.5
/* Growth that slows down to less than this may be a cache that warms up: see above. */
#define ENDLESS_LEAST_LATE 0.9
/* A limit that is more than a year away is not mentioned. */
#define LIMIT_FARTHEST_S (366.0 * 86400)

/* The signal that asked a program to end which then exited; 0: none did. */
static int asked_to_end_with(const struct profile *p)
{
	/* A handler of these signals exits with this status if it follows the shell's custom. */
	static const int custom[] = {SIGHUP, SIGINT, SIGTERM};
	if (p->run.signal)
		return p->run.signal;
	for (size_t i = 0; i < sizeof custom / sizeof *custom; i++)
		if (p->run.exit_status == 128 + custom[i])
			return custom[i];
	return 0;
}

bool endless_was_stopped(const struct profile *p)
{
	/* SIGPIPE is how a filter usually ends: `heft run -- git log | head`. */
	if (p->run.end == PROFILE_END_SIGNAL)
		return p->run.signal != SIGPIPE;
	return p->run.end == PROFILE_END_EXIT && asked_to_end_with(p) != 0;
}

bool endless_did_not_end(const struct profile *p)
{
	if (p->run.end == PROFILE_END_RUNNING || p->run.end == PROFILE_END_DETACHED)
		return p->run.duration_ns >= ENDLESS_WATCHED_NS;
	return endless_was_stopped(p);
}

bool endless_is_large_population(const struct profile *p, uint64_t bytes)
{
	return share_of(bytes, p->totals.peak_bytes) >= POPULATION_LARGE_SHARE;
}

bool endless_is_population(const struct profile *p, uint64_t bytes, uint64_t blocks, uint64_t frees)
{
	bool large = endless_is_large_population(p, bytes);
	return frees >= (large ? POPULATION_TURNS : POPULATION_SMALL_TURNS) * blocks &&
	       blocks >= POPULATION_LEAST_BLOCKS;
}

/* How much resident memory came since heft was attached; 0: none, or nobody looked. */
static uint64_t gained_resident(const struct profile *p)
{
	const struct profile_rss *rss = p->run.rss;
	uint32_t n = p->run.rss_count;
	return n && rss[n - 1].bytes > rss[0].bytes ? rss[n - 1].bytes - rss[0].bytes : 0;
}

/* Whether it is more than the replacement of blocks from before heft was attached. */
static bool is_more_than_older(const struct profile *p, struct endless *e)
{
	uint64_t blocks = e->allocations > e->frees ? e->allocations - e->frees : 0;
	if (!p->run.attached)
		return true;
	/* Sampled, nobody counts the frees of older blocks. */
	if (!p->run.rate_bytes &&
	    (double)p->totals.older_frees < ENDLESS_REPLACED_PART * (double)blocks)
		return rule_at_most(&e->rule, "older blocks freed, as a share of the blocks gained",
				    UNIT_SHARE, share_of(p->totals.older_frees, blocks),
				    ENDLESS_REPLACED_PART);
	return rule_at_least(
		&e->rule,
		"resident memory gained since heft was attached, as a share of this growth",
		UNIT_SHARE, share_of(gained_resident(p), e->gained_bytes), ENDLESS_REPLACED_PART);
}

bool endless_is_large(const struct profile *p, struct endless *e)
{
	struct rule *r = &e->rule;
	e->freed_at_end = (double)e->live_bytes < ENDLESS_LEFT_SHARE * (double)e->level_bytes;
	return rule_at_least(r, "bytes gained after start-up", UNIT_BYTES, (double)e->gained_bytes,
			     ENDLESS_LEAST_BYTES) &&
	       rule_at_least(r, "share of what is held that came after start-up", UNIT_SHARE,
			     share_of(e->gained_bytes, e->level_bytes), ENDLESS_LEAST_GAIN) &&
	       rule_at_least(r, "share of the peak heap that was gained", UNIT_SHARE,
			     share_of(e->gained_bytes, p->totals.peak_bytes),
			     ENDLESS_LEAST_PEAK_SHARE) &&
	       is_more_than_older(p, e);
}

/* ---- what grows together */

/* Courses of samples also differ by chance: up to this, in 95 of 100 cases (Kolmogorov and Smirnov). */
static double by_chance(const struct endless *a, const struct endless *b)
{
	return a->samples && b->samples ? ENDLESS_KS95 * sqrt(1.0 / a->samples + 1.0 / b->samples)
					: 0;
}

static bool same_course(const struct endless *a, const struct endless *b)
{
	double within = ENDLESS_COURSE_WITHIN + by_chance(a, b);
	for (unsigned i = 0; i < ENDLESS_POINTS; i++)
		if (fabs(a->course[i] - b->course[i]) > within)
			return false;
	return true;
}

static bool in_step(const struct profile *p, const struct endless *a, const struct endless *b)
{
	uint64_t more = a->allocations > b->allocations ? a->allocations : b->allocations;
	uint64_t less = a->allocations + b->allocations - more;
	return (double)(more - less) <= ENDLESS_IN_STEP * (double)more &&
	       made_together(p, a->site, b->site, 1) != TOGETHER_NOT;
}

/* The caller that both have; PROFILE_NONE: they do not grow together. */
static uint32_t common_cause(const struct diagnosis *d, const struct endless *a,
			     const struct endless *b)
{
	const struct profile *p = d->p;
	if (!same_course(a, b))
		return PROFILE_NONE;
	uint32_t caller = common_user_node(p, a->name, d->named[b->site]);
	bool outermost = caller != PROFILE_NONE && user_caller(p, caller) == PROFILE_NONE &&
			 caller != a->name;
	return outermost && !in_step(p, a, b) ? PROFILE_NONE : caller;
}

static struct evidence_part part_of(struct diagnosis *d, const struct endless *e)
{
	uint32_t frame = d->p->stacks.nodes[e->name].frame;
	return (struct evidence_part){
		.function = d->p->stacks.frames[frame].function,
		.where = diagnosis_keep(d, phrase_where(d->p, frame)),
		.bytes = e->level_bytes,
		.site = e->site,
	};
}

static int add_cause(struct diagnosis *d, struct endless *to, const struct endless *e,
		     uint32_t caller, uint32_t count)
{
	if (!to->parts) {
		to->parts = name_pool_alloc(d->pool, count * sizeof *to->parts);
		if (!to->parts)
			return HEFT_ENOMEM;
		to->parts[to->part_count++] = part_of(d, to);
	}
	to->parts[to->part_count++] = part_of(d, e);
	if (!to->parts[0].where || !to->parts[to->part_count - 1].where)
		return HEFT_ENOMEM;
	double all = (double)to->gained_bytes + (double)e->gained_bytes;
	to->late = all > 0 ? (to->late * (double)to->gained_bytes +
			      e->late * (double)e->gained_bytes) /
				     all
			   : to->late;
	to->name = caller;
	to->rate += e->rate;
	to->rate_variance += e->rate_variance;
	to->gained_bytes += e->gained_bytes;
	to->level_bytes += e->level_bytes;
	to->live_bytes += e->live_bytes;
	to->allocations += e->allocations;
	to->frees += e->frees;
	to->samples += e->samples;
	to->early_bytes += e->early_bytes;
	return 0;
}

static int largest_first(const void *a, const void *b)
{
	const struct endless *x = a, *y = b;
	return compare_numbers(y->level_bytes, x->level_bytes) ?: compare_numbers(x->site, y->site);
}

int endless_merge(struct diagnosis *d, struct endless *list, uint32_t count)
{
	uint32_t left = 0;
	if (count)
		qsort(list, count, sizeof *list, largest_first);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t with = 0, caller = PROFILE_NONE;
		while (with < left &&
		       (caller = common_cause(d, &list[with], &list[i])) == PROFILE_NONE)
			with++;
		if (with < left && add_cause(d, &list[with], &list[i], caller, count))
			return HEFT_ENOMEM;
		if (with == left)
			list[left++] = list[i];
	}
	if (left)
		qsort(list, left, sizeof *list, largest_first);
	for (uint32_t i = 0; i < left; i++)
		for (uint32_t k = 0; k < list[i].part_count; k++)
			list[i].parts[k].share = share_of(list[i].parts[k].bytes,
							  list[i].level_bytes);
	return (int)left;
}

/* What is known of the growth, from the surest on */
enum pattern { WITHOUT_END, AT_END, SLOWS_DOWN, UNTIL_STOPPED, UNTIL_DONE };

static enum pattern pattern_of(const struct profile *p, const struct endless *e)
{
	if (e->freed_at_end)
		return AT_END;
	if (e->late < ENDLESS_LEAST_LATE)
		return SLOWS_DOWN;
	if (p->run.oom_killed)
		return WITHOUT_END;
	if (!endless_did_not_end(p) && p->run.duration_ns < ENDLESS_SERVICE_NS)
		return UNTIL_DONE;
	return e->paced ? WITHOUT_END : UNTIL_STOPPED;
}

/* Marks the sites of one part, or of the only function. */
static void explain(struct diagnosis *d, uint32_t site, enum told told)
{
	for (uint32_t i = 0; i < d->by_function_count; i++)
		if (named_alike(d->p, d->named, site, d->by_function[i]))
			d->told[d->by_function[i]] = told;
}

void endless_explain(struct diagnosis *d, const struct endless *e)
{
	enum pattern pattern = pattern_of(d->p, e);
	enum told told = pattern == WITHOUT_END || pattern == UNTIL_DONE ? TOLD_EXPLAINED
									 : TOLD_TO_GROW;
	explain(d, e->site, told);
	for (uint32_t i = 0; i < e->part_count; i++)
		explain(d, e->parts[i].site, told);
}

/* ---- words */

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

/* "grows without end" */
static const char *how_it_grows(struct diagnosis *d, enum pattern pattern)
{
	const struct profile_run *run = &d->p->run;
	switch (pattern) {
	case WITHOUT_END:
		return run->oom_killed
			       ? "grew until the kernel killed the program for lack of memory"
			       : "grows without end";
	case AT_END: return "grows as long as the program runs";
	case SLOWS_DOWN: return "still grows, but more and more slowly";
	case UNTIL_DONE: return "grew until the program was done";
	case UNTIL_STOPPED: break;
	}
	if (run->end == PROFILE_END_RUNNING || run->end == PROFILE_END_DETACHED)
		return "kept growing until the recording ended";
	int signal = run->end == PROFILE_END_SIGNAL ? run->signal : asked_to_end_with(d->p);
	if (signal == SIGINT)
		return "kept growing until the program was stopped with Ctrl-C";
	return diagnosis_text(d, "kept growing until the program was %s (signal %d)",
			      run->end == PROFILE_END_SIGNAL ? "killed" : "told to end", signal);
}

static const char *doubt_about(enum pattern pattern)
{
	if (pattern == SLOWS_DOWN)
		return "; a cache that warms up, or a store that is being filled, grows like this "
		       "too";
	if (pattern == UNTIL_STOPPED)
		return "; a store that is being filled grows like this too, and heft sees nothing "
		       "else that is replaced at a constant level";
	if (pattern == UNTIL_DONE)
		return "; a table that the program fills while it works through its input grows "
		       "like this too";
	return "";
}

static const char *advice_on(enum pattern pattern)
{
	switch (pattern) {
	case AT_END:
		return "If the program does not need all of these blocks until its end, free each "
		       "when it is no longer needed: the longer the program runs, the more it "
		       "holds.";
	case UNTIL_DONE:
		return "If the program needs all of these blocks until its end, this is no leak. "
		       "If "
		       "it serves requests, find who should free these blocks, or put a limit on "
		       "what keeps them.";
	case SLOWS_DOWN:
		return "If this is a cache, see that it has a limit. Record a longer run: if it "
		       "still grows then, find who should free these blocks.";
	case UNTIL_STOPPED:
		return "If these blocks are data that the program is meant to keep, this is no "
		       "leak. Record a run in which the amount of data stays the same: if it still "
		       "grows then, find who should free these blocks.";
	case WITHOUT_END: break;
	}
	return "Find who should free these blocks, or put a limit on what keeps them (a list, a "
	       "map, a cache without eviction).";
}

/* Records why the growth counts. */
static void record_pattern(const struct profile *p, struct endless *e)
{
	struct rule *r = &e->rule;
	if (!rule_fact(r, "other blocks of the program are replaced at a constant level",
		       "nothing else that the program keeps is replaced", e->paced))
		rule_fact(r, "the program did not end by itself, or it still ran",
			  "the program ended by itself", endless_did_not_end(p));
}

/* Who was not there all the time cannot say "never". */
static const char *nothing_freed(const struct profile *p)
{
	return p->run.attached ? "nothing of it was freed meanwhile" : "nothing is ever freed";
}

struct draft endless_draft(struct diagnosis *d, struct endless *e)
{
	const struct profile *p = d->p;
	/* A block that was resized here counts as freed here, but was made elsewhere. */
	double freed = e->frees > e->allocations ? 1 : share_of(e->frees, e->allocations);
	enum pattern pattern = pattern_of(p, e);
	struct draft f = draft_begin(FINDING_GROWING_SITE, e->site, e->level_bytes);
	record_pattern(p, e);
	draft_rule(&f, &e->rule);
	f.finding.severity = pattern == WITHOUT_END ? FINDING_HIGH : FINDING_MEDIUM;
	const char *fate = e->freed_at_end ? "all of it freed only at the end"
			   : !e->frees     ? nothing_freed(p)
			   : freed < ENDLESS_HARDLY
				   ? "hardly anything is freed"
				   : diagnosis_text(d, "%s of its blocks were freed",
						    words_percent(freed).text);
	double limit_ns = e->freed_at_end || pattern == UNTIL_DONE ? 0
								   : time_to_limit_ns(p, e->rate);
	double error95 = estimate_error95(e->rate_variance);
	const char *limit = "", *within = "", *parts = "", *how = how_it_grows(d, pattern);
	if (error95 > 0)
		within = diagnosis_text(d, " (+- %s)", words_size(whole_number(error95)).text);
	if (e->part_count > 1)
		parts = diagnosis_text(d, " in %u functions that grow together", e->part_count);
	if (limit_ns > 0)
		limit = diagnosis_text(d, "; at this rate %s of %s is used up in %s",
				       p->run.limit_is_cgroup ? "its cgroup's limit" : "the memory",
				       words_size(p->run.memory_limit_bytes).text,
				       words_time(limit_ns).text);
	f.no_memory = !fate || !within || !limit || !parts || !how;
	if (!f.no_memory)
		f.finding.summary = diagnosis_text(
			d,
			"memory from %s %s: by %s%s a second over the whole run, to %s (%s of "
			"the peak heap)%s, %s%s%s",
			phrase_place(p, e->name).text, how, words_size(whole_number(e->rate)).text,
			within, words_size(e->level_bytes).text,
			words_percent(share_of(e->level_bytes, p->totals.peak_bytes)).text, parts,
			fate, limit, doubt_about(pattern));
	f.finding.advice = advice_on(pattern);
	if (p->run.attached && p->run.end == PROFILE_END_DETACHED)
		f.finding.advice = diagnosis_text(
			d, "%s heft left while the program ran: it may still free these blocks.",
			advice_on(pattern));
	draft_text(&f, "function", p->stacks.frames[p->stacks.nodes[e->name].frame].function);
	draft_rate(&f, "bytes_per_second", e->rate);
	if (error95 > 0)
		draft_rate(&f, "bytes_per_second_error95", error95);
	draft_share(&f, "freed_share", freed);
	draft_text(&f, "freed", e->freed_at_end ? "at-end" : e->frees ? "partly" : "never");
	draft_bytes(&f, "gained_bytes", e->gained_bytes);
	draft_bytes(&f, "level_bytes", e->level_bytes);
	draft_count(&f, "allocations", e->allocations);
	if (pattern == SLOWS_DOWN)
		draft_share(&f, "late_growth_share", e->late);
	if (limit_ns > 0) {
		draft_bytes(&f, "limit_bytes", p->run.memory_limit_bytes);
		draft_time(&f, "time_to_limit_ns", limit_ns);
	}
	if (e->part_count > 1)
		draft_parts(&f, "parts", e->parts, e->part_count);
	return f;
}
