/* An inverted tree of which only the large calls are wanted. From the allocation up stacks have little in common: a
 * tree of all of them is as large as all of them written out. A chain of 10,000 calls that each allocate had 50 million
 * nodes, of which none was large enough to be shown.
 *
 * Every stack is a climber, which enters one call after the other. It waits at a call until the climbers that came
 * there have `least` together; then the call is open, and all of them go on. Those that still wait at the end are cut
 * there. So what is above a small call is never made, and what is above a large one is whole.
 *
 * A stack with recursion cannot wait: it may be merged into a call further down that is large. Such stacks climb first,
 * and whole. The callers of a deep one are those of the less deep one beneath it: both climb through the same nodes of
 * the profile at the same place of the tree. So climbers that have gone far note where they come by, now and then; who
 * comes to such a place joins the one that was there first.
 *
 * Invariant: a climber's next node of the profile has a smaller number with each step, so climbing ends. */
#include "profile/call_tree.h"

#include <stdlib.h>

enum { FAR = 64, NOTE_ONE_IN = 16 };

struct climber {
	uint32_t next; /* node of the profile that it comes to; PROFILE_NONE: it is through */
	uint32_t at;   /* node of the tree */
	uint32_t outermost;
	uint32_t innermost; /* function that it has if there is no other */
	uint32_t steps, stacks;
	uint32_t joined; /* the climber that it has joined; itself: none */
	uint32_t behind; /* who waits at the same call, later; PROFILE_NONE: nobody */
	bool recursive;
	struct call_amount amount;
};

/* Where a climber has come by */
struct note {
	uint32_t at, next, outermost, climber;
};

/* Who waits at a node of the tree, and what all have that came there. */
struct call_wait {
	uint64_t value;
	uint32_t first, last;
};

struct ascent {
	struct call_tree *t;
	const struct call_stacks *s;
	uint32_t *
		shown; /* by node of the profile: the first from there on that is entered; NULL: each is */
	bool *recursive; /* by node of the profile: a function is twice in its stack */
	struct climber *climbers;
	VECTOR(struct note) notes;
	struct hash_index index;        /* of notes */
	VECTOR(struct call_wait) waits; /* by node of the tree */
	VECTOR(uint32_t) going;         /* climbers that may go on */
	uint64_t least;
};

