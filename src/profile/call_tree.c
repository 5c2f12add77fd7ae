/* Stacks are added path by path into one array, with a hash table from (parent, function) to the child.
 *
 * From main down stacks have most of their way in common: where each node of the profile led to is
 * remembered, so that a stack costs no more than what is new of it. From the allocation up they have
 * little in common, and the tree would be as large as all of them written out. So its size can be
 * bounded: what no longer fits is counted in the node where it would have left the tree. Totals are
 * exact in any case.
 *
 * Invariants: a parent's index is smaller than its children's; in every node of a finished tree
 * total = self + cut + the children's totals. */
#include "profile/call_tree.h"

#include "profile/stack_fold.h"

#include <stdlib.h>

enum {
	MERGE_DEPTH = 256
}; /* levels up that are searched for a function: hostile stacks are endless */

static uint64_t sum(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

/* ---- building */

static int new_node(struct call_tree *t, uint32_t parent, uint32_t function)
{
	if (!array_reserve(t->nodes, t->count, t->capacity, 1))
		return HEFT_ENOMEM;
	if (t->options & CALL_TREE_DETAILS) {
		if (!array_reserve(t->details, t->count, t->detail_capacity, 1))
			return HEFT_ENOMEM;
		t->details[t->count] = (struct call_detail){0};
	}
	t->nodes[t->count++] = (struct call_node){.parent = parent, .function = function};
	return 0;
}

int call_tree_init(struct call_tree *t, unsigned options, uint32_t most)
{
	*t = (struct call_tree){.options = options,
				.most = most < CALL_TREE_ANY_SIZE ? most + 1 : CALL_TREE_ANY_SIZE,
				.outermost = PROFILE_NONE};
	return new_node(t, PROFILE_NONE, PROFILE_NONE);
}

void call_tree_fini(struct call_tree *t)
{
	call_functions_fini(&t->functions);
	hash_index_fini(&t->index);
	vector_free(&t->path);
	free(t->nodes);
	free(t->details);
	free(t->first);
	free(t->children);
	free(t->place);
	*t = (struct call_tree){0};
}

int call_stacks_init(struct call_stacks *s, struct call_tree *t, const struct profile *p,
		     const uint64_t *values)
{
	*s = (struct call_stacks){.p = p};
	int rc = t->options & CALL_TREE_PLACES
			 ? call_functions_add_places(&t->functions, p, &s->ids)
			 : call_functions_add(&t->functions, p, values, &s->ids);
	if (rc < 0 || !p->chosen.by_process)
		return rc;
	s->processes = malloc(((size_t)p->label_set_count + 1) * sizeof *s->processes);
	rc = s->processes ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->label_set_count && rc == 0; i++)
		rc = call_functions_add_process(&t->functions, &p->label_sets[i], &s->processes[i]);
	return rc;
}

void call_stacks_fini(struct call_stacks *s)
{
	free(s->ids);
	free(s->processes);
	free(s->reached);
	*s = (struct call_stacks){0};
}

/* The child, made if there may be one more: *child stays PROFILE_NONE if not. */
static int child_of(struct call_tree *t, uint32_t parent, uint32_t function, uint32_t *child)
{
	_Static_assert(HASH_NONE == PROFILE_NONE, "none is none");
	uint32_t hash = hash_pair(parent, function), at = hash;
	while ((*child = hash_index_step(&t->index, hash, &at)) != HASH_NONE)
		if (t->nodes[*child].parent == parent && t->nodes[*child].function == function)
			return 0;
	if (t->count >= t->most)
		return 0;
	if (hash_index_add_at(&t->index, hash, at, t->count) < 0 ||
	    new_node(t, parent, function) < 0)
		return HEFT_ENOMEM;
	*child = t->count - 1;
	return 0;
}

/* From `at` by one call: to the node of that function further up, or to a child. Names of one profile are
 * compared by their pointers. */
