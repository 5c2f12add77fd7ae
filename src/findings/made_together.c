/* Whether blocks of two sites were made together. Two things show it.
 *
 *   order    the first blocks of each site are known in their order (profile_first). If each struct has k
 *            buffers, its thread makes exactly k of them from one struct to the next. A list beside the
 *            structs, or rows with 5 to 7 strings, do not, however well the counts agree in the end.
 *   course   the numbers of live blocks over time (profile_history) rise and fall together. Only slots in
 *            which a count changed are evidence: once both are complete, two lists of equal length agree
 *            as well as the parts of objects do.
 *
 * One block each may be made later than the object (a buffer that is made when it is first needed), so the
 * order refuses only two lists of which one was complete before the other began. Several blocks each must
 * keep the order: many counts are multiples of others. */
#include "findings/made_together.h"

/* So many objects must be seen, and so many of them must keep the order (the others came in between: signal
 * handlers, nested calls, a constructor that failed). */
enum { LEAST_OBJECTS_SEEN = 8 };
#define LEAST_IN_ORDER 0.9
/* Two kinds of objects that come at random follow each other more often than this allows. */
#define LEAST_APART 0.97
/* Counts over time may disagree in this part of the slots in which a count changed. Fewer slots than this
 * show nothing. */
#define STRAY_CHANGES 0.1
#define LEAST_CHANGES 3

const struct profile_first *first_blocks(const struct profile *p, uint32_t site, uint32_t *count)
{
	const struct profile_first *list = p->behaviour.firsts;
	uint32_t low = 0, high = p->behaviour.first_count, end;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (list[middle].site < site)
			low = middle + 1;
		else
			high = middle;
	}
	for (end = low; end < p->behaviour.first_count && list[end].site == site;)
		end++;
	*count = end - low;
	return list + low;
}

/* How many of the blocks thread `t` made between two moments. */
static uint64_t made_between(const struct profile_first *list, uint32_t count, uint32_t t,
			     uint64_t from, uint64_t to)
{
	uint64_t made = 0;
	uint32_t low = 0, high = count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (list[middle].order < from)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < count && list[low].order < to; low++)
		made += list[low].thread == t;
	return made;
}

/* Goes from each block of the reference to the next one of its thread, as far as the blocks of both sites
 * are known. */
enum together made_in_turn(const struct profile *p, uint32_t reference, uint32_t site, uint64_t k)
{
	uint32_t n, m, objects = 0, kept = 0;
	const struct profile_first *r = first_blocks(p, reference, &n);
	const struct profile_first *s = first_blocks(p, site, &m);
	if (!n || !m)
		return TOGETHER_UNKNOWN;
	if (k == 1 && n >= LEAST_OBJECTS_SEEN && m >= LEAST_OBJECTS_SEEN &&
	    (r[n - 1].order < s[0].order || s[m - 1].order < r[0].order))
		return TOGETHER_NOT;
	bool all = m >= p->sites[site].allocations;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t next = i + 1;
		while (next < n && r[next].thread != r[i].thread)
			next++;
		if (next == n || (!all && r[next].order > s[m - 1].order))
			continue;
		kept += made_between(s, m, r[i].thread, r[i].order, r[next].order) == k;
		objects++;
	}
	if (objects < LEAST_OBJECTS_SEEN)
		return TOGETHER_UNKNOWN;
	if (kept >= LEAST_IN_ORDER * objects)
		return TOGETHER_IN_ORDER;
	return k > 1 ? TOGETHER_NOT : TOGETHER_UNKNOWN;
}

static enum together in_course(const struct profile *p, uint32_t reference, uint32_t site,
			       uint64_t k)
{
	uint32_t a = p->sites[reference].history, b = p->sites[site].history;
	if (a >= p->behaviour.history.row_count || b >= p->behaviour.history.row_count)
		return TOGETHER_UNKNOWN; /* too small to have a history */
	const struct profile_history_row *x = &p->behaviour.history.rows[a],
					 *y = &p->behaviour.history.rows[b];
	uint32_t from = x->first > y->first ? x->first : y->first, changes = 0, stray = 0;
	uint64_t most = 0;
	for (uint32_t i = from; i < p->behaviour.history.slot_count; i++)
		if (x->blocks[i] > most)
			most = x->blocks[i];
	uint64_t within = k * (2 + (uint64_t)(TOGETHER_TOLERANCE * (double)most));
	for (uint32_t i = from; i < p->behaviour.history.slot_count; i++) {
		if (i && x->blocks[i] == x->blocks[i - 1] && y->blocks[i] == y->blocks[i - 1])
			continue;
		uint64_t expected = k * x->blocks[i], is = y->blocks[i];
		stray += (is > expected ? is - expected : expected - is) > within;
		changes++;
	}
	if (changes < LEAST_CHANGES)
		return TOGETHER_UNKNOWN;
	return stray <= STRAY_CHANGES * (double)changes ? TOGETHER_IN_COURSE : TOGETHER_NOT;
}

enum together made_together(const struct profile *p, uint32_t reference, uint32_t site, uint64_t k)
{
	if (reference == site)
		return TOGETHER_IN_ORDER;
	enum together order = made_in_turn(p, reference, site, k);
	enum together course = in_course(p, reference, site, k);
	/* The course of a site that was seen on several stacks may lack some of them while they were small: it does
	 * not refute that the blocks of two sites were made in turn. (32 items for each chunk of a channel are made in
	 * turn, too, and live apart.) */
	if (order == TOGETHER_NOT ||
	    (course == TOGETHER_NOT && (order != TOGETHER_IN_ORDER || k > 1)))
		return TOGETHER_NOT;
	return order > course ? order : course;
}

bool made_at_most_once(const struct profile *p, uint32_t reference, uint32_t site)
{
	uint32_t n, m, pairs = 0, apart = 0;
	const struct profile_first *r = first_blocks(p, reference, &n);
	const struct profile_first *s = first_blocks(p, site, &m);
	for (uint32_t i = 0; i + 1 < m && n && s[i + 1].order < r[n - 1].order; i++) {
		uint32_t next = i + 1;
		while (next < m && s[next].thread != s[i].thread)
			next++;
		if (next == m)
			break;
		apart += made_between(r, n, s[i].thread, s[i].order, s[next].order) > 0;
		pairs++;
	}
	return pairs >= LEAST_OBJECTS_SEEN && apart >= LEAST_APART * pairs;
}
