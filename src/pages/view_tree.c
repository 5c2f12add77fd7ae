/* The documents "tree" and "sandwich": call stacks of a selection as one tree.
 *
 * A sandwich is two trees around one function: of a stack, what lies outside its
 * outermost call of the function, and what lies inside. So every byte counts once,
 * recursion or not, and both trees add up to the same. */
#include "profile/folded_profile.h"
#include "pages/view_calls.h"
#include "pages/view_documents.h"
#include "pages/view_measure.h"
#include "pages/view_names.h"

#include <stdlib.h>
#include <string.h>

/* A tree from the allocation up has hardly a node in common between stacks: of this many the rest is
 * too small to be seen. */
enum { MOST_NODES = 2000000 };

struct stacks {
	const struct view_part *part;
	struct folded_profile folded;
	const struct profile *p; /* its deep stacks are folded */
	struct view_measure measure;
	uint64_t *values; /* by site */
	uint32_t *order;  /* sites that have any, greatest first */
	uint32_t count;
};

static int open_stacks(struct stacks *s, struct view_recording *r, const struct view_query *q,
		       enum view_extent extent, struct heft_error *err)
{
	*s = (struct stacks){0};
	int rc = view_recording_part(r, q, extent, &s->part, err);
	if (rc < 0)
		return rc;
	s->p = s->part->p;
	rc = view_measure_of(&s->measure, q, s->p, err);
	if (rc == 0 && folded_profile_init(&s->folded, s->p, q->invert) < 0)
		return heft_fail(err, HEFT_ENOMEM, "not enough memory for this tree");
	if (s->folded.view)
		s->p = s->folded.view;
	if (rc == 0 && (s->values = view_values(&s->measure, s->p)))
		s->order = call_rank_sites(s->p, s->values, &s->count);
	if (rc == 0 && !s->order)
		rc = heft_fail(err, HEFT_ENOMEM, "not enough memory for this tree");
	return rc;
}

static void close_stacks(struct stacks *s)
{
	free(s->values);
	free(s->order);
	folded_profile_fini(&s->folded);
	view_part_drop(s->part);
}

static struct call_amount amount_of(const struct stacks *s, uint32_t site)
{
	const struct profile_site *x = &s->p->sites[site];
	double blocks = (double)(x->frees + x->live_blocks);
	return (struct call_amount){.value = s->values[site],
				    .lifetimes = (double)x->lifetime.mean_ns * blocks,
				    .blocks = blocks};
}

static struct view_tree_shape shape_of(const struct stacks *s, const struct view_query *q)
{
	struct view_tree_shape shape = {.limit = q->limit,
					.unit = view_unit(&s->measure),
					.lifetimes = s->p->run.has & PROFILE_HAS_MEAN_LIFETIME};
	shape.has_error = view_error(&s->measure, s->p, PROFILE_NONE, &shape.error);
	return shape;
}

static int build_tree(struct call_tree *t, const struct stacks *s)
{
	struct call_stacks of;
	int rc = call_stacks_init(&of, t, s->p, s->values);
	for (uint32_t i = 0; i < s->count && rc == 0; i++) {
		struct call_amount amount = amount_of(s, s->order[i]);
		rc = call_tree_add_site(t, &of, s->order[i], &amount);
	}
	call_stacks_fini(&of);
	return rc == 0 ? call_tree_finish(t) : rc;
}

static int write_tree(struct json_writer *w, const struct stacks *s, const struct view_query *q,
		      struct heft_error *err)
{
	struct call_tree t;
	int rc = call_tree_init(&t, CALL_TREE_DETAILS | (q->invert ? CALL_TREE_INVERTED : 0),
				MOST_NODES);
	if (rc == 0)
		rc = build_tree(&t, s);
	if (rc < 0) {
		heft_fail(err, rc, "not enough memory for this tree");
	} else {
		struct view_tree_shape shape = shape_of(s, q);
		shape.root = q->root;
		rc = view_calls_write(&t, w, q, &shape, err);
	}
	call_tree_fini(&t);
	return rc;
}

