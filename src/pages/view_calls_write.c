/* A tree of calls as a document: the greatest nodes, what is left of each node's
 * children as one.
 *
 * A node is never greater than its parent, so the first N of all nodes by size (then
 * by index, a parent's being smaller) are a tree, and a node's shown children are the
 * first of its children: "the third child" means the same whatever the limit was.
 * That is how `root` names a node.
 *
 * Invariant: written nodes are in preorder, siblings greatest first. */
#include "pages/view_calls.h"

#include "pages/view_names.h"

#include <stdlib.h>

/* A node as it is written */
struct shown {
	uint32_t call;   /* PROFILE_NONE: smaller ones together */
	uint32_t parent; /* index of the shown one */
	uint32_t stacks;
	uint64_t self, total, before;
};

struct picture {
	const struct view_calls *c;
	const struct view_tree_shape *shape;
	uint32_t root;
	uint32_t *order; /* nodes that are shown, but for the root; greatest first */
	uint32_t kept_count, pruned;
	bool *below;                   /* the root: by node */
	bool *kept;                    /* by node */
	uint32_t *first, *last, *next; /* kept children, by node */
	struct shown *rest;            /* what is left of a node's children */
	struct shown *shown;
	uint32_t shown_count;
	uint32_t *frames, *frame_of; /* functions that are shown; their place there, by function */
	uint32_t frame_count;
};

struct ranked {
	uint64_t size;
	uint32_t node;
};

static uint64_t size_of(const struct view_call *x)
{
	return x->total + x->before;
}

static int greatest_first(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;
	if (x->size != y->size)
		return x->size > y->size ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

/* The nodes that `wanted` marks, greatest first. */
static uint32_t *rank(const struct view_calls *c, const bool *wanted, uint32_t *count)
{
	struct ranked *list = malloc(((size_t)c->count + 1) * sizeof *list);
	uint32_t *order = malloc(((size_t)c->count + 1) * sizeof *order);
	*count = 0;
	if (list && order) {
		for (uint32_t i = 1; i < c->count; i++)
			if (wanted[i])
				list[(*count)++] = (struct ranked){size_of(&c->items[i]), i};
		qsort(list, *count, sizeof *list, greatest_first);
		for (uint32_t i = 0; i < *count; i++)
			order[i] = list[i].node;
	} else {
		free(order);
		order = NULL;
	}
	free(list);
	return order;
}

/* The size that has `most` others above it, or 0: found digit by digit, since sorting millions to
 * show thousands takes longer than all the rest. */
static uint64_t smallest_shown(const struct view_calls *c, const bool *wanted, uint32_t most)
{
	enum { DIGIT = 11, DIGITS = 1 << DIGIT };
	uint64_t prefix = 0;
	for (int shift = 55; shift >= 0; shift -= DIGIT) {
		uint32_t counts[DIGITS] = {0};
		uint64_t above = 0;
		int digit = DIGITS;
		for (uint32_t i = 1; i < c->count; i++) {
			uint64_t size = size_of(&c->items[i]);
			if (wanted[i] && (shift == 55 || size >> (shift + DIGIT) == prefix))
				counts[size >> shift & (DIGITS - 1)]++;
		}
		while (digit-- > 0 && above + counts[digit] <= most)
			above += counts[digit];
		if (digit < 0) /* they are fewer */
			return 0;
		most -= (uint32_t)above;
		prefix = prefix << DIGIT | (uint64_t)digit;
	}
	return prefix;
}

/* The node that a path of places among siblings leads to. */
static int find_root(const struct view_calls *c, const char *path, uint32_t *root,
		     struct heft_error *err)
{
	bool *wanted = calloc((size_t)c->count + 1, sizeof *wanted);
	int rc = wanted ? 0 : heft_fail(err, HEFT_ENOMEM, "not enough memory for this tree");
	*root = 0;
	while (rc == 0 && path && *path) {
		char *end;
		unsigned long place = strtoul(path, &end, 10);
		uint32_t count = 0, *order = NULL;
		for (uint32_t i = 0; i < c->count; i++)
			wanted[i] = c->items[i].parent == *root;
		if (end != path && *path >= '0' && *path <= '9' && (!*end || *end == '.'))
			order = rank(c, wanted, &count);
		if (!order || place >= count)
			rc = heft_fail(err, HEFT_ENOTFOUND, "this tree has no such root");
		else
			*root = order[place];
		free(order);
		path = *end ? end + 1 : end;
	}
	free(wanted);
	return rc;
}

/* Marks what is shown: everything greater than the smallest, and of that size the first ones. */
static void keep_greatest(struct picture *v, uint64_t smallest)
{
	const struct view_calls *c = v->c;
	uint32_t greater = 0;
	for (uint32_t i = 1; i < c->count; i++) {
		v->kept[i] = v->below[i] && size_of(&c->items[i]) > smallest;
		greater += v->kept[i];
	}
	for (uint32_t i = 1; smallest && i < c->count && greater < v->shape->limit; i++)
		if (v->below[i] && size_of(&c->items[i]) == smallest) {
			v->kept[i] = true;
			greater++;
		}
}

static int choose(struct picture *v)
{
	const struct view_calls *c = v->c;
	v->kept = calloc((size_t)c->count + 1, sizeof *v->kept);
	v->below = calloc((size_t)c->count + 1, sizeof *v->below);
	if (!v->kept || !v->below)
		return HEFT_ENOMEM;
	v->below[v->root] = true;
	for (uint32_t i = v->root + 1; i < c->count; i++)
		v->below[i] = v->below[c->items[i].parent];
	v->below[v->root] = false;
	keep_greatest(v, smallest_shown(c, v->below, v->shape->limit));
	v->order = rank(c, v->kept, &v->kept_count);
	for (uint32_t i = 1; i < c->count; i++)
		v->pruned += v->below[i] && !v->kept[i] && size_of(&c->items[i]) > 0;
	return v->order ? 0 : HEFT_ENOMEM;
}

static void leave_out(struct shown *rest, uint32_t stacks, uint64_t total, uint64_t before)
{
	rest->stacks += stacks;
	rest->total += total;
	rest->before += before;
}

/* Children lists of the kept nodes, and what is left of each. */
static int link_children(struct picture *v)
{
	const struct view_calls *c = v->c;
	size_t room = (size_t)c->count + 1;
	v->first = malloc(room * sizeof *v->first);
	v->last = malloc(room * sizeof *v->last);
	v->next = malloc(room * sizeof *v->next);
	v->rest = calloc(room, sizeof *v->rest);
	if (!v->first || !v->last || !v->next || !v->rest)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < c->count; i++)
		v->first[i] = v->last[i] = v->next[i] = PROFILE_NONE;
	for (uint32_t i = 0; i < v->kept_count; i++) {
		uint32_t node = v->order[i], parent = c->items[node].parent;
		if (v->first[parent] == PROFILE_NONE)
			v->first[parent] = node;
		else
			v->next[v->last[parent]] = node;
		v->last[parent] = node;
	}
	for (uint32_t i = 1; i < c->count; i++) {
		const struct view_call *x = &c->items[i];
		if (v->below[i] && !v->kept[i] && (x->parent == v->root || v->kept[x->parent]))
			leave_out(&v->rest[x->parent], x->stacks, x->total, x->before);
	}
	for (uint32_t i = 0; i < c->count; i++)
		if (c->items[i].cut_stacks && (i == v->root || v->kept[i]))
			leave_out(&v->rest[i], c->items[i].cut_stacks, c->items[i].cut, 0);
	return 0;
}

