/* Whether blocks of one place wait in a queue that grows.
 *
 * A queue differs from other ways to pass blocks on:
 *   - first in, first out;
 *   - each waits longer than the one before. A bounded queue, a cache or a pool that keeps up makes
 *     blocks wait about equally long once it is full;
 *   - consumer and producer work at the same time. A table that one place builds and another takes
 *     down is also freed in order, and if that is slow its blocks live longer and longer too.
 *
 * That another thread frees nearly all blocks is a strong sign. Tasks of an event loop pass blocks on without
 * it: one thread runs them all, or they move between threads. Then the sign is that the backlog grew while
 * blocks were already being taken: a cache that warms up, and a table that is built first, have all their
 * blocks when the first is freed. */
#include "findings/queue_parts.h"

#include "hosted/compare.h"

#include <math.h>
#include <string.h>

/* Fewer frees do not show a trend. */
#define QUEUE_LEAST_FREES 100
/* The rest may be freed in other ways: what a producer takes back at the end, or messages to itself. */
#define QUEUE_LEAST_SHARE 0.9
/* Two consumers, or batches freed back to front, overtake a little. With 0.75 four consumers of
 * irregular speed would pass too, but so did one of 1100 simulated queues that kept up. */
#define QUEUE_LEAST_IN_ORDER 0.9
/* The straight line through the waits must explain most of their variation. Measured by hand: a
 * bound of 64 gives 0.36 at worst (a run of 130 items, of which the first 64 fill the queue). */
#define QUEUE_LEAST_FIT 0.5
/* Growth of the wait from the first to the last item, over the mean wait. A wait that grows evenly
 * from nothing gives 2, one that is three times as long at the end as at the start gives 1, a bound
 * of 64 at most 0.8 (the same 130 items) and 0.1 over 5000. */
#define QUEUE_LEAST_GROWTH 1.0
/* Every queue varies: a backlog of a few items, or of a small share of all items, is normal. */
#define QUEUE_LEAST_BACKLOG 32
#define QUEUE_LEAST_BACKLOG_SHARE 0.05
/* Or the items came in a burst: within a fifth of the time from first birth to last free, three
 * quarters of them were there at once, and they were taken evenly (a mean wait of about half of that
 * time). Then each must wait longer than the one before, and no line is needed: on a busy machine
 * the births of a burst stand in two or three heaps, and the line fits badly (0.2 was seen). */
#define QUEUE_BURST 0.2
#define QUEUE_BURST_BACKLOG 0.75
#define QUEUE_BURST_LEAST_WAIT 0.25
#define QUEUE_BURST_MOST_WAIT 0.75
/* A producer may be done before the first item is freed. Then it is a queue if that item was taken
 * early (0.08 of the whole time was seen on a busy machine), and if items are worked on: to free a
 * block takes a microsecond at most, so a table that is taken down is freed faster than this. */
#define QUEUE_LONGEST_FIRST_WAIT 0.15
#define QUEUE_LEAST_WORK_NS 20000.0
/* A queue that has reached its bound stays there. Without a bound the backlog rises to its top and is within
 * three percent of it for a few percent of the time in which items come. A course of fewer slots than this shows
 * nothing. */
#define QUEUE_TOP 0.97
#define QUEUE_TOP_LEAST_SLOTS 16
#define QUEUE_MOST_TIME_AT_TOP 0.1
/* Within threads: of the greatest backlog, so much at most was there when the first block was freed. A cache
 * had all of it. */
#define QUEUE_MOST_BEFORE_TAKING 0.5
/* And while blocks came, the backlog fell by so much at most in all, of its greatest. Six batches, each larger than
 * the one before, gave 2.5. */
#define QUEUE_MOST_FALLEN 1.0
/* Who works on one item after the other takes them one after the other. Tables that are made while a program starts, some
 * of them for a moment, and that are taken down at its end have a pause of nearly all of that time (0.9 was seen). */
