/* Stacks merged into a tree of functions, for the formats that draw or list one number a stack.
 *
 * The model tells frames of one function apart by line; a flame graph does not. So every frame is
 * first given the frame that stands for its function (the first one in order of the names), and the
 * tree is built of those, as nodes of a scratch profile, which finds (parent, frame) again by hash.
 *
 * Invariants: parents stand before their children; total == self + the totals of the children;
 * the totals of the roots add up to the tree's. Sums saturate instead of wrapping: values are the
 * input's. */
#include "export/export_tree.h"

#include "export/export_names.h"
#include "hosted/vector.h"

#include <stdlib.h>
#include <string.h>

static uint64_t sum(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static int by_function(const void *a, const void *b, void *ctx)
{
	const struct profile *p = ctx;
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	const struct profile_frame *x = &p->stacks.frames[i], *y = &p->stacks.frames[j];
	int order = x->function == y->function ? 0 : strcmp(x->function, y->function);
	if (order)
		return order;
	if (x->module != y->module)
		return x->module < y->module ? -1 : 1;
	return i < j ? -1 : i > j;
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* Fills stands[frame]. */
static int group_frames(const struct profile *p, uint32_t *stands)
{
	uint32_t *order = malloc(((size_t)p->stacks.frame_count + 1) * sizeof *order);
	if (!order)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->stacks.frame_count; i++)
		order[i] = i;
	qsort_r(order, p->stacks.frame_count, sizeof *order, by_function, (void *)p);
	for (uint32_t i = 0; i < p->stacks.frame_count; i++) {
		const struct profile_frame *f = &p->stacks.frames[order[i]];
		const struct profile_frame *before = i ? &p->stacks.frames[order[i - 1]] : NULL;
		bool same = before && f->module == before->module &&
			    same_text(f->function, before->function);
		stands[order[i]] = same ? stands[order[i - 1]] : order[i];
	}
	free(order);
	return 0;
}

/* What is the same in all frames of a function that the tree has seen: a profile also has frames
 * of other stacks, those that free. */
static void note_frame(struct export_tree_function *g, const struct profile_frame *f)
{
	if (!g->seen)
		*g = (struct export_tree_function){f->file, f->line, f->inlined, true};
	if (!same_text(g->file, f->file))
		g->file = NULL;
	if (g->line != f->line || !g->file)
		g->line = 0;
	g->inlined &= f->inlined;
}

struct building {
	struct export_tree *t;
	struct profile *scratch;
	const uint32_t *stands;
	uint32_t capacity;
};

static int add_node(struct building *b, uint32_t parent, uint32_t frame, uint32_t *id)
{
	struct export_tree *t = b->t;
	if (!array_reserve(t->nodes, t->node_count, b->capacity, 1))
		return HEFT_ENOMEM;
	int rc = profile_add_node(b->scratch, parent, frame, 0, id);
	if (rc == 0 && *id == t->node_count)
		t->nodes[t->node_count++] = (struct export_tree_node){.parent = parent,
								      .frame = frame};
	return rc;
}

/* The node of one stack in a tree whose roots are the innermost frames. */
static int add_inverted(struct building *b, uint32_t node, uint32_t *id)
{
	const struct profile *p = b->t->p;
	int rc = 0;
	*id = PROFILE_NONE;
	if (node == PROFILE_NONE)
		return add_node(b, PROFILE_NONE, PROFILE_NONE, id);
	for (uint32_t n = node; n != PROFILE_NONE && rc == 0; n = p->stacks.nodes[n].parent) {
		uint32_t frame = p->stacks.nodes[n].frame, stand = b->stands[frame];
		note_frame(&b->t->functions[stand], &p->stacks.frames[frame]);
		rc = add_node(b, *id, stand, id);
	}
	return rc;
}

/* The same from the root: callers come before what they call, so each node of the profile is looked for
 * once, however many stacks it is on. */
static int add_stacks_from_root(struct building *b, enum measure_id measure)
{
	const struct profile *p = b->t->p;
	uint32_t *to = calloc((size_t)p->stacks.node_count + 1,
			      sizeof *to); /* 1: wanted; then the node */
	uint32_t unknown;
	int rc = to ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->site_count && rc == 0; i++)
		if (measure_of_stack(&p->sites[i], measure))
			for (uint32_t n = p->sites[i].node; n != PROFILE_NONE && !to[n];
			     n = p->stacks.nodes[n].parent)
				to[n] = 1;
	for (uint32_t i = 0; i < p->stacks.node_count && rc == 0; i++) {
		if (!to[i])
			continue;
		uint32_t parent = p->stacks.nodes[i].parent, frame = p->stacks.nodes[i].frame;
		uint32_t stand = b->stands[frame];
		note_frame(&b->t->functions[stand], &p->stacks.frames[frame]);
		rc = add_node(b, parent == PROFILE_NONE ? parent : to[parent], stand, &to[i]);
	}
	for (uint32_t i = 0; i < p->site_count && rc == 0; i++) {
		uint64_t value = measure_of_stack(&p->sites[i], measure);
		if (!value)
			continue;
		uint32_t node = p->sites[i].node;
		if (node == PROFILE_NONE)
			rc = add_node(b, PROFILE_NONE, PROFILE_NONE, &unknown);
		if (rc == 0) {
			struct export_tree_node *n =
				&b->t->nodes[node == PROFILE_NONE ? unknown : to[node]];
			n->self = sum(n->self, value);
		}
	}
	free(to);
	return rc;
}

