/* The table of measures, and how the numbers that it names are read.
 *
 * A row holds the places of its number in the structs of the model. Two measures need more than a place:
 * growth subtracts what was live at the start of the window, and lifetimes add up over stacks as sums,
 * although the model keeps the mean. */
#include "profile/measure.h"

#include "hosted/ranking.h"
#include "hosted/saturating.h"
#include "profile/estimate.h"

#include <stdlib.h>
#include <string.h>

#define HAS(what) PROFILE_HAS_##what
#define SITE(field) .site = offsetof(struct profile_site, field) + 1
#define TOTALS(field) .totals = offsetof(struct profile_totals, field) + 1
#define THREAD(field) .thread = offsetof(struct profile_thread, field) + 1
#define BOTH(field) SITE(field), TOTALS(field)
#define ESTIMATED(field, count)                                                                    \
	.errors = offsetof(struct profile_errors, field) + 1,                                      \
	.spread = offsetof(struct profile_spread, field) + 1,                                      \
	.samples = offsetof(struct profile_spread, count) + 1
#define SINGLE .blocks = MEASURE_COUNT

const struct measure measures[MEASURE_COUNT] = {
	[MEASURE_PEAK_BYTES] = {"peak_bytes", "peak", "peak", "at the peak", "bytes at the peak",
				"peak_space", MEASURE_IS_BYTES, MEASURE_AT_MOMENT, HAS(PEAK),
				BOTH(peak_bytes), ESTIMATED(peak_bytes, peak_samples),
				.blocks = MEASURE_PEAK_BLOCKS},
	[MEASURE_PEAK_BLOCKS] = {"peak_blocks", NULL, "peak blocks", "blocks at the peak",
				 "blocks at the peak", "peak_objects", MEASURE_IS_COUNT,
				 MEASURE_AT_MOMENT, HAS(PEAK), BOTH(peak_blocks),
				 ESTIMATED(peak_blocks, peak_samples), SINGLE},
	[MEASURE_OWN_PEAK_BYTES] = {"own_peak_bytes", NULL, "own peak", "at its own peak",
				    "bytes at its own peak", NULL, MEASURE_IS_BYTES,
				    MEASURE_AT_MOMENT, HAS(OWN_PEAK), SITE(own_peak_bytes), SINGLE},
	[MEASURE_PEAK_SLACK_BYTES] = {"peak_slack_bytes", NULL, "peak slack", "slack at the peak",
				      "slack of what is live at the peak", NULL, MEASURE_IS_BYTES,
				      MEASURE_AT_MOMENT, HAS(PEAK) | HAS(USABLE),
				      BOTH(peak_slack_bytes), SINGLE},
	[MEASURE_PEAK_TIME] = {"peak_time_ns", NULL, "time of the peak", "until the peak",
			       "time of the peak", NULL, MEASURE_IS_TIME, MEASURE_OF_RUN,
			       HAS(PEAK) | HAS(TIMES), TOTALS(peak_time_ns), SINGLE},
	[MEASURE_LIVE_BYTES] = {"live_bytes", "live", "live at end", "live at the end",
				"bytes live at the end", "inuse_space", MEASURE_IS_BYTES,
				MEASURE_AT_MOMENT, HAS(LIVE), BOTH(live_bytes),
				ESTIMATED(live_bytes, live_samples), .blocks = MEASURE_LIVE_BLOCKS},
	[MEASURE_LIVE_BLOCKS] = {"live_blocks", NULL, "live blocks", "blocks live at the end",
				 "blocks live at the end", "inuse_objects", MEASURE_IS_COUNT,
				 MEASURE_AT_MOMENT, HAS(LIVE), BOTH(live_blocks),
				 ESTIMATED(live_blocks, live_samples), SINGLE},
	[MEASURE_LIVE_SLACK_BYTES] = {"live_slack_bytes", NULL, "live slack", "slack at the end",
				      "slack of what is live at the end", NULL, MEASURE_IS_BYTES,
				      MEASURE_AT_MOMENT, HAS(LIVE) | HAS(USABLE),
				      BOTH(live_slack_bytes), SINGLE},
	[MEASURE_LEFT_BYTES] = {"left_bytes", "left", "left at exit", "left at exit",
				"bytes left at exit", "left_space", MEASURE_IS_BYTES,
				MEASURE_AT_MOMENT, HAS(LIVE), BOTH(left_bytes),
				ESTIMATED(left_bytes, left_samples), .blocks = MEASURE_LEFT_BLOCKS},
	[MEASURE_LEFT_BLOCKS] = {"left_blocks", NULL, "left blocks", "blocks left at exit",
				 "blocks left at exit", "left_objects", MEASURE_IS_COUNT,
				 MEASURE_AT_MOMENT, HAS(LIVE), BOTH(left_blocks),
				 ESTIMATED(left_blocks, left_samples), SINGLE},
	[MEASURE_START_BYTES] = {"start_bytes", NULL, "live at start", "live at the start",
				 "bytes live when the window begins", NULL, MEASURE_IS_BYTES,
				 MEASURE_AT_MOMENT, HAS(LIVE) | HAS(TIMES), BOTH(start_bytes),
				 .blocks = MEASURE_START_BLOCKS},
	[MEASURE_START_BLOCKS] = {"start_blocks", NULL, "blocks at start",
				  "blocks live at the start", "blocks live when the window begins",
				  NULL, MEASURE_IS_COUNT, MEASURE_AT_MOMENT, HAS(LIVE) | HAS(TIMES),
				  BOTH(start_blocks), SINGLE},
	[MEASURE_GREW_BYTES] = {"grew_bytes", "grew", "grew", "grown in the window",
				"growth in the window", NULL, MEASURE_IS_BYTES, MEASURE_AT_MOMENT,
				HAS(LIVE) | HAS(TIMES), SITE(live_bytes),
				.minus = offsetof(struct profile_site, start_bytes) + 1,
				.blocks = MEASURE_GREW_BLOCKS},
	[MEASURE_GREW_BLOCKS] = {"grew_blocks", NULL, "grown blocks", "blocks grown in the window",
				 "growth of blocks in the window", NULL, MEASURE_IS_COUNT,
				 MEASURE_AT_MOMENT, HAS(LIVE) | HAS(TIMES), SITE(live_blocks),
				 .minus = offsetof(struct profile_site, start_blocks) + 1, SINGLE},
	[MEASURE_ALLOCATED_BYTES] = {"allocated_bytes", "allocated", "allocated", "allocated",
				     "allocated bytes", "alloc_space", MEASURE_IS_BYTES,
				     MEASURE_OVER_TIME, HAS(ALLOCATED), BOTH(allocated_bytes),
				     THREAD(allocated_bytes), ESTIMATED(allocated_bytes, samples),
				     .blocks = MEASURE_ALLOCATIONS},
	[MEASURE_ALLOCATIONS] = {"allocations", "count", "allocations", "allocations",
				 "number of allocations", "alloc_objects", MEASURE_IS_COUNT,
				 MEASURE_OVER_TIME, HAS(ALLOCATED), BOTH(allocations),
				 THREAD(allocations), ESTIMATED(allocations, samples), SINGLE},
	[MEASURE_REALLOCATIONS] = {"reallocations", NULL, "reallocations", "reallocations",
				   "number of reallocations", NULL, MEASURE_IS_COUNT,
				   MEASURE_OVER_TIME, HAS(FREES), BOTH(reallocations),
				   THREAD(reallocations), SINGLE},
	[MEASURE_REALLOCATED_BYTES] = {"reallocated_bytes", NULL, "reallocated", "reallocated",
				       "reallocated bytes", NULL, MEASURE_IS_BYTES,
				       MEASURE_OVER_TIME, HAS(FREES), BOTH(reallocated_bytes),
				       SINGLE},
	[MEASURE_FREES] = {"frees", NULL, "frees", "frees", "number of frees", NULL,
			   MEASURE_IS_COUNT, MEASURE_OVER_TIME, HAS(FREES), BOTH(frees),
			   THREAD(frees), SINGLE},
	[MEASURE_TEMPORARY] = {"temporary", "temporary", "temporary", "temporary allocations",
			       "temporary allocations", "temporary_objects", MEASURE_IS_COUNT,
			       MEASURE_OVER_TIME, HAS(TEMPORARY), BOTH(temporary), SINGLE},
	[MEASURE_CROSS_THREAD_FREES] = {"cross_thread_frees", NULL, "frees by other threads",
					"frees by other threads", "frees by another thread", NULL,
					MEASURE_IS_COUNT, MEASURE_OVER_TIME, HAS(CROSS_FREES),
					SITE(cross_thread_frees), SINGLE},
	[MEASURE_MAPPED_BYTES] = {"mapped_bytes", "mapped", "mapped", "mapped at most",
				  "bytes mapped when most was", "mapped_space", MEASURE_IS_BYTES,
				  MEASURE_AT_MOMENT, HAS(MAPPED), BOTH(mapped_bytes),
				  .blocks = MEASURE_MAPPED_PIECES},
	[MEASURE_MAPPED_PIECES] = {"mapped_pieces", NULL, "mappings", "mappings at most",
				   "mappings when most was mapped", NULL, MEASURE_IS_COUNT,
				   MEASURE_AT_MOMENT, HAS(MAPPED), BOTH(mapped_pieces), SINGLE},
	[MEASURE_MAPPED_LEFT_BYTES] = {"mapped_left_bytes", NULL, "mapped at exit",
				       "mapped at exit", "bytes still mapped at exit", NULL,
				       MEASURE_IS_BYTES, MEASURE_AT_MOMENT, HAS(MAPPED),
				       BOTH(mapped_left_bytes), SINGLE},
	[MEASURE_LIFETIME] = {"lifetime_mean_ns", "lifetime", "mean lifetime", "mean lifetime",
			      "mean lifetime", "lifetime", MEASURE_IS_TIME, MEASURE_OF_BLOCKS,
			      HAS(MEAN_LIFETIME), SITE(lifetime.mean_ns), SINGLE},
	[MEASURE_LIFETIME_P50] = {"lifetime_p50_ns", NULL, "median lifetime", "median lifetime",
				  "median lifetime", NULL, MEASURE_IS_TIME, MEASURE_OF_BLOCKS,
				  HAS(LIFETIMES), SITE(lifetime.p50_ns), SINGLE},
	[MEASURE_LIFETIME_P99] = {"lifetime_p99_ns", NULL, "99 % lifetime", "99 % lifetime",
				  "lifetime that 99 % stay under", NULL, MEASURE_IS_TIME,
				  MEASURE_OF_BLOCKS, HAS(LIFETIMES), SITE(lifetime.p99_ns), SINGLE},
	[MEASURE_LIFETIME_MAX] = {"lifetime_max_ns", NULL, "longest lifetime", "longest lifetime",
				  "longest lifetime", NULL, MEASURE_IS_TIME, MEASURE_OF_BLOCKS,
				  HAS(LIFETIMES), SITE(lifetime.max_ns), SINGLE},
	[MEASURE_UNREACHABLE_BYTES] = {"unreachable_bytes", "unreachable", "unreachable",
				       "unreachable at exit", "bytes that nothing leads to", NULL,
				       MEASURE_IS_BYTES, MEASURE_AT_MOMENT, HAS(REACHABLE),
				       BOTH(look.unreachable_bytes),
				       .blocks = MEASURE_UNREACHABLE_BLOCKS},
	[MEASURE_UNREACHABLE_BLOCKS] = {"unreachable_blocks", NULL, "unreachable blocks",
					"blocks unreachable at exit",
					"blocks that nothing leads to", NULL, MEASURE_IS_COUNT,
					MEASURE_AT_MOMENT, HAS(REACHABLE),
					BOTH(look.unreachable_blocks), SINGLE},
	[MEASURE_INDIRECT_BYTES] = {"unreachable_indirect_bytes", NULL, "indirect",
				    "unreachable indirectly",
				    "unreachable bytes that others of them lead to", NULL,
				    MEASURE_IS_BYTES, MEASURE_AT_MOMENT, HAS(REACHABLE),
				    BOTH(look.indirect_bytes), .blocks = MEASURE_INDIRECT_BLOCKS},
	[MEASURE_INDIRECT_BLOCKS] = {"unreachable_indirect_blocks", NULL, "indirect blocks",
				     "blocks unreachable indirectly",
				     "unreachable blocks that others of them lead to", NULL,
				     MEASURE_IS_COUNT, MEASURE_AT_MOMENT, HAS(REACHABLE),
				     BOTH(look.indirect_blocks), SINGLE},
	[MEASURE_HELD_BYTES] = {"unreachable_held_bytes", NULL, "held", "lost through these",
				"bytes that are lost through unreachable blocks", NULL,
				MEASURE_IS_BYTES, MEASURE_AT_MOMENT, HAS(REACHABLE),
				BOTH(look.held_bytes), .blocks = MEASURE_HELD_BLOCKS},
	[MEASURE_HELD_BLOCKS] = {"unreachable_held_blocks", NULL, "held blocks",
				 "blocks lost through these",
				 "blocks that are lost through unreachable blocks", NULL,
				 MEASURE_IS_COUNT, MEASURE_AT_MOMENT, HAS(REACHABLE),
				 BOTH(look.held_blocks), SINGLE},
	[MEASURE_UNTOUCHED_BYTES] = {"untouched_bytes", "untouched", "untouched", "never touched",
				     "bytes in pages that were never touched", NULL,
				     MEASURE_IS_BYTES, MEASURE_AT_MOMENT, HAS(TOUCHED),
				     BOTH(look.untouched_bytes),
				     .blocks = MEASURE_UNTOUCHED_BLOCKS},
	[MEASURE_UNTOUCHED_BLOCKS] = {"untouched_blocks", NULL, "untouched blocks",
				      "blocks with untouched pages",
				      "blocks with pages that were never touched", NULL,
				      MEASURE_IS_COUNT, MEASURE_AT_MOMENT, HAS(TOUCHED),
				      BOTH(look.untouched_blocks), SINGLE},
	[MEASURE_DUPLICATE_BYTES] = {"duplicate_bytes", "duplicate", "duplicate", "equal to others",
				     "resident bytes of blocks that are equal to others", NULL,
				     MEASURE_IS_BYTES, MEASURE_AT_MOMENT, HAS(EQUAL),
				     BOTH(look.duplicate_bytes),
				     .blocks = MEASURE_DUPLICATE_BLOCKS},
	[MEASURE_DUPLICATE_BLOCKS] = {"duplicate_blocks", NULL, "duplicate blocks",
				      "blocks equal to others", "blocks that are equal to others",
				      NULL, MEASURE_IS_COUNT, MEASURE_AT_MOMENT, HAS(EQUAL),
				      BOTH(look.duplicate_blocks), SINGLE},
	[MEASURE_ZERO_BYTES] = {"zero_bytes", NULL, "zeros", "in blocks of zeros",
				"resident bytes of blocks that hold only zeros", NULL,
				MEASURE_IS_BYTES, MEASURE_AT_MOMENT, HAS(EQUAL),
				BOTH(look.zero_bytes), .blocks = MEASURE_ZERO_BLOCKS},
	[MEASURE_ZERO_BLOCKS] = {"zero_blocks", NULL, "blocks of zeros", "blocks of zeros",
				 "blocks that hold only zeros", NULL, MEASURE_IS_COUNT,
				 MEASURE_AT_MOMENT, HAS(EQUAL), BOTH(look.zero_blocks), SINGLE},
	[MEASURE_PINNED_BYTES] = {"pinned_bytes", "pinned", "pinned", "free and pinned",
				  "free bytes in pages that live blocks keep", NULL,
				  MEASURE_IS_BYTES, MEASURE_AT_MOMENT, HAS(PINNED),
				  BOTH(look.pinned_bytes), SINGLE},
	[MEASURE_THREADS] = {"threads", NULL, "threads", "threads", "number of threads", NULL,
			     MEASURE_IS_COUNT, MEASURE_OF_RUN, HAS(THREADS), TOTALS(threads),
			     SINGLE},
	[MEASURE_DROPPED] = {"dropped", NULL, "dropped", "events dropped", "dropped events", NULL,
			     MEASURE_IS_COUNT, MEASURE_OF_RUN, 0, TOTALS(dropped), SINGLE},
	[MEASURE_PEAK_RSS_BYTES] = {"peak_rss_bytes", NULL, "peak RSS", "resident at most",
				    "peak of resident memory", NULL, MEASURE_IS_BYTES,
				    MEASURE_OF_RUN, 0, TOTALS(peak_rss_bytes), SINGLE},
	[MEASURE_PEAK_ANONYMOUS_BYTES] = {"peak_anonymous_bytes", NULL, "peak anonymous",
					  "anonymous at most",
					  "peak of resident memory without files", NULL,
					  MEASURE_IS_BYTES, MEASURE_OF_RUN, 0,
					  TOTALS(peak_anonymous_bytes), SINGLE},
	[MEASURE_RSS_BYTES] = {"rss_bytes", NULL, "RSS", "resident",
			       "resident memory in the largest ledger", NULL, MEASURE_IS_BYTES,
			       MEASURE_OF_RUN, HAS(LEDGER), TOTALS(resident.rss_bytes), SINGLE},
	[MEASURE_RESIDENT_HEAP_BYTES] = {"resident_heap_bytes", NULL, "resident heap",
					 "resident in the heap", "resident memory of the heap",
					 NULL, MEASURE_IS_BYTES, MEASURE_OF_RUN, HAS(LEDGER),
					 TOTALS(resident.heap_bytes), SINGLE},
	[MEASURE_HELD_FREE_BYTES] = {"held_free_bytes", NULL, "held free", "free in the heap",
				     "resident memory that the allocator keeps free", NULL,
				     MEASURE_IS_BYTES, MEASURE_OF_RUN, HAS(LEDGER),
				     TOTALS(resident.held_free_bytes), SINGLE},
	[MEASURE_RESIDENT_ALLOCATOR_BYTES] = {"resident_allocator_bytes", NULL, "other allocators",
					      "resident in other allocators",
					      "resident memory of other allocators than malloc",
					      NULL, MEASURE_IS_BYTES, MEASURE_OF_RUN, HAS(LEDGER),
					      TOTALS(resident.allocator_bytes), SINGLE},
	[MEASURE_RESIDENT_LIBRARY_BYTES] = {"resident_library_bytes", NULL, "libraries",
					    "resident in program and libraries",
					    "resident memory of program and libraries", NULL,
					    MEASURE_IS_BYTES, MEASURE_OF_RUN, HAS(LEDGER),
					    TOTALS(resident.library_bytes), SINGLE},
	[MEASURE_RESIDENT_STACK_BYTES] = {"resident_stack_bytes", NULL, "stacks",
					  "resident in stacks", "resident memory of stacks", NULL,
					  MEASURE_IS_BYTES, MEASURE_OF_RUN, HAS(LEDGER),
					  TOTALS(resident.stack_bytes), SINGLE},
	[MEASURE_RESIDENT_ANONYMOUS_BYTES] =
		{"resident_anonymous_bytes", NULL, "anonymous", "resident in anonymous memory",
		 "resident memory that programs and libraries mapped themselves", NULL,
		 MEASURE_IS_BYTES, MEASURE_OF_RUN, HAS(LEDGER), TOTALS(resident.anonymous_bytes),
		 SINGLE},
	[MEASURE_UNEXPLAINED_BYTES] = {"unexplained_bytes", NULL, "unexplained",
				       "resident and unexplained",
				       "resident memory that nobody owns", NULL, MEASURE_IS_BYTES,
				       MEASURE_OF_RUN, HAS(LEDGER),
				       TOTALS(resident.unexplained_bytes), SINGLE},
	[MEASURE_UNKNOWN_FREES] = {"unknown_frees", NULL, "unknown frees", "unknown frees",
				   "frees of unknown blocks", NULL, MEASURE_IS_COUNT,
				   MEASURE_OF_RUN, 0, TOTALS(unknown_frees), SINGLE},
	[MEASURE_OLDER_FREES] = {"older_frees", NULL, "older frees", "frees of older blocks",
				 "frees of blocks from before heft was attached", NULL,
				 MEASURE_IS_COUNT, MEASURE_OF_RUN, 0, TOTALS(older_frees), SINGLE},
	[MEASURE_DURATION] = {"duration_ns", NULL, "duration", "long", "duration", NULL,
			      MEASURE_IS_TIME, MEASURE_OF_RUN, HAS(TIMES), SINGLE},
};