static uint32_t show(struct picture *v, uint32_t node, uint32_t parent)
{
	const struct view_call *x = &v->c->items[node];
	v->shown[v->shown_count] = (struct shown){node,    parent,   x->stacks,
						  x->self, x->total, x->before};
	return v->shown_count++;
}

static void show_rest(struct picture *v, uint32_t node, uint32_t parent)
{
	struct shown rest = v->rest[node];
	if (!rest.total && !rest.before)
		return;
	rest.call = PROFILE_NONE;
	rest.parent = parent;
	rest.self = rest.total;
	v->shown[v->shown_count++] = rest;
}

/* Preorder without recursion: stacks are as deep as programs make them. `last` is no longer needed
 * for building and holds the shown index of each node. */
static int arrange(struct picture *v)
{
	v->shown = malloc(((size_t)v->kept_count * 2 + 4) * sizeof *v->shown);
	if (!v->shown)
		return HEFT_ENOMEM;
	uint32_t at = v->root;
	v->last[at] = show(v, at, PROFILE_NONE);
	for (;;) {
		uint32_t child = v->first[at];
		if (child != PROFILE_NONE) { /* down, and never again to this one */
			v->first[at] = v->next[child];
			v->last[child] = show(v, child, v->last[at]);
			at = child;
			continue;
		}
		show_rest(v, at, v->last[at]);
		if (at == v->root)
			return 0;
		at = v->c->items[at].parent;
	}
}

static int number_frames(struct picture *v)
{
	size_t room = (size_t)v->c->functions.count + 2;
	v->frames = malloc(room * sizeof *v->frames);
	v->frame_of = malloc(room * sizeof *v->frame_of);
	if (!v->frames || !v->frame_of)
		return HEFT_ENOMEM;
	for (size_t i = 0; i < room; i++)
		v->frame_of[i] = PROFILE_NONE;
	for (uint32_t i = 0; i < v->shown_count; i++) {
		uint32_t call = v->shown[i].call;
		if (call == PROFILE_NONE || call == 0)
			continue;
		/* The unknown stack is a frame too: behind all functions. */
		uint32_t f = v->c->items[call].function;
		uint32_t at = f == PROFILE_NONE ? v->c->functions.count : f;
		if (v->frame_of[at] == PROFILE_NONE) {
			v->frame_of[at] = v->frame_count;
			v->frames[v->frame_count++] = f;
		}
	}
	return 0;
}

