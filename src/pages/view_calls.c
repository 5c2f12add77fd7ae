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

static uint32_t spread(uint64_t h)
{
	h *= 0x9e3779b97f4a7c15u;
	h = (h ^ (h >> 29)) * 0xff51afd7ed558ccdu;
	return (uint32_t)(h >> 32);
}

static uint64_t hash_text(uint64_t h, const char *s)
{
	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3u;
	return h ^ 0xff;
}

/* ---- functions */

void view_functions_fini(struct view_functions *f)
{
	free(f->items);
	free(f->slots);
}

static uint32_t function_slot(const struct view_functions *f, const char *function,
			      const char *module)
{
	uint32_t at = spread(hash_text(hash_text(0xcbf29ce484222325u, function), module)) & f->mask;
	for (; f->slots[at]; at = (at + 1) & f->mask) {
		const struct view_function *x = &f->items[f->slots[at] - 1];
		if ((x->function == function || strcmp(x->function, function) == 0) &&
		    (x->module == module || strcmp(x->module, module) == 0))
			break;
	}
	return at;
}

static int grow_functions(struct view_functions *f)
{
	uint32_t capacity = f->capacity ? f->capacity * 2 : 256;
	if (capacity > UINT32_MAX / 4)
		return HEFT_ENOMEM;
	struct view_function *items = reallocarray(f->items, capacity, sizeof *items);
	if (!items)
		return HEFT_ENOMEM;
	f->items = items;
	uint32_t *slots = calloc((size_t)capacity * 2, sizeof *slots);
	if (!slots)
		return HEFT_ENOMEM;
	free(f->slots);
	f->slots = slots;
	f->capacity = capacity;
	f->mask = capacity * 2 - 1;
	for (uint32_t i = 0; i < f->count; i++)
		f->slots[function_slot(f, items[i].function, items[i].module)] = i + 1;
	return 0;
}

static int add_function(struct view_functions *f, const struct profile *p, uint32_t frame,
			uint64_t weight, uint32_t *id)
{
	const struct profile_frame *x = &p->frames[frame];
	const char *module = x->module < p->module_count ? profile_module_name(p, x->module) : "";
	if (f->count == f->capacity && grow_functions(f) < 0)
		return HEFT_ENOMEM;
	uint32_t at = function_slot(f, x->function, module);
	if (!f->slots[at]) {
		f->items[f->count++] =
			(struct view_function){x->function, module, p, frame, weight, NULL};
		f->slots[at] = f->count;
	}
	*id = f->slots[at] - 1;
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
	uint64_t *nodes = calloc((size_t)p->node_count + 1, sizeof *nodes);
	uint64_t *frames = calloc((size_t)p->frame_count + 1, sizeof *frames);
	if (!nodes || !frames) {
		free(nodes);
		free(frames);
		return NULL;
	}
	for (uint32_t i = 0; i < p->site_count; i++)
		if (p->sites[i].node != PROFILE_NONE)
			nodes[p->sites[i].node] += values[i];
	for (uint32_t i = p->node_count; i-- > 0;) {
		const struct profile_node *n = &p->nodes[i];
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
	*ids = malloc(((size_t)p->frame_count + 1) * sizeof **ids);
	int rc = weights && *ids ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->frame_count && rc == 0; i++)
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
	if (f->count == f->capacity && grow_functions(f) < 0)
		return HEFT_ENOMEM;
	uint32_t at = function_slot(f, name, no_module);
	if (!f->slots[at]) {
		f->items[f->count++] = (struct view_function){
			.function = name, .module = no_module, .frame = PROFILE_NONE, .process = process};
		f->slots[at] = f->count;
	}
	*id = f->slots[at] - 1;
	return 0;
}

/* ---- building */

enum { FIRST_CALLS = 1024 };

/* A slot has a part of the hash besides: calls of other hashes need not be looked at, and of a million
 * calls none is in the cache. */
static uint32_t call_slot(const struct view_calls *c, uint32_t parent, uint32_t function,
			  uint32_t *tag)
{
	uint64_t key = (uint64_t)parent << 32 | function;
	uint32_t hash = spread(key), at = hash & c->mask;
	*tag = hash ^ (uint32_t)(key * 0xff51afd7ed558ccdu >> 32);
	for (; c->slots[at].call; at = (at + 1) & c->mask) {
		if (c->slots[at].tag != *tag)
			continue;
		const struct view_call *x = &c->items[c->slots[at].call - 1];
		if (x->parent == parent && x->function == function)
			break;
	}
	return at;
}