#define QUEUE_LONGEST_PAUSE 0.5

double queue_interval(uint64_t from, uint64_t to, uint64_t items)
{
	return items > 1 && to > from ? (double)(to - from) / (double)(items - 1) : 0;
}

/* ---- the level over time */

/* How many of the place's blocks are live at the end of this slot */
static uint64_t level_at(const struct queue_places *q, const struct queue_place *x, uint64_t slot)
{
	const struct profile *p = q->d->p;
	const struct profile_history *course = &p->behaviour.history;
	uint64_t sum = 0;
	for (uint32_t k = 0; k < x->sites; k++) {
		uint32_t row = p->sites[q->sites[x->first + k]].history;
		sum += row < course->row_count ? course->rows[row].blocks[slot] : 0;
	}
	return sum;
}

static uint64_t highest_level(const struct queue_places *q, const struct queue_place *x)
{
	uint64_t most = 0;
	for (uint32_t i = 0; i < q->d->p->behaviour.history.slot_count; i++)
		most = greater(most, level_at(q, x, i));
	return most;
}

/* The slot of this time; slot_count: there is none. */
static uint64_t slot_of(const struct profile_history *course, uint64_t time_ns)
{
	uint64_t slot = course->slot_ns && time_ns >= course->start_ns
				? (time_ns - course->start_ns) / course->slot_ns
				: course->slot_count;
	return lesser(slot, course->slot_count);
}

/* What part of the place's highest level was there when its first block was freed. 1 if that is not known. */
static double level_before_taking(const struct queue_places *q, const struct queue_place *x)
{
	const struct profile_history *course = &q->d->p->behaviour.history;
	uint64_t slot = slot_of(course, x->waits.first_free_ns), most = highest_level(q, x);
	return slot < course->slot_count && most ? (double)level_at(q, x, slot) / (double)most : 1;
}

/* For what part of the time in which blocks came the level was at its top. 0 if that is not known. */
static double time_at_top(const struct queue_places *q, const struct queue_place *x)
{
	const struct profile_history *course = &q->d->p->behaviour.history;
	uint64_t from = slot_of(course, x->waits.first_birth_ns);
	uint64_t to = slot_of(course, x->waits.last_birth_ns), at_top = 0;
	double top = QUEUE_TOP * (double)highest_level(q, x);
	if (to < from + QUEUE_TOP_LEAST_SLOTS)
		return 0;
	for (uint64_t i = from; i < to; i++)
		at_top += (double)level_at(q, x, i) >= top;
	return (double)at_top / (double)(to - from);
}

/* ---- conditions */

bool queue_is_in_order(struct rule *r, const struct queue_place *x, uint64_t least)
{
	const struct profile_handover *h = &x->waits;
	uint64_t taken = lesser(h->frees, x->frees); /* one free may count for 16 */
	return rule_at_least(r, "blocks that were taken out", UNIT_COUNT, (double)taken,
			     (double)least) &&
	       rule_at_least(r, "taken out, of all frees", UNIT_SHARE, share_of(taken, x->frees),
			     QUEUE_LEAST_SHARE) &&
	       rule_at_least(r, "blocks that left in the order in which they came", UNIT_SHARE,
			     share_of(h->in_order, h->frees), QUEUE_LEAST_IN_ORDER);
}

static double whole_time(const struct profile_handover *h)
{
	return (double)(h->last_free_ns - h->first_birth_ns);
}

/* The producer was done before the first item was freed, and items are worked on. */
static bool is_taken_early(struct rule *r, const struct profile_handover *h)
{
	return rule_at_most(r, "wait for the first free, of the whole time", UNIT_SHARE,
			    (double)(h->first_free_ns - h->first_birth_ns) / whole_time(h),
			    QUEUE_LONGEST_FIRST_WAIT) &&
	       rule_at_least(r, "work on each block", UNIT_TIME_NS,
			     queue_interval(h->first_free_ns, h->last_free_ns, h->frees),
			     QUEUE_LEAST_WORK_NS);
}