static int add_sites(struct building *b, enum measure_id measure, bool invert)
{
	if (!invert)
		return add_stacks_from_root(b, measure);
	const struct profile *p = b->t->p;
	uint32_t id;
	int rc = 0;
	for (uint32_t i = 0; i < p->site_count && rc == 0; i++) {
		uint64_t value = measure_of_stack(&p->sites[i], measure);
		if (!value)
			continue;
		rc = add_inverted(b, p->sites[i].node, &id);
		if (rc == 0)
			b->t->nodes[id].self = sum(b->t->nodes[id].self, value);
	}
	return rc;
}

static int by_total(const void *a, const void *b, void *ctx)
{
	const struct export_tree *t = ctx;
	const uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	if (t->nodes[i].total != t->nodes[j].total)
		return t->nodes[i].total > t->nodes[j].total ? -1 : 1;
	int order = strcmp(export_tree_name(t, i), export_tree_name(t, j));
	return order ? order : i < j ? -1 : i > j;
}

/* Adds up and lists children: counting sort by parent, the roots in front. */
static int finish(struct export_tree *t)
{
	uint32_t at;
	t->children = malloc(((size_t)t->node_count + 1) * sizeof *t->children);
	if (!t->children)
		return HEFT_ENOMEM;
	for (uint32_t i = t->node_count; i-- > 0;) {
		struct export_tree_node *n = &t->nodes[i];
		n->total = sum(n->total, n->self);
		if (n->parent == PROFILE_NONE) {
			t->total = sum(t->total, n->total);
			t->root_count++;
		} else {
			t->nodes[n->parent].total = sum(t->nodes[n->parent].total, n->total);
			t->nodes[n->parent].count++;
		}
	}
	at = t->root_count;
	for (uint32_t i = 0; i < t->node_count; i++) {
		t->nodes[i].first = at;
		at += t->nodes[i].count;
		t->nodes[i].count = 0;
	}
	t->root_count = 0;
	for (uint32_t i = 0; i < t->node_count; i++) {
		uint32_t parent = t->nodes[i].parent;
		if (parent == PROFILE_NONE)
			t->children[t->root_count++] = i;
		else
			t->children[t->nodes[parent].first + t->nodes[parent].count++] = i;
	}
	qsort_r(t->children, t->root_count, sizeof *t->children, by_total, t);
	for (uint32_t i = 0; i < t->node_count; i++)
		if (t->nodes[i].count > 1)
			qsort_r(t->children + t->nodes[i].first, t->nodes[i].count,
				sizeof *t->children, by_total, t);
	return 0;
}

int export_tree_init(struct export_tree *t, const struct profile *p, enum measure_id measure,
		     bool invert, struct heft_error *err)
{
	uint32_t *stands = malloc(((size_t)p->stacks.frame_count + 1) * sizeof *stands);
	struct building b = {.t = t, .scratch = profile_new(), .stands = stands};
	int rc = HEFT_ENOMEM;
	*t = (struct export_tree){.p = p};
	t->functions = calloc((size_t)p->stacks.frame_count + 1, sizeof *t->functions);
	if (stands && b.scratch && t->functions)
		rc = group_frames(p, stands);
	if (rc == 0)
		rc = add_sites(&b, measure, invert);
	if (rc == 0)
		rc = finish(t);
	profile_free(b.scratch);
	free(stands);
	if (rc < 0) {
		export_tree_fini(t);
		return heft_fail(err, rc, "not enough memory for the tree of %u sites",
				 p->site_count);
	}
	return 0;
}

void export_tree_fini(struct export_tree *t)
{
	free(t->nodes);
	free(t->children);
	free(t->functions);
	*t = (struct export_tree){0};
}

const char *export_tree_name(const struct export_tree *t, uint32_t node)
{
	uint32_t frame = t->nodes[node].frame;
	if (frame == PROFILE_NONE)
		return EXPORT_UNKNOWN_STACK;
	const char *name = t->p->stacks.frames[frame].function;
	return *name ? name : "[no name]";
}
