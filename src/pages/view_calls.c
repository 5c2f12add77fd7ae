/* The tree of functions behind flame graphs.
 *
 * Stacks are added path by path into one array, a parent before its children, with a
 * hash table from (parent, function) to the child. From the allocation up, stacks have
 * little in common and the tree would be as large as all of them written out, so its
 * size is bounded: callers add the greatest stacks first, and what no longer fits is
 * counted in the node where it would have left the tree. Totals are exact in any case.
 *
 * Invariants: total = self + cut + the children's totals, in every node; a parent's
 * index is smaller than its children's. */
#include "pages/view_calls.h"

#include <stdlib.h>
#include <string.h>

/* ---- functions */

void view_functions_fini(struct view_functions *f)
{
	free(f->items);
	hash_index_fini(&f->index);
}

/* The function, made if it is not there. 0 or HEFT_ENOMEM. */
static int find_function(struct view_functions *f, const struct view_function *wanted, uint32_t *id)
{
	uint32_t hash = hash_bytes(wanted->function, strlen(wanted->function)) ^
			hash_number(hash_bytes(wanted->module, strlen(wanted->module)));
	uint32_t at = hash;
	while ((*id = hash_index_step(&f->index, hash, &at)) != HASH_NONE) {
		const struct view_function *x = &f->items[*id];
		if ((x->function == wanted->function ||
		     strcmp(x->function, wanted->function) == 0) &&
		    (x->module == wanted->module || strcmp(x->module, wanted->module) == 0))
			return 0;
	}
	if (!array_reserve(f->items, f->count, f->capacity, 1) ||
	    hash_index_add_at(&f->index, hash, at, f->count) < 0)
		return HEFT_ENOMEM;
	f->items[f->count] = *wanted;
	*id = f->count++;
	return 0;
}

static int add_function(struct view_functions *f, const struct profile *p, uint32_t frame,
			uint64_t weight, uint32_t *id)
{
	const struct profile_frame *x = &p->stacks.frames[frame];
	const char *module = x->module < p->stacks.module_count ? profile_module_name(p, x->module)
								: "";
	struct view_function wanted = {x->function, module, p, frame, weight, NULL};
	if (find_function(f, &wanted, id) < 0)
		return HEFT_ENOMEM;
	if (weight > f->items[*id].weight) {
		f->items[*id].p = p;
		f->items[*id].frame = frame;
		f->items[*id].weight = weight;
	}
	return 0;
}

/* What stands on stacks with each frame; recursion counts more than once. */
static uint64_t *frame_weights(const struct profile *p, const uint64_t *values)
{
	uint64_t *nodes = calloc((size_t)p->stacks.node_count + 1, sizeof *nodes);
	uint64_t *frames = calloc((size_t)p->stacks.frame_count + 1, sizeof *frames);
	if (!nodes || !frames) {
		free(nodes);
		free(frames);
		return NULL;
	}
	for (uint32_t i = 0; i < p->site_count; i++)
		if (p->sites[i].node != PROFILE_NONE)
			nodes[p->sites[i].node] += values[i];
	for (uint32_t i = p->stacks.node_count; i-- > 0;) {
		const struct profile_node *n = &p->stacks.nodes[i];
		frames[n->frame] += nodes[i];
		if (n->parent != PROFILE_NONE)
			nodes[n->parent] += nodes[i];
	}
	free(nodes);
	return frames;
}

int view_functions_add(struct view_functions *f, const struct profile *p, const uint64_t *values,
		       uint32_t **ids)
{
	uint64_t *weights = frame_weights(p, values);
	*ids = malloc(((size_t)p->stacks.frame_count + 1) * sizeof **ids);
	int rc = weights && *ids ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->stacks.frame_count && rc == 0; i++)
		rc = add_function(f, p, i, weights[i], &(*ids)[i]);
	free(weights);
	if (rc < 0) {
		free(*ids);
		*ids = NULL;
	}
	return rc;
}

int view_functions_add_process(struct view_functions *f, const struct profile_label_set *process,
			       uint32_t *id)
{
	const char *name = profile_find_label(process, PROFILE_LABEL_PROCESS)->text;
	static const char no_module[] = "\n"; /* that no function is in */
	struct view_function wanted = {
		.function = name, .module = no_module, .frame = PROFILE_NONE, .process = process};
	return find_function(f, &wanted, id);
}

/* ---- building */

int view_calls_init(struct view_calls *c, uint32_t most)
{
	*c = (struct view_calls){.most = most < 1u << 28 ? most + 1 : 1u << 28,
				 .outermost = PROFILE_NONE};
	if (!array_reserve(c->items, 0, c->capacity, 1))
		return HEFT_ENOMEM;
	c->items[c->count++] = (struct view_call){.parent = PROFILE_NONE, .function = PROFILE_NONE};
	return 0;
}