static bool is_taken_from_start(struct rule *r, const struct profile_handover *h)
{
	return h->first_free_ns <= h->last_birth_ns
		       ? rule_fact(r, "blocks were taken out while others still came",
				   "all blocks came before the first was taken out", true)
		       : is_taken_early(r, h);
}

static bool is_burst(struct rule *r, const struct profile_handover *h)
{
	double whole = whole_time(h), mean = h->wait_mean_ns / whole;
	return rule_at_most(r, "time in which all came, of the whole time", UNIT_SHARE,
			    (double)(h->last_birth_ns - h->first_birth_ns) / whole, QUEUE_BURST) &&
	       rule_at_least(r, "part of them that waited at once", UNIT_SHARE,
			     share_of(h->backlog_blocks, h->frees), QUEUE_BURST_BACKLOG) &&
	       rule_at_least(r, "mean wait, of the whole time", UNIT_SHARE, mean,
			     QUEUE_BURST_LEAST_WAIT) &&
	       rule_at_most(r, "mean wait, of the whole time", UNIT_SHARE, mean,
			    QUEUE_BURST_MOST_WAIT);
}

static bool is_growing(struct rule *r, const struct profile_handover *h)
{
	double span = (double)(h->last_birth_ns - h->first_birth_ns);
	return rule_at_least(r, "part of the waits that a rising line explains", UNIT_SHARE,
			     h->wait_fit, QUEUE_LEAST_FIT) &&
	       rule_at_least(r, "growth of the wait, as a multiple of the mean wait", UNIT_NUMBER,
			     h->wait_slope * span / h->wait_mean_ns, QUEUE_LEAST_GROWTH);
}

static bool is_growing_or_burst(struct rule *r, const struct profile_handover *h)
{
	uint32_t mark = r->count;
	if (is_growing(r, h))
		return true;
	r->count = mark;
	return is_burst(r, h);
}

/* ---- within threads */

/* What left again while blocks still came, as a multiple of the highest level. 0 if that is not known. Batches
 * that are built and taken down have a level that goes up and down. */
static double fallen_meanwhile(const struct queue_places *q, const struct queue_place *x)
{
	const struct profile_history *course = &q->d->p->behaviour.history;
	uint64_t from = slot_of(course, x->waits.first_birth_ns);
	uint64_t to = slot_of(course, x->waits.last_birth_ns), fallen = 0;
	uint64_t most = highest_level(q, x);
	for (uint64_t i = from; i + 1 < to; i++) {
		uint64_t before = level_at(q, x, i), after = level_at(q, x, i + 1);
		fallen += before > after ? before - after : 0;
	}
	return most ? (double)fallen / (double)most : 0;
}

/* The longest time in which the level did not change, of the time from the first free to the last. 0 if that is not
 * known. */
static double longest_pause(const struct queue_places *q, const struct queue_place *x)
{
	const struct profile_history *course = &q->d->p->behaviour.history;
	uint64_t from = slot_of(course, x->waits.first_free_ns);
	uint64_t to = slot_of(course, x->waits.last_free_ns), longest = 0, since = from;
	if (to < from + QUEUE_TOP_LEAST_SLOTS)
		return 0;
	for (uint64_t i = from; i + 1 < to; i++) {
		if (level_at(q, x, i) != level_at(q, x, i + 1))
			since = i + 1;
		longest = greater(longest, i + 1 - since);
	}
	return (double)longest / (double)(to - from);
}

/* Whether a task of an asynchronous runtime runs here: something polls it. */
static bool is_in_task(const struct profile *p, uint32_t node)
{
	for (; node < p->stacks.node_count; node = p->stacks.nodes[node].parent)
		if (strstr(p->stacks.frames[p->stacks.nodes[node].frame].function, "::poll") ||
		    strstr(p->stacks.frames[p->stacks.nodes[node].frame].function, "::block_on"))
			return true;
	return false;
}