static uint64_t number_at(const void *object, measure_field field)
{
	uint64_t n = 0;
	if (field)
		memcpy(&n, (const char *)object + field - 1, sizeof n);
	return n;
}

enum measure_id measure_of_option(const char *option)
{
	int i = 0;
	if (strcmp(option, "calls") == 0) /* the heading of that column */
		return MEASURE_ALLOCATIONS;
	while (i < MEASURE_COUNT &&
	       (!measures[i].option || strcmp(measures[i].option, option) != 0))
		i++;
	return (enum measure_id)i;
}

const char *measure_unit_name(enum measure_id id)
{
	static const char *const names[] = {[MEASURE_IS_COUNT] = "count",
					    [MEASURE_IS_BYTES] = "bytes",
					    [MEASURE_IS_TIME] = "ns"};
	return names[measures[id].unit];
}

bool measure_is_compared(enum measure_id id)
{
	return measures[id].option && !measures[id].minus &&
	       !(measures[id].needs & ~(uint32_t)PROFILE_HAS_ALL);
}

bool measure_known(const struct profile *p, enum measure_id id)
{
	const struct measure *m = &measures[id];
	bool blocks = m->unit == MEASURE_IS_COUNT && m->kind == MEASURE_AT_MOMENT;
	return (p->run.has & m->needs) == m->needs &&
	       !(blocks && p->run.has & PROFILE_LACKS_BLOCKS);
}

