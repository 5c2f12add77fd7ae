/* Groups places that get the same advice and stand beside each other. One cause often shows at several lines:
 * a reader that makes rows and fields, two arrays that one loop fills. Several findings with one advice would
 * hide what else there is, and each would look smaller than the cause is.
 *
 * Invariant: a group has a leader, its first spot, and every other one is a neighbour of the leader. */
#include "findings/neighbours.h"

#include "findings/site_names.h"
#include "hosted/compare.h"

#include <stdlib.h>
#include <string.h>

/* The largest spots are grouped; comparing all with all takes time. */
enum { PLACES_NAMED = 2, MOST_SPOTS = 2000 };

static bool same_node_function(const struct profile *p, uint32_t a, uint32_t b)
{
	return a != PROFILE_NONE && b != PROFILE_NONE &&
	       same_function(p, p->stacks.nodes[a].frame, p->stacks.nodes[b].frame);
}

/* Whether a node is main, or the function of a thread: everything is called from there. */
static bool is_outermost(const struct profile *p, uint32_t node)
{
	return node == PROFILE_NONE || user_caller(p, node) == PROFILE_NONE;
}

static bool are_neighbours(const struct diagnosis *d, const struct spot *one,
			   const struct spot *other)
{
	const struct profile *p = d->p;
	uint32_t a = d->named[one->site], b = d->named[other->site];
	if (same_node_function(p, a, b))
		return true;
	uint32_t module = profile_node_frame(p, a)->module;
	bool nameless = node_is_nameless(p, a), other_nameless = node_is_nameless(p, b);
	/* Nobody can tell functions without names apart, and an interpreter's users see one thing. */
	if (one->alone && other->alone && module == profile_node_frame(p, b)->module &&
	    ((nameless && other_nameless) || module_is_interpreter(p, module)))
		return true;
	if (nameless || other_nameless)
		return false;
	uint32_t above_a = user_caller(p, a), above_b = user_caller(p, b);
	if (same_node_function(p, above_a, b))
		return !is_outermost(p, b);
	if (same_node_function(p, a, above_b))
		return !is_outermost(p, a);
	return same_node_function(p, above_a, above_b) && !is_outermost(p, above_a);
}

static int by_rank(const void *a, const void *b)
{
	const struct spot *x = a, *y = b;
	return compare_numbers(y->rank, x->rank) ?: compare_numbers(x->site, y->site);
}

void spots_group(const struct diagnosis *d, struct spot *spots, uint32_t count)
{
	if (count)
		qsort(spots, count, sizeof *spots, by_rank);
	for (uint32_t i = 0; i < count; i++) {
		spots[i].leader = i;
		for (uint32_t k = 0; k < i && i < MOST_SPOTS && spots[i].leader == i; k++)
			if (spots[k].leader == k && are_neighbours(d, &spots[k], &spots[i]))
				spots[i].leader = k;
	}
}

const char *spots_places(struct diagnosis *d, const struct spot *spots, uint32_t count,
			 uint32_t leader)
{
	const char *names[PLACES_NAMED] = {NULL};
	uint32_t named = 0, more = 0;
	for (uint32_t i = leader; i < count; i++) {
		if (spots[i].leader != leader)
			continue;
		const char *name = diagnosis_keep(d, phrase_place(d->p, d->named[spots[i].site]));
		if (!name)
			return NULL;
		bool known = false;
		for (uint32_t k = 0; k < named; k++)
			known |= names[k] == name || strcmp(names[k], name) == 0;
		if (known)
			continue;
		if (named < PLACES_NAMED)
			names[named++] = name;
		else
			more++;
	}
	if (more)
		return diagnosis_text(d, "%s, %s and %s", names[0], names[1],
				      words_many(more, "more place", "more places").text);
	return named == 2 ? diagnosis_text(d, "%s and %s", names[0], names[1]) : names[0];
}

void spots_evidence(struct diagnosis *d, struct draft *f, const struct spot *spots, uint32_t count,
		    uint32_t leader, uint64_t whole)
{
	const struct profile *p = d->p;
	uint32_t places = 0, used = 0;
	for (uint32_t i = leader; i < count; i++)
		places += spots[i].leader == leader;
	if (places < 2)
		return;
	struct evidence_part *parts = name_pool_alloc(d->pool, places * sizeof *parts);
	for (uint32_t i = leader; parts && i < count; i++) {
		if (spots[i].leader != leader)
			continue;
		uint32_t frame = p->stacks.nodes[d->named[spots[i].site]].frame;
		parts[used].function = p->stacks.frames[frame].function;
		parts[used].where = diagnosis_keep(d, phrase_where(p, frame));
		parts[used].bytes = spots[i].bytes;
		parts[used].share = share_of(spots[i].bytes, whole);
		parts[used].site = spots[i].site;
		f->no_memory |= !parts[used++].where;
	}
	f->no_memory |= !parts;
	draft_parts(f, "places", parts, used);
}