/* ---- writing */

static int64_t frame_number(const struct picture *v, const struct shown *s)
{
	if (s->call == PROFILE_NONE || s->call == 0)
		return -1;
	uint32_t f = v->c->items[s->call].function;
	return v->frame_of[f == PROFILE_NONE ? v->c->functions.count : f];
}

static void write_frames(struct json_writer *w, const struct view_query *q, const struct picture *v)
{
	json_write_key(w, "frames");
	json_write_array(w);
	for (uint32_t i = 0; i < v->frame_count; i++) {
		uint32_t f = v->frames[i];
		const struct view_function *x = f == PROFILE_NONE ? NULL
								  : &v->c->functions.items[f];
		if (x && x->process)
			view_write_process(w, q, x->process);
		else
			view_write_frame(w, q, x ? x->p : NULL, x ? x->frame : PROFILE_NONE);
	}
	json_write_array_end(w);
}

enum column { COLUMN_PARENT, COLUMN_FRAME, COLUMN_TOTAL, COLUMN_SELF, COLUMN_OTHER, COLUMN_BEFORE };

static int64_t other_of(const struct picture *v, const struct shown *s)
{
	if (v->shape->compared)
		return (int64_t)(s->total - s->before);
	const struct view_call *x = s->call == PROFILE_NONE ? NULL : &v->c->items[s->call];
	return x && x->blocks > 0 ? (int64_t)(x->lifetimes / x->blocks) : 0;
}

static void write_column(struct json_writer *w, const char *key, const struct picture *v,
			 enum column column)
{
	json_write_key(w, key);
	json_write_array(w);
	for (uint32_t i = 0; i < v->shown_count; i++) {
		const struct shown *s = &v->shown[i];
		switch (column) {
		case COLUMN_PARENT:
			json_write_int(w, s->parent == PROFILE_NONE ? -1 : (int64_t)s->parent);
			break;
		case COLUMN_FRAME: json_write_int(w, frame_number(v, s)); break;
		case COLUMN_TOTAL: json_write_uint(w, s->total); break;
		case COLUMN_SELF: json_write_uint(w, s->self); break;
		case COLUMN_OTHER: json_write_int(w, other_of(v, s)); break;
		case COLUMN_BEFORE: json_write_uint(w, s->before); break;
		}
	}
	json_write_array_end(w);
}

static void write_smaller(struct json_writer *w, const struct picture *v)
{
	json_write_key(w, "smaller");
	json_write_array(w);
	for (uint32_t i = 0; i < v->shown_count; i++) {
		if (v->shown[i].call != PROFILE_NONE)
			continue;
		json_write_object(w);
		json_write_key_uint(w, "node", i);
		json_write_key_uint(w, "count", v->shown[i].stacks);
		json_write_object_end(w);
	}
	json_write_array_end(w);
}

static void write_picture(struct json_writer *w, const struct view_query *q,
			  const struct picture *v)
{
	json_write_object(w);
	write_frames(w, q, v);
	write_column(w, "parent", v, COLUMN_PARENT);
	write_column(w, "frame", v, COLUMN_FRAME);
	write_column(w, "total", v, COLUMN_TOTAL);
	write_column(w, "self", v, COLUMN_SELF);
	write_smaller(w, v);
	if (v->shape->lifetimes || v->shape->compared)
		write_column(w, "other", v, COLUMN_OTHER);
	json_write_key_string(w, "unit", v->shape->unit);
	json_write_key_uint(w, "sum", v->c->items[v->root].total);
	if (v->shape->has_error)
		json_write_key_uint(w, "error95", v->shape->error);
	json_write_key_uint(w, "prunedNodes", v->pruned);
	json_write_object_end(w);
	if (v->shape->compared)
		write_column(w, "before", v, COLUMN_BEFORE);
}

int view_calls_write(const struct view_calls *c, struct json_writer *w, const struct view_query *q,
		     const struct view_tree_shape *shape, struct heft_error *err)
{
	struct picture v = {.c = c, .shape = shape};
	int rc = find_root(c, shape->root, &v.root, err);
	if (rc < 0)
		return rc;
	rc = choose(&v);
	if (rc == 0)
		rc = link_children(&v);
	if (rc == 0)
		rc = arrange(&v);
	if (rc == 0)
		rc = number_frames(&v);
	if (rc == 0)
		write_picture(w, q, &v);
	else
		heft_fail(err, rc, "not enough memory for this tree");
	free(v.order);
	free(v.kept);
	free(v.below);
	free(v.first);
	free(v.last);
	free(v.next);
	free(v.rest);
	free(v.shown);
	free(v.frames);
	free(v.frame_of);
	return rc;
}