const char *measure_lack_words(uint32_t needs)
{
	const uint32_t looked = HAS(REACHABLE) | HAS(TOUCHED) | HAS(EQUAL) | HAS(PINNED);
	if (needs & HAS(LEDGER))
		return "no ledger in this file";
	if (needs & looked)
		return "no heap was looked at (heft run --leaks)";
	if (needs & HAS(MAPPED))
		return "calls that map memory are not recorded in this file";
	return "not recorded in this file";
}

uint64_t measure_of_site(const struct profile_site *site, enum measure_id id)
{
	uint64_t n = number_at(site, measures[id].site), off = number_at(site, measures[id].minus);
	return n > off ? n - off : 0;
}

uint64_t measure_of_totals(const struct profile_totals *totals, enum measure_id id)
{
	return number_at(totals, measures[id].totals);
}

uint64_t measure_of_thread(const struct profile_thread *thread, enum measure_id id)
{
	return number_at(thread, measures[id].thread);
}

uint64_t measure_of_stack(const struct profile_site *site, enum measure_id id)
{
	uint64_t sum, blocks = site->frees + site->live_blocks;
	if (id != MEASURE_LIFETIME)
		return measure_of_site(site, id);
	/* The mean is over blocks that were freed and those live at the end; or over all, where the
	 * format counts no frees. */
	if (!blocks)
		blocks = site->allocations;
	return __builtin_mul_overflow(site->lifetime.mean_ns, blocks, &sum) ? UINT64_MAX : sum;
}