static int merge_into(struct call_tree *t, uint32_t at, uint32_t function, uint32_t *to)
{
	const struct call_function *items = t->functions.items, *f = &items[function];
	uint32_t up = at;
	for (int i = 0; i < MERGE_DEPTH && up; i++) {
		const struct call_function *g = &items[t->nodes[up].function];
		if (g->function == f->function && g->module == f->module) {
			t->nodes[up].recursive = true;
			*to = up;
			return 0;
		}
		up = t->nodes[up].parent;
	}
	return child_of(t, at, function, to);
}

static int remember(struct call_tree *t, struct call_stacks *s)
{
	uint32_t nodes = s->p->stacks.node_count;
	if (s->reached)
		return 0;
	s->reached = calloc((size_t)nodes + 1, sizeof *s->reached);
	/* Stacks that do not merge make a call for each node: memory for all of them at once saves the
	 * steps to get there. */
	uint32_t expected = nodes < t->most ? nodes : t->most;
	if (!s->reached)
		return HEFT_ENOMEM;
	if (t->options & (CALL_TREE_MERGED | CALL_TREE_USER))
		return 0;
	return array_reserve(t->nodes, t->count, t->capacity, expected)
		       ? hash_index_reserve(&t->index, expected)
		       : HEFT_ENOMEM;
}

/* What a stack leads to */
struct way {
	uint32_t at;       /* in the tree */
	bool cut;          /* it goes on, but not in this tree */
	uint32_t *reached; /* of its profile; NULL: it cannot be used */
};

int call_tree_enter(struct call_tree *t, uint32_t at, uint32_t function, bool merge, uint32_t *to)
{
	return (merge ? merge_into : child_of)(t, at, function, to);
}

static int enter(struct call_tree *t, struct way *w, uint32_t function, bool merge)
{
	uint32_t to;
	if (call_tree_enter(t, w->at, function, merge, &to) < 0)
		return HEFT_ENOMEM;
	w->cut = to == PROFILE_NONE;
	if (!w->cut)
		w->at = to;
	return 0;
}

/* Fills the path with the nodes that are not in the tree yet, innermost first. */
static int find_path(struct call_tree *t, const struct call_stacks *s, uint32_t node, uint32_t end,
		     struct way *w)
{
	const struct profile_node *nodes = s->p->stacks.nodes;
	const uint32_t *reached = w->reached;
	uint32_t *path = t->path.items;
	size_t count = 0;
	for (uint32_t n = node; n != end && n != PROFILE_NONE; n = nodes[n].parent) {
		if (reached && reached[n]) {
			w->at = reached[n] - 1;
			break;
		}
		if (count == t->path.capacity) {
			t->path.count = count;
			if (!vector_reserve(&t->path, 1))
				return HEFT_ENOMEM;
			path = t->path.items;
		}
		path[count++] = n;
	}
	t->path.count = count;
	return 0;
}

static int follow_path(struct call_tree *t, const struct call_stacks *s, struct way *w)
{
	const struct profile_node *nodes = s->p->stacks.nodes;
	const struct profile_frame *frames = t->options & CALL_TREE_USER ? s->p->stacks.frames
									 : NULL;
	const uint32_t *path = t->path.items, *ids = s->ids;
	uint32_t *reached = w->reached;
	size_t count = t->path.count;
	bool merge = t->options & CALL_TREE_MERGED;
	for (size_t i = count; i-- > 0;) {
		uint32_t n = path[i], frame = nodes[n].frame;
		if ((!frames || frames[frame].user) && enter(t, w, ids[frame], merge) < 0)
			return HEFT_ENOMEM;
		if (w->cut)
			return 0;
		if (reached)
			reached[n] = w->at + 1;
	}
	return 0;
}