int view_tree(FILE *out, struct view_recording *r, const struct view_query *q,
	      struct heft_error *err)
{
	struct stacks s;
	struct json_writer w;
	static const enum view_extent extents[] = {
		[VIEW_PROCESSES_MERGED] = VIEW_BY_PROCESS,
		[VIEW_PROCESSES_EACH] = VIEW_EACH_PROCESS,
		[VIEW_PROCESSES_NONE] = VIEW_NO_SIZES,
	};
	/* The root of a single one would say nothing. */
	enum view_extent extent = q->has_process ? VIEW_NO_SIZES : extents[q->processes];
	int rc = open_stacks(&s, r, q, extent, err);
	json_write_init(&w, out);
	if (rc == 0)
		rc = write_tree(&w, &s, q, err);
	close_stacks(&s);
	return rc;
}

/* ---- sandwich */

/* Names may have been cut on their way to the page. */
static bool is_called(const struct view_query *q, const char *name, const char *asked)
{
	struct view_name room;
	return strcmp(name, asked) == 0 || strcmp(view_cut(q, name, &room), asked) == 0;
}

static bool *frames_of_function(const struct profile *p, const struct view_query *q)
{
	bool *frames = calloc((size_t)p->stacks.frame_count + 1, sizeof *frames);
	for (uint32_t i = 0; frames && i < p->stacks.frame_count; i++) {
		const struct profile_frame *f = &p->stacks.frames[i];
		const char *module = f->module < p->stacks.module_count
					     ? profile_module_name(p, f->module)
					     : "";
		frames[i] = is_called(q, f->function, q->function) &&
			    (!q->module || is_called(q, module, q->module));
	}
	return frames;
}

/* One of the two trees. */
static int build_side(struct call_tree *t, const struct stacks *s, const bool *frames, bool callers)
{
	const struct profile *p = s->p;
	struct call_stacks of;
	int rc = call_stacks_init(&of, t, p, s->values);
	for (uint32_t i = 0; i < s->count && rc == 0; i++) {
		uint32_t node = p->sites[s->order[i]].node, outermost = PROFILE_NONE;
		for (uint32_t n = node; n != PROFILE_NONE; n = p->stacks.nodes[n].parent)
			if (frames[p->stacks.nodes[n].frame])
				outermost = n;
		if (outermost == PROFILE_NONE)
			continue;
		struct call_amount amount = amount_of(s, s->order[i]);
		rc = callers ? call_tree_add(t, &of, outermost, PROFILE_NONE, &amount)
			     : call_tree_add(t, &of, node, p->stacks.nodes[outermost].parent,
					     &amount);
	}
	call_stacks_fini(&of);
	return rc == 0 ? call_tree_finish(t) : rc;
}

static int write_side(struct json_writer *w, const struct stacks *s, const struct view_query *q,
		      const bool *frames, bool callers, struct heft_error *err)
{
	struct call_tree t;
	int rc = call_tree_init(&t, CALL_TREE_DETAILS | (callers ? CALL_TREE_INVERTED : 0),
				MOST_NODES);
	if (rc == 0)
		rc = build_side(&t, s, frames, callers);
	if (rc < 0) {
		heft_fail(err, rc, "not enough memory for this tree");
	} else {
		struct view_tree_shape shape = shape_of(s, q);
		shape.has_error = false; /* of everything, which this is not */
		/* The function itself is the root, unless several modules have one of that name. */
		shape.root = t.count > 1 && t.nodes[1].total == t.nodes[0].total ? "0" : NULL;
		json_write_key(w, callers ? "callers" : "callees");
		rc = view_calls_write(&t, w, q, &shape, err);
	}
	call_tree_fini(&t);
	return rc;
}

int view_sandwich(FILE *out, struct view_recording *r, const struct view_query *q,
		  struct heft_error *err)
{
	struct stacks s;
	struct json_writer w;
	bool *frames = NULL;
	if (!q->function)
		return heft_fail(err, HEFT_EUSAGE, "name a function with function=NAME");
	int rc = open_stacks(&s, r, q, VIEW_NO_SIZES, err);
	if (rc == 0 && !(frames = frames_of_function(s.p, q)))
		rc = heft_fail(err, HEFT_ENOMEM, "not enough memory for this tree");
	json_write_init(&w, out);
	if (rc == 0) {
		json_write_object(&w);
		rc = write_side(&w, &s, q, frames, true, err);
		if (rc == 0)
			rc = write_side(&w, &s, q, frames, false, err);
		json_write_object_end(&w);
	}
	free(frames);
	close_stacks(&s);
	return rc;
}