uint64_t measure_of_errors(const struct profile_errors *errors, enum measure_id id)
{
	return number_at(errors, measures[id].errors);
}

uint64_t measure_error95(const struct profile *p, uint32_t site, enum measure_id id)
{
	if (!p->estimates.errors)
		return 0;
	return measure_of_errors(
		site == PROFILE_NONE ? &p->estimates.total_errors : &p->estimates.errors[site], id);
}

uint64_t measure_samples(const struct profile *p, uint32_t site, enum measure_id id)
{
	if (!p->estimates.spreads)
		return 0;
	const struct profile_spread *s = site == PROFILE_NONE ? &p->estimates.total_spread
							      : &p->estimates.spreads[site];
	return measures[id].samples ? number_at(s, measures[id].samples) : s->samples;
}

double measure_variance(const struct profile_spread *spread, enum measure_id id)
{
	double v = 0;
	if (measures[id].spread)
		memcpy(&v, (const char *)spread + measures[id].spread - 1, sizeof v);
	return v;
}

bool measure_is_rough(const struct profile *p, uint32_t site, enum measure_id id)
{
	return p->estimates.errors && estimate_is_few((double)measure_of_site(&p->sites[site], id),
						      (double)measure_error95(p, site, id));
}

uint32_t *measure_sort_sites(const struct profile *p, enum measure_id id)
{
	struct ranked *list = malloc(((size_t)p->site_count + 1) * sizeof *list);
	for (uint32_t i = 0; list && i < p->site_count; i++)
		list[i] = (struct ranked){measure_of_site(&p->sites[i], id), i};
	return rank_take_order(list, p->site_count);
}