void view_calls_fini(struct view_calls *c)
{
	view_functions_fini(&c->functions);
	free(c->items);
	hash_index_fini(&c->index);
	vector_free(&c->path);
	free(c->reached);
	*c = (struct view_calls){0};
}

/* The child, made if there may be one more call: *child stays PROFILE_NONE if not. */
static int child_of(struct view_calls *c, uint32_t parent, uint32_t function, uint32_t *child)
{
	_Static_assert(HASH_NONE == PROFILE_NONE, "none is none");
	uint32_t hash = hash_pair(parent, function), at = hash;
	while ((*child = hash_index_step(&c->index, hash, &at)) != HASH_NONE)
		if (c->items[*child].parent == parent && c->items[*child].function == function)
			return 0;
	if (c->count >= c->most)
		return 0;
	if (!array_reserve(c->items, c->count, c->capacity, 1) ||
	    hash_index_add_at(&c->index, hash, at, c->count) < 0)
		return HEFT_ENOMEM;
	c->items[c->count] = (struct view_call){.parent = parent, .function = function};
	*child = c->count++;
	return 0;
}

/* From main down stacks have most of their way in common: where each node of the profile led to is
 * remembered, so that a stack costs no more than what is new of it. */
static int remember(struct view_calls *c, const struct profile *p)
{
	if (c->reached_of == p)
		return 0;
	free(c->reached);
	c->reached = calloc((size_t)p->stacks.node_count + 1, sizeof *c->reached);
	c->reached_of = c->reached ? p : NULL;
	/* Stacks that do not merge make a call for each node: memory for all of them at once saves the
	 * steps to get there. */
	uint32_t expected = p->stacks.node_count < c->most ? p->stacks.node_count : c->most;
	if (!c->reached || !array_reserve(c->items, c->count, c->capacity, expected))
		return HEFT_ENOMEM;
	return hash_index_reserve(&c->index, expected);
}

/* Goes from *at to the call that all stacks begin with, if there is one; *whole: there was room for it. */
static int enter_outermost(struct view_calls *c, uint32_t *at, bool *whole)
{
	uint32_t child;
	if (c->outermost == PROFILE_NONE)
		return 0;
	if (child_of(c, *at, c->outermost, &child) < 0)
		return HEFT_ENOMEM;
	*whole = child != PROFILE_NONE;
	if (*whole)
		*at = child;
	return 0;
}

int view_calls_add(struct view_calls *c, const struct profile *p, const uint32_t *ids,
		   uint32_t node, uint32_t end, bool inward, const struct view_amount *amount)
{
	uint32_t at = 0;
	size_t i = 0;
	/* Below different outermost calls a node is at different places. */
	bool known = inward && end == PROFILE_NONE && node != PROFILE_NONE &&
		     c->outermost == PROFILE_NONE;
	bool whole = true; /* nothing of it was cut for lack of room */
	if (known && remember(c, p) < 0)
		return HEFT_ENOMEM;
	c->path.count = 0;
	for (uint32_t n = node; n != end && n != PROFILE_NONE; n = p->stacks.nodes[n].parent) {
		if (known && c->reached[n]) {
			at = c->reached[n];
			break;
		}
		if (!vector_push(&c->path, n))
			return HEFT_ENOMEM;
	}
	if (node == PROFILE_NONE && !vector_push(&c->path, PROFILE_NONE))
		return HEFT_ENOMEM;
	if (inward && enter_outermost(c, &at, &whole) < 0)
		return HEFT_ENOMEM;
	for (; whole && i < c->path.count; i++) {
		uint32_t child, n = c->path.items[inward ? c->path.count - 1 - i : i];
		if (child_of(c, at, n == PROFILE_NONE ? n : ids[p->stacks.nodes[n].frame], &child) <
		    0)
			return HEFT_ENOMEM;
		whole = child != PROFILE_NONE;
		if (!whole)
			break;
		at = child;
		if (known)
			c->reached[n] = at;
	}
	if (!inward && whole && enter_outermost(c, &at, &whole) < 0)
		return HEFT_ENOMEM;
	struct view_call *x = &c->items[at];
	x->stacks++;
	x->total += amount->value;
	x->before += amount->before;
	x->lifetimes += amount->lifetimes;
	x->blocks += amount->blocks;
	if (whole) {
		x->self += amount->value;
	} else {
		x->cut += amount->value;
		x->cut_stacks++;
	}
	return 0;
}

void view_calls_settle(struct view_calls *c)
{
	for (uint32_t i = c->count; i-- > 1;) {
		struct view_call *x = &c->items[i], *up = &c->items[x->parent];
		up->total += x->total;
		up->before += x->before;
		up->stacks += x->stacks;
		up->lifetimes += x->lifetimes;
		up->blocks += x->blocks;
	}
}