static int grow_calls(struct view_calls *c, uint32_t capacity)
{
	struct view_call *items = reallocarray(c->items, capacity, sizeof *items);
	if (!items)
		return HEFT_ENOMEM;
	c->items = items;
	struct view_call_slot *slots = calloc((size_t)capacity * 2, sizeof *slots);
	if (!slots)
		return HEFT_ENOMEM;
	free(c->slots);
	c->slots = slots;
	c->capacity = capacity;
	c->mask = capacity * 2 - 1;
	for (uint32_t i = 1; i < c->count; i++) {
		uint32_t tag, at = call_slot(c, items[i].parent, items[i].function, &tag);
		c->slots[at] = (struct view_call_slot){i + 1, tag};
	}
	return 0;
}

int view_calls_init(struct view_calls *c, uint32_t most)
{
	*c = (struct view_calls){.most = most < 1u << 28 ? most + 1 : 1u << 28,
				 .outermost = PROFILE_NONE};
	if (grow_calls(c, FIRST_CALLS) < 0) {
		view_calls_fini(c);
		return HEFT_ENOMEM;
	}
	c->items[c->count++] = (struct view_call){.parent = PROFILE_NONE, .function = PROFILE_NONE};
	return 0;
}

void view_calls_fini(struct view_calls *c)
{
	view_functions_fini(&c->functions);
	free(c->items);
	free(c->slots);
	free(c->path);
	free(c->reached);
	*c = (struct view_calls){0};
}

/* The child, made if there is room: *child stays PROFILE_NONE if not. */
static int child_of(struct view_calls *c, uint32_t parent, uint32_t function, uint32_t *child)
{
	uint32_t tag, at = call_slot(c, parent, function, &tag);
	*child = PROFILE_NONE;
	if (!c->slots[at].call) {
		if (c->count >= c->most)
			return 0;
		if (c->count == c->capacity) {
			if (grow_calls(c, c->capacity * 2) < 0)
				return HEFT_ENOMEM;
			at = call_slot(c, parent, function, &tag);
		}
		c->items[c->count++] = (struct view_call){.parent = parent, .function = function};
		c->slots[at] = (struct view_call_slot){c->count, tag};
	}
	*child = c->slots[at].call - 1;
	return 0;
}

static int push(struct view_calls *c, uint32_t length, uint32_t node)
{
	if (length == c->path_capacity) {
		uint32_t capacity = length ? length * 2 : 256;
		uint32_t *path = reallocarray(c->path, capacity, sizeof *path);
		if (!path)
			return HEFT_ENOMEM;
		c->path = path;
		c->path_capacity = capacity;
	}
	c->path[length] = node;
	return 0;
}

/* From main down stacks have most of their way in common: where each node of the profile led to is
 * remembered, so that a stack costs no more than what is new of it. */
static int remember(struct view_calls *c, const struct profile *p)
{
	if (c->reached_of == p)
		return 0;
	/* Of stacks that do not merge there will be a call for each node: room for all of them at once
	 * saves the steps to get there. */
	uint32_t capacity = c->capacity, expected = p->node_count < c->most ? p->node_count : c->most;
	while (capacity <= expected)
		capacity *= 2;
	if (capacity > c->capacity && grow_calls(c, capacity) < 0)
		return HEFT_ENOMEM;
	free(c->reached);
	c->reached = calloc((size_t)p->node_count + 1, sizeof *c->reached);
	c->reached_of = c->reached ? p : NULL;
	return c->reached ? 0 : HEFT_ENOMEM;
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
	uint32_t length = 0, at = 0, i = 0;
	/* Below different outermost calls a node is at different places. */
	bool known = inward && end == PROFILE_NONE && node != PROFILE_NONE &&
		     c->outermost == PROFILE_NONE;
	bool whole = true; /* nothing of it was cut for lack of room */
	if (known && remember(c, p) < 0)
		return HEFT_ENOMEM;
	for (uint32_t n = node; n != end && n != PROFILE_NONE; n = p->nodes[n].parent) {
		if (known && c->reached[n]) {
			at = c->reached[n];
			break;
		}
		if (push(c, length++, n) < 0)
			return HEFT_ENOMEM;
	}
	if (node == PROFILE_NONE && push(c, length++, PROFILE_NONE) < 0)
		return HEFT_ENOMEM;
	if (inward && enter_outermost(c, &at, &whole) < 0)
		return HEFT_ENOMEM;
	for (; whole && i < length; i++) {
		uint32_t child, n = c->path[inward ? length - 1 - i : i];
		if (child_of(c, at, n == PROFILE_NONE ? n : ids[p->nodes[n].frame], &child) < 0)
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
