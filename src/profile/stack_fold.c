/* A program that recurses 60,000 levels deep and allocates at 3,000 of them has 60,000 nodes, but
 * 90 million frames if every stack is written out: gigabytes of JSON from 20 KB of recording. So stacks
 * are written folded ("descend" 60,000 times is one entry with a count) and bounded.
 *
 * Folding goes from the outermost frame in, one step for each node, so all stacks together cost no more
 * than the tree has nodes. The folded stack of a node is its own entry, then that of the node `outer`,
 * usually its caller. If the last `cycle` entries equal the `cycle` entries before them, they are taken
 * away: the node's entry takes the place of the last one before, counts one more, and gets its `outer`.
 * Entries are equal if key, count and cycle are, so a folded stack describes the whole one exactly (but
 * for frames of one key).
 *
 *   main a b a b a b c   ->   main a b(3 times 2) c
 *
 * A stack that is longer than STACK_MOST after that is cut: it keeps the entries next to the side that
 * readers begin from, a few of the other side, and how many frames were between them. A cut never falls
 * between an entry with a count and the others of its cycle.
 *
 * Invariants: outer < node; the walk gives at most STACK_MOST entries, unless the form is whole. */
#include "profile/stack_fold.h"

#include <stdlib.h>

enum { LONGEST_CYCLE = 32 };

_Static_assert(STACK_LONG_SIDE + LONGEST_CYCLE - 1 + STACK_SHORT_SIDE < STACK_MOST &&
		       STACK_SHORT_SIDE + 1 + LONGEST_CYCLE - 1 + STACK_LONG_SIDE - 1 < STACK_MOST,
	       "a cycle that is begun before the cut fits in");

struct stack_state {
	uint32_t outer; /* the next entry's node */
	uint32_t times, cycle;
	uint32_t entries; /* of the folded stack, this one included */
	uint32_t depth;   /* frames of the whole stack */
	uint32_t far; /* the first node on the way out that is of the entries kept beyond a cut */
};

/* How many entries are kept on the outer side of a cut. */
static uint32_t outer_kept(enum stack_form form)
{
	return form == STACK_TREE ? STACK_LONG_SIDE - 1 : STACK_SHORT_SIDE;
}

/* ... and on the inner one, but for what a cycle that is begun has more. */
static uint32_t inner_kept(enum stack_form form)
{
	return form == STACK_TREE ? STACK_SHORT_SIDE + 1 : STACK_LONG_SIDE;
}

struct folding {
	const struct profile *p;
	const uint32_t *keys;
	struct stack_state *states;
};

static uint32_t key_of(const struct folding *x, uint32_t node)
{
	uint32_t frame = x->p->stacks.nodes[node].frame;
	return x->keys ? x->keys[frame] : frame;
}

/* Whether the cycle entries that end with `node` (behind `caller`) equal those that end with `at`. */
static bool comes_again(const struct folding *x, uint32_t caller, uint32_t at, uint32_t cycle)
{
	const struct stack_state *s = x->states;
	if (s[at].times > 1 && s[at].cycle != cycle)
		return false;
	for (uint32_t i = 1; i < cycle; i++) {
		at = s[at].outer;
		if (at == PROFILE_NONE || key_of(x, caller) != key_of(x, at) ||
		    s[caller].times != s[at].times || s[caller].cycle != s[at].cycle)
			return false;
		if (s[at].times > 1 && i + s[at].cycle > cycle) /* it counts what is outside, too */
			return false;
		caller = s[caller].outer;
	}
	return true;
}

static void fold_node(const struct folding *x, uint32_t node, uint32_t kept)
{
	struct stack_state *s = x->states;
	uint32_t caller = x->p->stacks.nodes[node].parent, key = key_of(x, node), at = caller;
	struct stack_state new = {
		.outer = caller, .times = 1, .entries = 1, .cycle = 1, .depth = 1};
	if (caller != PROFILE_NONE) {
		new.entries = s[caller].entries + 1;
		new.depth = s[caller].depth + 1;
	}
	for (uint32_t cycle = 1; cycle <= LONGEST_CYCLE && at != PROFILE_NONE; cycle++) {
		if (key_of(x, at) == key && comes_again(x, caller, at, cycle)) {
			new.times = s[at].times + 1;
			new.cycle = cycle;
			new.outer = s[at].outer;
			new.entries = s[at].entries;
			break;
		}
		at = s[at].outer;
	}
	new.far = new.entries <= kept || new.outer == PROFILE_NONE ? node : s[new.outer].far;
	s[node] = new;
}

