/* The document "diff": two selections side by side, of two recordings or of two
 * moments of one. Stacks are matched as heft diff matches them (profile_diff.h); the
 * tree is of the new side with the old one's numbers beside, and has the stacks that
 * vanished with nothing.
 *
 * Each side has its own number (what is live at the peak against what is live at an
 * instant, say), as long as both are bytes or both are counts. */
#include "pages/view_calls.h"
#include "pages/view_documents.h"
#include "pages/view_measure.h"
#include "pages/view_names.h"

#include "profile/profile_diff.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_ROWS = 500, MOST_NODES = 1000000 };

struct side {
	const struct view_part *part;
	struct view_measure measure;
	uint64_t sum;
	uint64_t *values; /* by site */
	struct call_stacks stacks;
};

struct change {
	uint64_t a, b;
	uint32_t entry;
};

struct comparison {
	struct side a, b;
	struct profile_diff *diff;
	struct change *changes; /* of entries that have something on a side */
	uint32_t count;
};

static uint64_t side_value(const struct view_measure *m, const struct profile_diff_side *s)
{
	return m->buckets || measures[m->id].minus ? 0 : measure_of_site(&s->sums, m->id);
}

static int open_side(struct side *s, struct view_recording *r, const struct view_query *q,
		     struct heft_error *err)
{
	if (q->mode == VIEW_GREW || q->mode == VIEW_CHURN)
		return heft_fail(err, HEFT_EREFUSED,
				 "a comparison is of what is live or of what was allocated");
	int rc = view_recording_part(r, q, VIEW_NO_SIZES, &s->part, err);
	if (rc == 0)
		rc = view_measure_of(&s->measure, q, s->part->p, err);
	if (rc == 0 && !(s->values = view_values(&s->measure, s->part->p)))
		rc = heft_fail(err, HEFT_ENOMEM, "not enough memory for this comparison");
	if (rc == 0)
		s->sum = view_sum(&s->measure, s->part->p);
	return rc;
}

static void close_side(struct side *s)
{
	free(s->values);
	call_stacks_fini(&s->stacks);
	view_part_drop(s->part);
}

static uint64_t distance(const struct change *c)
{
	return c->a > c->b ? c->a - c->b : c->b - c->a;
}

static int furthest_first(const void *x, const void *y)
{
	const struct change *a = x, *b = y;
	uint64_t da = distance(a), db = distance(b);
	if (da != db)
		return da > db ? -1 : 1;
	return a->entry < b->entry ? -1 : a->entry > b->entry;
}

static int find_changes(struct comparison *c, struct heft_error *err)
{
	int rc = profile_diff_new(&c->diff, c->a.part->p, c->b.part->p, NULL, err);
	if (rc < 0)
		return rc;
	c->changes = malloc(((size_t)c->diff->count + 1) * sizeof *c->changes);
	if (!c->changes)
		return heft_fail(err, HEFT_ENOMEM, "not enough memory for this comparison");
	for (uint32_t i = 0; i < c->diff->count; i++) {
		const struct profile_diff_entry *e = &c->diff->entries[i];
		struct change x = {.entry = i};
		x.a = e->old.site == PROFILE_NONE ? 0 : side_value(&c->a.measure, &e->old);
		x.b = e->new.site == PROFILE_NONE ? 0 : side_value(&c->b.measure, &e->new);
		if (x.a || x.b)
			c->changes[c->count++] = x;
	}
	qsort(c->changes, c->count, sizeof *c->changes, furthest_first);
	return 0;
}

/* The profile and the site that show an entry's stack: the new side's, if it is there. */
static uint32_t stack_of(struct comparison *c, const struct change *x, struct side **side)
{
	const struct profile_diff_entry *e = &c->diff->entries[x->entry];
	bool new = e->new.site != PROFILE_NONE;
	*side = new ? &c->b : &c->a;
	return (*side)->part->p->sites[new ? e->new.site : e->old.site].node;
}

/* How far two estimates may be from the true change; 0 of exact numbers. */
static double error_of(const struct comparison *c, const struct change *x)
{
	const struct view_measure *m = &c->b.measure;
	return m->buckets ? 0 : profile_diff_error95(c->diff, &c->diff->entries[x->entry], m->id);
}

