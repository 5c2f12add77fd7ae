/* A tree of calls as a document: the greatest nodes, what is left of each node's children as one.
 *
 * A node's shown children are the first of its children: "the third child" means the same whatever the
 * limit was. That is how `root` names a node.
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
	const struct call_tree *t;
	const struct view_tree_shape *shape;
	uint32_t root, pruned;
	VECTOR(struct shown) shown;
	uint32_t *frames, *frame_of; /* functions that are shown; their place there, by function */
	uint32_t frame_count;
};

/* The node that a path of places among siblings leads to. */
static int find_root(const struct call_tree *t, const char *path, uint32_t *root,
		     struct heft_error *err)
{
	*root = 0;
	while (path && *path) {
		char *end;
		unsigned long place = strtoul(path, &end, 10);
		uint32_t first = t->first[*root], count = t->first[*root + 1] - first;
		if (end == path || *path < '0' || *path > '9' || (*end && *end != '.') ||
		    place >= count)
			return heft_fail(err, HEFT_ENOTFOUND, "this tree has no such root");
		*root = t->children[first + place];
		path = *end ? end + 1 : end;
	}
	return 0;
}

/* What is not shown of a node's children, and of stacks that go on outside the tree. */
static struct shown rest_of(const struct call_walk *w)
{
	const struct call_tree *t = w->t;
	const struct call_detail *d = &t->details[w->node];
	struct shown rest = {.call = PROFILE_NONE, .stacks = d->cut_stacks, .total = d->cut};
	for (uint32_t i = w->rest; i < t->first[w->node + 1]; i++) {
		uint32_t child = t->children[i];
		rest.stacks += t->nodes[child].stacks;
		rest.total += t->nodes[child].total;
		rest.before += t->details[child].before;
	}
	rest.self = rest.total;
	return rest;
}

/* Lists what is shown. path: by depth, the shown index of the node that the walk is in. */
static int arrange(struct picture *v, const bool *kept)
{
	const struct call_tree *t = v->t;
	VECTOR(uint32_t) path = {0};
	struct call_walk w = {.t = t, .root = v->root, .kept = kept};
	bool enough = true;
	while (enough && call_walk_step(&w)) {
		const struct call_node *n = &t->nodes[w.node];
		struct shown next = {w.node,  PROFILE_NONE, n->stacks,
				     n->self, n->total,     t->details[w.node].before};
		uint32_t depth = w.depth + w.left;
		if (w.left) {
			next = rest_of(&w);
			if (!next.total && !next.before)
				continue;
		}
		path.count = depth;
		if (depth)
			next.parent = path.items[depth - 1];
		enough = vector_push(&path, (uint32_t)v->shown.count) &&
			 vector_push(&v->shown, next);
	}
	vector_free(&path);
	return enough ? 0 : HEFT_ENOMEM;
}

static int number_frames(struct picture *v)
{
	size_t slots = (size_t)v->t->functions.count + 2;
	v->frames = malloc(slots * sizeof *v->frames);
	v->frame_of = malloc(slots * sizeof *v->frame_of);
	if (!v->frames || !v->frame_of)
		return HEFT_ENOMEM;
	for (size_t i = 0; i < slots; i++)
		v->frame_of[i] = PROFILE_NONE;
	for (uint32_t i = 0; i < v->shown.count; i++) {
		uint32_t call = v->shown.items[i].call;
		if (call == PROFILE_NONE || call == 0)
			continue;
		/* The unknown stack is a frame too: behind all functions. */
		uint32_t f = v->t->nodes[call].function;
		uint32_t at = f == PROFILE_NONE ? v->t->functions.count : f;
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
	uint32_t f = v->t->nodes[s->call].function;
	return v->frame_of[f == PROFILE_NONE ? v->t->functions.count : f];
}

static void write_frames(struct json_writer *w, const struct view_query *q, const struct picture *v)
{
	json_write_key(w, "frames");
	json_write_array(w);
	for (uint32_t i = 0; i < v->frame_count; i++) {
		uint32_t f = v->frames[i];
		const struct call_function *x = f == PROFILE_NONE ? NULL
								  : &v->t->functions.items[f];
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
	const struct call_detail *x = s->call == PROFILE_NONE ? NULL : &v->t->details[s->call];
	return x && x->blocks > 0 ? (int64_t)(x->lifetimes / x->blocks) : 0;
}

static void write_column(struct json_writer *w, const char *key, const struct picture *v,
			 enum column column)
{
	json_write_key(w, key);
	json_write_array(w);
	for (uint32_t i = 0; i < v->shown.count; i++) {
		const struct shown *s = &v->shown.items[i];
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
	for (uint32_t i = 0; i < v->shown.count; i++) {
		if (v->shown.items[i].call != PROFILE_NONE)
			continue;
		json_write_object(w);
		json_write_key_uint(w, "node", i);
		json_write_key_uint(w, "count", v->shown.items[i].stacks);
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
	json_write_key_uint(w, "sum", v->t->nodes[v->root].total);
	if (v->shape->has_error)
		json_write_key_uint(w, "error95", v->shape->error);
	json_write_key_uint(w, "pruned_nodes", v->pruned);
	json_write_object_end(w);
	if (v->shape->compared)
		write_column(w, "before", v, COLUMN_BEFORE);
}

int view_calls_write(const struct call_tree *t, struct json_writer *w, const struct view_query *q,
		     const struct view_tree_shape *shape, struct heft_error *err)
{
	struct picture v = {.t = t, .shape = shape};
	int rc = find_root(t, shape->root, &v.root, err);
	if (rc < 0)
		return rc;
	bool *kept = call_tree_keep(t, v.root, shape->limit, 1, &v.pruned);
	rc = kept ? arrange(&v, kept) : HEFT_ENOMEM;
	if (rc == 0)
		rc = number_frames(&v);
	if (rc == 0)
		write_picture(w, q, &v);
	else
		heft_fail(err, rc, "not enough memory for this tree");
	free(kept);
	vector_free(&v.shown);
	free(v.frames);
	free(v.frame_of);
	return rc;
}