/* From the allocation up nothing has to be turned around, and what is beyond the cut is not looked at. */
static int follow_up(struct call_tree *t, const struct call_stacks *s, uint32_t node, uint32_t end,
		     struct way *w)
{
	const struct profile_stacks *stacks = &s->p->stacks;
	bool user = t->options & CALL_TREE_USER, merge = t->options & CALL_TREE_MERGED;
	for (uint32_t n = node; n != end && n != PROFILE_NONE && !w->cut;
	     n = stacks->nodes[n].parent) {
		uint32_t frame = stacks->nodes[n].frame;
		if ((!user || stacks->frames[frame].user) && enter(t, w, s->ids[frame], merge) < 0)
			return HEFT_ENOMEM;
	}
	return 0;
}

/* Where a stack leads to, which is made as far as it is new. */
static int find_way(struct call_tree *t, struct call_stacks *s, uint32_t node, uint32_t end,
		    struct way *w)
{
	bool up = t->options & CALL_TREE_INVERTED, rooted = t->outermost != PROFILE_NONE;
	if (!up && !rooted && end == PROFILE_NONE) { /* else a node is at different places */
		if (remember(t, s) < 0)
			return HEFT_ENOMEM;
		w->reached = s->reached;
	}
	if (up ? follow_up(t, s, node, end, w) < 0
	       : find_path(t, s, node, end, w) < 0 ||
			    (rooted && enter(t, w, t->outermost, false) < 0) ||
			    (!w->cut && follow_path(t, s, w) < 0))
		return HEFT_ENOMEM;
	if (!w->cut && node == PROFILE_NONE && enter(t, w, PROFILE_NONE, false) < 0)
		return HEFT_ENOMEM;
	if (t->options & CALL_TREE_USER && !rooted && !w->cut && !w->at &&
	    enter(t, w, s->ids[s->p->stacks.nodes[node].frame], false) < 0)
		return HEFT_ENOMEM;
	return up && rooted && !w->cut ? enter(t, w, t->outermost, false) : 0;
}

int call_tree_add(struct call_tree *t, struct call_stacks *s, uint32_t node, uint32_t end,
		  const struct call_amount *amount)
{
	struct way w = {0};
	if (find_way(t, s, node, end, &w) < 0)
		return HEFT_ENOMEM;
	call_tree_add_at(t, w.at, w.cut, 1, amount);
	return 0;
}

void call_tree_add_at(struct call_tree *t, uint32_t at, bool cut, uint32_t stacks,
		      const struct call_amount *amount)
{
	struct call_node *n = &t->nodes[at];
	n->stacks += stacks;
	n->total = sum(n->total, amount->value);
	if (!cut)
		n->self = sum(n->self, amount->value);
	if (!t->details)
		return;
	struct call_detail *d = &t->details[at];
	d->before = sum(d->before, amount->before);
	d->lifetimes += amount->lifetimes;
	d->blocks += amount->blocks;
	d->spread += amount->spread;
	if (cut) {
		d->cut = sum(d->cut, amount->value);
		d->cut_stacks += stacks;
	}
}

uint32_t call_stacks_outermost(const struct call_stacks *s, uint32_t site)
{
	uint32_t labels = s->p->sites[site].labels;
	return s->processes && labels < s->p->label_set_count ? s->processes[labels] : PROFILE_NONE;
}

int call_tree_add_site(struct call_tree *t, struct call_stacks *s, uint32_t site,
		       const struct call_amount *amount)
{
	t->outermost = call_stacks_outermost(s, site);
	return call_tree_add(t, s, s->p->sites[site].node, PROFILE_NONE, amount);
}

/* ---- finishing */

static void add_up(struct call_tree *t)
{
	for (uint32_t i = t->count; i-- > 1;) {
		const struct call_node *n = &t->nodes[i];
		struct call_node *up = &t->nodes[n->parent];
		up->total = sum(up->total, n->total);
		up->stacks += n->stacks;
		if (!t->details)
			continue;
		const struct call_detail *d = &t->details[i];
		struct call_detail *above = &t->details[n->parent];
		above->before = sum(above->before, d->before);
		above->lifetimes += d->lifetimes;
		above->blocks += d->blocks;
		above->spread += d->spread;
	}
}