static void set_at(void *object, measure_field field, uint64_t n)
{
	memcpy((char *)object + field - 1, &n, sizeof n);
}

bool measure_adds_up(const struct measure *m)
{
	return m->site && !m->minus &&
	       (m->kind == MEASURE_AT_MOMENT || m->kind == MEASURE_OVER_TIME);
}

void measure_set_site(struct profile_site *site, enum measure_id id, uint64_t value)
{
	set_at(site, measures[id].site, value);
}

void measure_add_sums(struct profile_site *to, const struct profile_site *from)
{
	to->merged += from->merged;
	for (const struct measure *m = measures; m < measures + MEASURE_COUNT; m++)
		if (measure_adds_up(m))
			set_at(to, m->site,
			       saturating_add(number_at(to, m->site), number_at(from, m->site)));
}

void measure_add_site(struct profile_site *to, const struct profile_site *from)
{
	double blocks = (double)to->allocations, more = (double)from->allocations;
	if (blocks + more > 0)
		to->lifetime.mean_ns = (uint64_t)(((double)to->lifetime.mean_ns * blocks +
						   (double)from->lifetime.mean_ns * more) /
						  (blocks + more));
	measure_add_sums(to, from);
}

void measure_sum_sites(struct profile_totals *totals, const struct profile_site *sites,
		       uint32_t count)
{
	for (const struct measure *m = measures; m < measures + MEASURE_COUNT; m++) {
		if (!measure_adds_up(m) || !m->totals)
			continue;
		uint64_t sum = 0;
		for (uint32_t i = 0; i < count; i++)
			sum += number_at(&sites[i], m->site);
		set_at(totals, m->totals, sum);
	}
}