/* How deep the deepest stack is, at most `enough`. */
static int deepest(const struct profile *p, uint32_t enough, uint32_t *depth)
{
	uint16_t *depths = malloc(((size_t)p->stacks.node_count + 1) * sizeof *depths);
	*depth = 0;
	if (!depths)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->stacks.node_count && *depth < enough; i++) {
		uint32_t parent = p->stacks.nodes[i].parent;
		depths[i] = parent == PROFILE_NONE ? 1 : (uint16_t)(depths[parent] + 1);
		if (depths[i] > *depth)
			*depth = depths[i];
	}
	free(depths);
	return 0;
}

int stack_fold_init(struct stack_fold *f, const struct profile *p, enum stack_form form,
		    const uint32_t *keys)
{
	uint32_t depth = 0;
	*f = (struct stack_fold){.p = p, .form = form};
	if (form == STACK_WHOLE)
		return 0;
	if (deepest(p, STACK_MOST + 1, &depth) < 0)
		return HEFT_ENOMEM;
	if (depth <= STACK_MOST) {
		f->form = STACK_WHOLE;
		return 0;
	}
	struct stack_state *made = malloc((size_t)p->stacks.node_count * sizeof *made);
	if (!made)
		return HEFT_ENOMEM;
	struct folding x = {p, keys, made};
	for (uint32_t i = 0; i < p->stacks.node_count; i++)
		fold_node(&x, i, outer_kept(form));
	f->states = made;
	return 0;
}

void stack_fold_fini(struct stack_fold *f)
{
	free(f->states);
	*f = (struct stack_fold){0};
}

uint32_t stack_fold_depth(const struct stack_fold *f, uint32_t node)
{
	uint32_t depth = 0;
	if (f->form != STACK_WHOLE && node != PROFILE_NONE)
		return f->states[node].depth;
	for (; node != PROFILE_NONE; node = f->p->stacks.nodes[node].parent)
		depth++;
	return depth;
}

bool stack_fold_applies(const struct stack_fold *f, uint32_t node)
{
	if (f->form == STACK_WHOLE || node == PROFILE_NONE)
		return false;
	const struct stack_state *s = &f->states[node];
	if (f->form == STACK_LIST && s->depth <= STACK_MOST)
		return false;
	return s->entries < s->depth || s->entries > STACK_MOST;
}

void stack_walk_begin(struct stack_walk *w, const struct stack_fold *f, uint32_t node)
{
	*w = (struct stack_walk){.f = f, .next = node, .folded = stack_fold_applies(f, node)};
	w->cut = w->folded && f->states[node].entries > STACK_MOST;
}

bool stack_walk_next(struct stack_walk *w, struct stack_entry *entry)
{
	if (w->next == PROFILE_NONE)
		return false;
	*entry = (struct stack_entry){.node = w->next, .times = 1, .cycle = 1};
	if (!w->folded) {
		w->next = w->f->p->stacks.nodes[w->next].parent;
		return true;
	}
	const struct stack_state *all = w->f->states, *s = &all[w->next];
	entry->times = s->times;
	entry->cycle = s->cycle;
	if (s->times > 1 && w->listed + s->cycle > w->open)
		w->open = w->listed + s->cycle;
	w->listed++;
	w->next = s->outer;
	if (w->cut && w->listed >= inner_kept(w->f->form) && w->listed >= w->open &&
	    w->next != PROFILE_NONE) {
		uint32_t far = all[w->next].far;
		entry->cut = all[w->next].depth - all[far].depth;
		w->next = far;
		w->cut = false;
	}
	return true;
}