/* What nodes are ordered by: of a comparison it is what both sides have. */
static uint64_t size_of(const struct call_tree *t, uint32_t node)
{
	return sum(t->nodes[node].total, t->details ? t->details[node].before : 0);
}

int call_tree_greatest_first(const void *a, const void *b, void *tree)
{
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	uint64_t x = size_of(tree, i), y = size_of(tree, j);
	if (x != y)
		return x > y ? -1 : 1;
	return i < j ? -1 : i > j;
}

/* Most nodes have few children: a call of qsort for each would take longer than the sorting. */
static void sort_children(struct call_tree *t, uint32_t *list, uint32_t count)
{
	enum { FEW = 8 };
	if (count > FEW) {
		qsort_r(list, count, sizeof *list, call_tree_greatest_first, t);
		return;
	}
	for (uint32_t i = 1; i < count; i++) {
		uint32_t node = list[i], at = i;
		uint64_t size = size_of(t, node);
		for (; at && size_of(t, list[at - 1]) < size; at--)
			list[at] = list[at - 1];
		list[at] = node;
	}
}

int call_tree_finish(struct call_tree *t)
{
	size_t slots = (size_t)t->count + 2;
	hash_index_fini(&t->index);
	vector_free(&t->path);
	t->first = calloc(slots, sizeof *t->first);
	t->children = malloc(slots * sizeof *t->children);
	t->place = malloc(slots * sizeof *t->place);
	if (!t->first || !t->children || !t->place)
		return HEFT_ENOMEM;
	add_up(t);
	/* A counting sort by parent; first is shifted by one while it is filled, so that it ends up in
	 * place. */
	for (uint32_t i = 1; i < t->count; i++)
		t->first[t->nodes[i].parent + 2]++;
	for (uint32_t i = 2; i < t->count + 2; i++)
		t->first[i] += t->first[i - 1];
	for (uint32_t i = 1; i < t->count; i++)
		t->children[t->first[t->nodes[i].parent + 1]++] = i;
	for (uint32_t i = 0; i < t->count; i++)
		sort_children(t, t->children + t->first[i], t->first[i + 1] - t->first[i]);
	for (uint32_t i = 0; i + 1 < t->count; i++)
		t->place[t->children[i]] = i;
	return 0;
}

/* ---- all sites of a profile */

struct ranked {
	uint64_t value;
	uint32_t number;
};