/* Whether blocks are freed somewhere else than they are made: another function, or another line. */
static bool has_two_places(const struct profile *p, uint32_t site, uint32_t freed_at)
{
	uint32_t made_at = p->sites[site].node;
	if (made_at >= p->stacks.node_count || freed_at >= p->stacks.node_count)
		return false;
	uint32_t made = profile_first_user_node(p, made_at);
	uint32_t freed = profile_first_user_node(p, freed_at);
	return made != PROFILE_NONE && freed != PROFILE_NONE &&
	       p->stacks.nodes[made].frame != p->stacks.nodes[freed].frame;
}

static bool grows_within_threads(struct rule *r, const struct queue_places *q,
				 const struct queue_place *x)
{
	const struct profile *p = q->d->p;
	const struct profile_handover *h = &x->waits;
	uint32_t freed_at = queue_freed_at(p, x);
	if (!rule_fact(r, "one place makes the blocks, another frees them",
		       "the place that makes them frees them",
		       has_two_places(p, x->site, freed_at)))
		return false;
	uint32_t mark = r->count;
	if (is_growing(r, h) &&
	    rule_fact(r, "blocks were taken out while others still came",
		      "all blocks came before the first was taken out",
		      h->first_free_ns <= h->last_birth_ns) &&
	    rule_at_most(r, "part of the greatest backlog that was there at the first free",
			 UNIT_SHARE, level_before_taking(q, x), QUEUE_MOST_BEFORE_TAKING) &&
	    rule_at_most(r, "falls of the backlog while blocks came, of its greatest", UNIT_SHARE,
			 fallen_meanwhile(q, x), QUEUE_MOST_FALLEN) &&
	    rule_at_most(r, "longest time without a take, of the time in which they were taken out",
			 UNIT_SHARE, longest_pause(q, x), QUEUE_LONGEST_PAUSE))
		return true;
	r->count = mark;
	/* A task that never waits makes all items before the consumer's turn comes. A loop that loads
	 * everything and then works on it looks the same, and is no queue. */
	return rule_fact(r, "tasks make and take them", "no tasks make and take them",
			 is_in_task(p, p->sites[x->site].node) && is_in_task(p, freed_at)) &&
	       is_burst(r, h) && is_taken_early(r, h);
}

bool queue_is_certain(struct rule *r, const struct queue_places *q, const struct queue_place *x)
{
	const struct profile_handover *h = &x->waits;
	if (!queue_is_in_order(r, x, QUEUE_LEAST_FREES))
		return false;
	if (h->last_birth_ns < h->first_birth_ns || h->first_free_ns < h->first_birth_ns ||
	    h->last_free_ns <= h->first_birth_ns || !isfinite(h->wait_slope) ||
	    !isfinite(h->wait_fit) || h->wait_mean_ns <= 0)
		return false;
	if (!rule_at_least(r, "blocks that waited at once", UNIT_COUNT, (double)h->backlog_blocks,
			   QUEUE_LEAST_BACKLOG) ||
	    !rule_at_least(r, "part of all blocks that waited at once", UNIT_SHARE,
			   share_of(h->backlog_blocks, h->frees), QUEUE_LEAST_BACKLOG_SHARE) ||
	    !rule_at_most(r, "time at the greatest backlog, of the time in which blocks came",
			  UNIT_SHARE, time_at_top(q, x), QUEUE_MOST_TIME_AT_TOP))
		return false;
	uint32_t mark = r->count;
	if (rule_at_least(r, "frees by another thread than the allocating one", UNIT_SHARE,
			  share_of(x->frees_by_others, x->frees), QUEUE_LEAST_SHARE) &&
	    is_growing_or_burst(r, h) && is_taken_from_start(r, h))
		return true;
	r->count = mark;
	return grows_within_threads(r, q, x);
}