static uint32_t leader(struct ascent *a, uint32_t i)
{
	struct climber *c = a->climbers;
	while (c[i].joined != i)
		i = c[i].joined = c[c[i].joined].joined;
	return i;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

static void add_amount(struct call_amount *to, const struct call_amount *more)
{
	to->value = sum(to->value, more->value);
	to->before = sum(to->before, more->before);
	to->lifetimes += more->lifetimes;
	to->blocks += more->blocks;
	to->spread += more->spread;
}

/* Nodes of the tree that are new have nobody. */
static bool has_waits(struct ascent *a)
{
	while (a->waits.count < a->t->count)
		if (!vector_push(&a->waits, ((struct call_wait){0, PROFILE_NONE, PROFILE_NONE})))
			return false;
	return true;
}

/* So much more has come to a call: if that is enough, all who wait there go on. */
static int arrive(struct ascent *a, uint32_t at, uint64_t value)
{
	struct call_wait *w = &a->waits.items[at];
	w->value = sum(w->value, value);
	if (w->value < a->least)
		return 0;
	for (uint32_t i = w->first; i != PROFILE_NONE; i = a->climbers[i].behind)
		if (!vector_push(&a->going, i))
			return HEFT_ENOMEM;
	w->first = w->last = PROFILE_NONE;
	return 0;
}

static void wait_there(struct ascent *a, uint32_t i)
{
	struct call_wait *w = &a->waits.items[a->climbers[i].at];
	a->climbers[i].behind = PROFILE_NONE;
	if (w->first == PROFILE_NONE)
		w->first = i;
	else
		a->climbers[w->last].behind = i;
	w->last = i;
}

/* Joins the climber that has been here, if there was one. */
static int join(struct ascent *a, uint32_t i, bool *joined)
{
	struct climber *c = &a->climbers[i];
	const struct note here = {c->at, c->next, c->outermost, i};
	uint32_t hash = hash_number(hash_mix(hash_mix(here.at, here.next), here.outermost));
	uint32_t slot = hash, n;
	while ((n = hash_index_step(&a->index, hash, &slot)) != HASH_NONE) {
		const struct note *o = &a->notes.items[n];
		if (o->at == here.at && o->next == here.next && o->outermost == here.outermost)
			break;
	}
	*joined = n != HASH_NONE;
	if (!*joined)
		return vector_push(&a->notes, here)
			       ? hash_index_add_at(&a->index, hash, slot,
						   (uint32_t)a->notes.count - 1)
			       : HEFT_ENOMEM;
	c->joined = leader(a, a->notes.items[n].climber);
	struct climber *with = &a->climbers[c->joined];
	add_amount(&with->amount, &c->amount);
	with->stacks += c->stacks;
	return 0;
}

/* The stack has no more callers: what is above all of them is not waited for. */
static int arrive_on_top(struct ascent *a, struct climber *c)
{
	uint32_t to = c->at;
	int rc = 0;
	if (c->innermost == PROFILE_NONE ||
	    (a->t->options & CALL_TREE_USER && c->outermost == PROFILE_NONE && !c->at))
		rc = call_tree_enter(a->t, c->at, c->innermost, false, &to);
	if (rc == 0 && c->outermost != PROFILE_NONE && to != PROFILE_NONE)
		rc = call_tree_enter(a->t, to, c->outermost, false, &to);
	c->at = to == PROFILE_NONE ? c->at : to;
	return rc == 0 && !has_waits(a) ? HEFT_ENOMEM : rc;
}

static int climb(struct ascent *a, uint32_t i)
{
	struct climber *c = &a->climbers[i];
	const struct profile_node *nodes = a->s->p->stacks.nodes;
	bool merge = a->t->options & CALL_TREE_MERGED;
	for (;;) {
		if (c->next != PROFILE_NONE && a->shown)
			c->next = a->shown[c->next];
		if (c->next == PROFILE_NONE)
			return arrive_on_top(a, c);
		if (c->recursive && c->steps > FAR && hash_number(c->next) % NOTE_ONE_IN == 0) {
			bool joined;
			if (join(a, i, &joined) < 0)
				return HEFT_ENOMEM;
			if (joined)
				return 0;
		}
		uint32_t to;
		if (call_tree_enter(a->t, c->at, a->s->ids[nodes[c->next].frame], merge, &to) < 0 ||
		    !has_waits(a))
			return HEFT_ENOMEM;
		if (to == PROFILE_NONE)
			return 0;
		c->at = to;
		c->next = nodes[c->next].parent;
		c->steps++;
		if (c->recursive)
			continue;
		wait_there(a, i);
		return arrive(a, to,
			      c->amount.value); /* perhaps it goes on, behind those who waited */
	}
}

/* Of many frames of the runtime in a row, the first that is entered is found at once. */
static bool find_shown(struct ascent *a)
{
	const struct profile_stacks *stacks = &a->s->p->stacks;
	if (!(a->t->options & CALL_TREE_USER))
		return true;
	a->shown = malloc(((size_t)stacks->node_count + 1) * sizeof *a->shown);
	for (uint32_t n = 0; a->shown && n < stacks->node_count; n++) {
		uint32_t parent = stacks->nodes[n].parent;
		a->shown[n] = stacks->frames[stacks->nodes[n].frame].user ? n
			      : parent == PROFILE_NONE                    ? PROFILE_NONE
									  : a->shown[parent];
	}
	return a->shown != NULL;
}

/* The number of a function by name and module, as stacks are merged by. */
static int find_same(const struct call_functions *all, uint32_t *same)
{
	struct hash_index index = {0};
	int rc = 0;
	for (uint32_t i = 0; rc == 0 && i < all->count; i++) {
		const struct call_function *f = &all->items[i], *g;
		uint32_t hash = hash_number(hash_mix((uintptr_t)f->function, (uintptr_t)f->module));
		uint32_t slot = hash, k;
		while ((k = hash_index_step(&index, hash, &slot)) != HASH_NONE) {
			g = &all->items[k];
			if (g->function == f->function && g->module == f->module)
				break;
		}
		same[i] = k == HASH_NONE ? i : k;
		if (k == HASH_NONE)
			rc = hash_index_add_at(&index, hash, slot, i);
	}
	hash_index_fini(&index);
	return rc;
}

/* One walk over all stacks, from the outermost calls in. first and next: children of a node; on_path: how often a
 * function is on the way to where we are. */
static void mark_recursive(struct ascent *a, const uint32_t *same, uint32_t *first, uint32_t *next,
			   uint32_t *on_path)
{
	const struct profile_stacks *stacks = &a->s->p->stacks;
	uint32_t top = stacks->node_count, repeated = 0, n = top;
	for (uint32_t i = 0; i <= top; i++)
		first[i] = PROFILE_NONE;
	for (uint32_t i = 0; i < top; i++) {
		uint32_t parent = stacks->nodes[i].parent;
		parent = parent == PROFILE_NONE ? top : parent;
		next[i] = first[parent];
		first[parent] = i;
	}
	for (;;) {
		uint32_t child = first[n];
		if (child != PROFILE_NONE) { /* in */
			first[n] = next[child];
			n = child;
		} else if (n == top)
			return;
		uint32_t frame = stacks->nodes[n].frame, function = same[a->s->ids[frame]];
		bool counts = !a->shown || stacks->frames[frame].user;
		if (child != PROFILE_NONE) {
			repeated += counts && on_path[function]++;
			a->recursive[n] = repeated;
			continue;
		}
		repeated -= counts && --on_path[function]; /* and out */
		n = stacks->nodes[n].parent == PROFILE_NONE ? top : stacks->nodes[n].parent;
	}
}

static bool find_recursive(struct ascent *a)
{
	size_t nodes = a->s->p->stacks.node_count + (size_t)1;
	size_t functions = a->t->functions.count + (size_t)1;
	uint32_t *same = malloc(functions * sizeof *same), *first = malloc(nodes * sizeof *first),
		 *next = malloc(nodes * sizeof *next),
		 *on_path = calloc(functions, sizeof *on_path);
	a->recursive = calloc(nodes, sizeof *a->recursive);
	bool made = same && first && next && on_path && a->recursive &&
		    find_same(&a->t->functions, same) == 0;
	if (made && a->t->options & CALL_TREE_MERGED)
		mark_recursive(a, same, first, next, on_path);
	free(same);
	free(first);
	free(next);
	free(on_path);
	return made;
}

static struct climber climber_of(const struct ascent *a, uint32_t site, uint32_t number,
				 const struct call_amount *amount)
{
	const struct call_stacks *s = a->s;
	uint32_t node = s->p->sites[site].node;
	return (struct climber){.next = node,
				.outermost = call_stacks_outermost(s, site),
				.innermost = node == PROFILE_NONE
						     ? PROFILE_NONE
						     : s->ids[s->p->stacks.nodes[node].frame],
				.stacks = 1,
				.joined = number,
				.behind = PROFILE_NONE,
				.recursive = node != PROFILE_NONE && a->recursive[node],
				.amount = *amount};
}

/* Stacks with recursion, and what calls have of them. */
static int climb_first(struct ascent *a, uint32_t count)
{
	int rc = 0;
	for (uint32_t i = 0; rc == 0 && i < count; i++)
		if (a->climbers[i].recursive)
			rc = climb(a, i);
	for (uint32_t i = 0; rc == 0 && i < count; i++) {
		const struct climber *c = &a->climbers[i];
		struct call_wait *w = &a->waits.items[c->at];
		if (c->recursive && c->joined == i)
			w->value = sum(w->value, c->amount.value);
	}
	for (uint32_t n = a->t->count; rc == 0 && n-- > 1;) {
		struct call_wait *up = &a->waits.items[a->t->nodes[n].parent];
		up->value = sum(up->value, a->waits.items[n].value);
	}
	return rc;
}

/* All others. Who is let go on does so at once, so that calls are made in the order of the sites. */
static int climb_next(struct ascent *a, uint32_t count)
{
	int rc = 0;
	for (uint32_t i = 0; rc == 0 && i < count; i++) {
		if (a->climbers[i].recursive)
			continue;
		rc = climb(a, i);
		for (size_t next = 0; rc == 0 && next < a->going.count; next++)
			rc = climb(a, a->going.items[next]);
		a->going.count = 0;
	}
	return rc;
}

int call_tree_add_upwards(struct call_tree *t, struct call_stacks *s, const uint32_t *sites,
			  const struct call_amount *amounts, uint32_t count, uint64_t least)
{
	struct ascent a = {.t = t, .s = s, .least = least};
	a.climbers = malloc(((size_t)count + 1) * sizeof *a.climbers);
	int rc = a.climbers && find_shown(&a) && find_recursive(&a) && has_waits(&a) ? 0
										     : HEFT_ENOMEM;
	for (uint32_t i = 0; rc == 0 && i < count; i++)
		a.climbers[i] = climber_of(&a, sites[i], i, &amounts[i]);
	rc = rc ? rc : climb_first(&a, count);
	rc = rc ? rc : climb_next(&a, count);
	for (uint32_t i = 0; rc == 0 && i < count; i++) {
		const struct climber *c = &a.climbers[i];
		if (c->joined == i)
			call_tree_add_at(t, c->at, c->next != PROFILE_NONE, c->stacks, &c->amount);
	}
	hash_index_fini(&a.index);
	vector_free(&a.notes);
	vector_free(&a.waits);
	vector_free(&a.going);
	free(a.climbers);
	free(a.shown);
	free(a.recursive);
	return rc;
}