/* As heft diff has it: a hundredth of the total is noise. */
static enum profile_change kind_of(const struct comparison *c, const struct change *x)
{
	double larger = (double)(c->a.sum > c->b.sum ? c->a.sum : c->b.sum);
	double change = (double)distance(x);
	return change <= PROFILE_NOISE * larger ? PROFILE_SAME
	       : change <= error_of(c, x)       ? PROFILE_INSIGNIFICANT
	       : !x->a                          ? PROFILE_NEW
	       : !x->b                          ? PROFILE_VANISHED
	       : x->b > x->a                    ? PROFILE_GROWN
						: PROFILE_SHRUNK;
}

static void write_rows(struct json_writer *w, const struct view_query *q, struct comparison *c)
{
	json_write_key(w, "rows");
	json_write_array(w);
	for (uint32_t i = 0; i < c->count && i < MOST_ROWS; i++) {
		const struct change *x = &c->changes[i];
		struct side *side;
		uint32_t node = stack_of(c, x, &side);
		enum profile_change kind = kind_of(c, x);
		json_write_object(w);
		json_write_key_uint(w, "a", x->a);
		json_write_key_uint(w, "b", x->b);
		json_write_key_int(w, "change", (int64_t)(x->b - x->a));
		json_write_key_string(w, "kind", profile_change_name(kind));
		json_write_key_bool(w, "significant",
				    kind != PROFILE_SAME && kind != PROFILE_INSIGNIFICANT);
		json_write_key(w, "place");
		view_write_place(w, q, side->part->p, node);
		view_write_stack(w, q, side->part->p, "stack", node);
		json_write_object_end(w);
	}
	json_write_array_end(w);
}

static int build_tree(struct call_tree *t, struct comparison *c)
{
	int rc = call_stacks_init(&c->b.stacks, t, c->b.part->p, c->b.values);
	if (rc == 0)
		rc = call_stacks_init(&c->a.stacks, t, c->a.part->p, c->a.values);
	for (uint32_t i = 0; i < c->count && rc == 0; i++) {
		struct side *side;
		uint32_t node = stack_of(c, &c->changes[i], &side);
		struct call_amount amount = {.value = c->changes[i].b, .before = c->changes[i].a};
		rc = call_tree_add(t, &side->stacks, node, PROFILE_NONE, &amount);
	}
	return rc == 0 ? call_tree_finish(t) : rc;
}

static int write_tree(struct json_writer *w, const struct view_query *q, struct comparison *c,
		      struct heft_error *err)
{
	struct call_tree calls;
	struct view_tree_shape shape = {
		.limit = q->limit, .unit = view_unit(&c->b.measure), .compared = true};
	int rc = call_tree_init(&calls, CALL_TREE_DETAILS, MOST_NODES);
	if (rc == 0)
		rc = build_tree(&calls, c);
	if (rc < 0) {
		heft_fail(err, rc, "not enough memory for this comparison");
	} else {
		json_write_key(w, "tree");
		rc = view_calls_write(&calls, w, q, &shape, err);
	}
	call_tree_fini(&calls);
	return rc;
}

static void write_side(struct json_writer *w, const char *key, struct view_recording *r,
		       const struct side *s)
{
	json_write_key(w, key);
	json_write_object(w);
	json_write_key_string(w, "name", view_recording_name(r));
	json_write_key_uint(w, "sum", s->sum);
	json_write_object_end(w);
}

int view_diff(FILE *out, struct view_recording *a, const struct view_query *qa,
	      struct view_recording *b, const struct view_query *qb, struct heft_error *err)
{
	struct comparison c = {0};
	struct json_writer w;
	int rc = open_side(&c.a, a, qa, err);
	if (rc == 0)
		rc = open_side(&c.b, b, qb, err);
	if (rc == 0 && measures[c.a.measure.id].unit != measures[c.b.measure.id].unit)
		rc = heft_fail(err, HEFT_EUSAGE, "bytes cannot be compared with counts");
	if (rc == 0)
		rc = find_changes(&c, err);
	json_write_init(&w, out);
	if (rc == 0) {
		json_write_object(&w);
		json_write_key_string(&w, "unit", view_unit(&c.b.measure));
		write_side(&w, "a", a, &c.a);
		write_side(&w, "b", b, &c.b);
		write_rows(&w, qb, &c);
		rc = write_tree(&w, qb, &c, err);
		json_write_object_end(&w);
	}
	free(c.changes);
	profile_diff_free(c.diff);
	close_side(&c.a);
	close_side(&c.b);
	return rc;
}