static int by_value(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;
	if (x->value != y->value)
		return x->value > y->value ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

uint32_t *call_rank_sites(const struct profile *p, const uint64_t *values, uint32_t *count)
{
	struct ranked *list = malloc(((size_t)p->site_count + 1) * sizeof *list);
	uint32_t *order = malloc(((size_t)p->site_count + 1) * sizeof *order);
	bool in_order = true; /* sites are sorted by their peak: often they are ranked already */
	*count = 0;
	for (uint32_t i = 0; list && order && i < p->site_count; i++) {
		if (!values[i])
			continue;
		in_order &= !*count || list[*count - 1].value >= values[i];
		list[*count] = (struct ranked){values[i], i};
		order[(*count)++] = i;
	}
	if (!in_order)
		qsort(list, *count, sizeof *list, by_value);
	for (uint32_t i = 0; !in_order && i < *count; i++)
		order[i] = list[i].number;
	if (!list) {
		free(order);
		order = NULL;
	}
	free(list);
	return order;
}

int call_tree_of(struct call_tree *t, const struct profile *p, enum measure_id measure,
		 unsigned options)
{
	struct call_stacks s = {0};
	uint64_t *values = malloc(((size_t)p->site_count + 1) * sizeof *values);
	for (uint32_t i = 0; values && i < p->site_count; i++)
		values[i] = measure_of_stack(&p->sites[i], measure);
	uint32_t count, *order = values ? call_rank_sites(p, values, &count) : NULL;
	int rc = call_tree_init(t, options, CALL_TREE_ANY_SIZE);
	if (rc == 0)
		rc = order ? call_stacks_init(&s, t, p, values) : HEFT_ENOMEM;
	for (uint32_t i = 0; rc == 0 && i < count; i++) {
		struct call_amount amount = {.value = values[order[i]]};
		rc = call_tree_add_site(t, &s, order[i], &amount);
	}
	call_stacks_fini(&s);
	free(order);
	free(values);
	if (rc == 0)
		rc = call_tree_finish(t);
	if (rc < 0)
		call_tree_fini(t);
	return rc;
}

/* ---- reading */

const char *call_tree_name(const struct call_tree *t, uint32_t node)
{
	uint32_t function = t->nodes[node].function;
	if (function == PROFILE_NONE)
		return STACK_UNKNOWN;
	const char *name = t->functions.items[function].function;
	return *name ? name : "[no name]";
}

/* The size that has `most` others above it, of more than that: found digit by digit, since sorting
 * millions to show thousands takes longer than all the rest. */
static uint64_t smallest_kept(const struct call_tree *t, const bool *wanted, uint32_t most)
{
	enum { DIGIT = 11, DIGITS = 1 << DIGIT };
	uint64_t prefix = 0;
	for (int shift = 55; shift >= 0; shift -= DIGIT) {
		uint32_t counts[DIGITS] = {0};
		uint64_t above = 0;
		int digit = DIGITS;
		for (uint32_t i = 1; i < t->count; i++) {
			uint64_t size = size_of(t, i);
			if (wanted[i] && (shift == 55 || size >> (shift + DIGIT) == prefix))
				counts[size >> shift & (DIGITS - 1)]++;
		}
		while (digit-- > 1 && above + counts[digit] <= most)
			above += counts[digit];
		most -= (uint32_t)above;
		prefix = prefix << DIGIT | (uint64_t)digit;
	}
	return prefix;
}

bool *call_tree_keep(const struct call_tree *t, uint32_t root, uint32_t most, uint64_t least,
		     uint32_t *left_out)
{
	bool *kept = calloc((size_t)t->count + 1, sizeof *kept);
	uint32_t wide = 0, greater = 0;
	if (!kept)
		return NULL;
	kept[root] = true;
	for (uint32_t i = root + 1; i < t->count; i++)
		if (kept[t->nodes[i].parent] && size_of(t, i) >= least) {
			kept[i] = true;
			wide++;
		}
	kept[root] = false;
	*left_out = wide > most ? wide - most : 0;
	if (!*left_out)
		return kept;
	/* Everything greater than the smallest, and of that size the first ones. */
	uint64_t smallest = smallest_kept(t, kept, most);
	for (uint32_t i = root + 1; i < t->count; i++)
		greater += kept[i] && size_of(t, i) > smallest;
	for (uint32_t i = root + 1; i < t->count; i++) {
		if (!kept[i])
			continue;
		uint64_t size = size_of(t, i);
		kept[i] = size > smallest || (size == smallest && greater < most);
		greater += kept[i] && size == smallest;
	}
	return kept;
}

bool call_walk_step(struct call_walk *w)
{
	const struct call_tree *t = w->t;
	if (!w->begun) {
		w->begun = true;
		w->node = w->root;
		return true;
	}
	if (w->left && w->node == w->root)
		return false;
	uint32_t parent = w->left ? t->nodes[w->node].parent : w->node;
	uint32_t next = w->left ? t->place[w->node] + 1 : t->first[w->node];
	if (next < t->first[parent + 1] && (!w->kept || w->kept[t->children[next]])) {
		w->node = t->children[next];
		w->depth += !w->left;
		w->left = false;
		return true;
	}
	w->node = parent;
	w->depth -= w->left;
	w->left = true;
	w->rest = next;
	return true;
}
