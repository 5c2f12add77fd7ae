/* The tree of calls: from main down, or (inverted) from the allocating function up.
 *
 * Frames of the runtime are left out unless all are asked for: the tree of a Rust program would
 * begin with twelve levels of std::rt, and the inverted one with operator new. Their callees hang
 * from the user's frame further out. A stack without any frame of the user's keeps its innermost.
 *
 * Recursion is merged: a function that is already on the path does not open a new
 * level but goes on from where it was first met, so that a parser's tree is as deep
 * as its grammar and not as its input. Branches under 1 % are added up in one line.
 *
 * The tree is built as the nodes of a scratch profile, which already finds (parent,
 * frame) again by hash and keeps parents before children: one pass backwards then
 * adds every node to its parent. Printing uses its own stack, since the depth is
 * the input's. */
#include "report/report_parts.h"

#include "hosted/vector.h"
#include "profile/estimate.h"
#include "report/report_words.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FOLD_DEPTH = 256, PRUNE_PERCENT = 1, HEAD = 22, CALL_ROOM = 36, HEAD_ERROR = 12 };

struct sum {
	uint64_t value;
	double spread; /* of estimates: squares of 95 % errors, which add up as variances do */
	bool recursive;
};

struct tree {
	const struct profile *p;
	struct profile *nodes;   /* only its nodes are used; frames are p's */
	VECTOR(struct sum) sums; /* by node */
	uint64_t unknown;        /* of sites without a stack */
	double unknown_spread;
	uint32_t *first_child; /* into children, by node; [node_count] is for the roots */
	uint32_t *children;
};

/* Every node has its sums, and there are those of one more. */
static int reserve_sums(struct tree *t)
{
	while (t->sums.count <= t->nodes->stacks.node_count)
		if (!vector_add(&t->sums))
			return HEFT_ENOMEM;
	return 0;
}

/* From `at` by one call: to the node of that function further up if it is there, else to a child. */
static int step(struct tree *t, uint32_t at, uint32_t frame, uint32_t *to)
{
	const struct profile_frame *f = &t->p->stacks.frames[frame];
	uint32_t up = at;
	for (int i = 0; i < FOLD_DEPTH && up != PROFILE_NONE; i++) {
		const struct profile_frame *g =
			&t->p->stacks.frames[t->nodes->stacks.nodes[up].frame];
		if (g->function == f->function && g->module == f->module) {
			t->sums.items[up].recursive = true;
			*to = up;
			return 0;
		}
		up = t->nodes->stacks.nodes[up].parent;
	}
	if (reserve_sums(t) < 0)
		return HEFT_ENOMEM;
	return profile_add_node(t->nodes, at, frame, 0, to);
}

/* What a site adds to a node, or (PROFILE_NONE) to what has no stack; where it has no sample it adds no doubt either. */
static void add_site(struct tree *t, uint32_t node, uint32_t site, enum measure_id sort)
{
	uint64_t value = measure_of_site(&t->p->sites[site], sort);
	double error = value ? (double)measure_error95(t->p, site, sort) : 0;
	*(node == PROFILE_NONE ? &t->unknown : &t->sums.items[node].value) += value;
	*(node == PROFILE_NONE ? &t->unknown_spread : &t->sums.items[node].spread) += error * error;
}

static int build_down(struct tree *t, const struct report_options *o)
{
	const struct profile *p = t->p;
	uint32_t *map = malloc(((size_t)p->stacks.node_count + 1) * sizeof *map);
	int rc = map ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->stacks.node_count && rc == 0; i++) {
		const struct profile_node *n = &p->stacks.nodes[i];
		map[i] = n->parent == PROFILE_NONE ? PROFILE_NONE : map[n->parent];
		if (o->full || p->stacks.frames[n->frame].user)
			rc = step(t, map[i], n->frame, &map[i]);
	}
	for (uint32_t i = 0; i < p->site_count && rc == 0; i++) {
		const struct profile_site *s = &p->sites[i];
		uint32_t to = s->node == PROFILE_NONE ? PROFILE_NONE : map[s->node];
		if (s->node != PROFILE_NONE && to == PROFILE_NONE)
			rc = step(t, PROFILE_NONE, p->stacks.nodes[s->node].frame, &to);
		if (rc == 0)
			add_site(t, to, i, o->sort);
	}
	free(map);
	return rc;
}

/* Nodes whose stack out from there has a frame of the user's: all others show what they have. */
static bool *find_own(const struct profile *p, bool full)
{
	bool *own = malloc((size_t)p->stacks.node_count + 1);
	for (uint32_t i = 0; own && i < p->stacks.node_count; i++) {
		const struct profile_node *n = &p->stacks.nodes[i];
		own[i] = !full && (p->stacks.frames[n->frame].user ||
				   (n->parent != PROFILE_NONE && own[n->parent]));
	}
	return own;
}

static int build_up(struct tree *t, const struct report_options *o)
{
	const struct profile *p = t->p;
	bool *own = find_own(p, o->full);
	int rc = own ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->site_count && rc == 0; i++) {
		if (!measure_of_site(&p->sites[i], o->sort))
			continue;
		uint32_t at = PROFILE_NONE;
		for (uint32_t n = p->sites[i].node; n != PROFILE_NONE && rc == 0;
		     n = p->stacks.nodes[n].parent) {
			uint32_t frame = p->stacks.nodes[n].frame;
			if (o->full || p->stacks.frames[frame].user ||
			    (at == PROFILE_NONE && !own[n]))
				rc = step(t, at, frame, &at);
		}
		if (rc == 0)
			add_site(t, at, i, o->sort);
	}
	free(own);
	return rc;
}

static int by_value(const void *a, const void *b, void *ctx)
{
	const struct tree *t = ctx;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	if (t->sums.items[x].value != t->sums.items[y].value)
		return t->sums.items[x].value > t->sums.items[y].value ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* Adds values up to the roots and lists every node's children, greatest first. */
static int finish(struct tree *t)
{
	uint32_t count = t->nodes->stacks.node_count;
	t->first_child = calloc((size_t)count + 3, sizeof *t->first_child);
	t->children = malloc(((size_t)count + 1) * sizeof *t->children);
	if (!t->first_child || !t->children)
		return HEFT_ENOMEM;
	/* Counting sort by parent; the roots' parent is `count`. first_child is shifted by one
	 * while filling, so that it ends up in place. */
	uint32_t *first = t->first_child;
	for (uint32_t i = count; i-- > 0;) {
		uint32_t parent = t->nodes->stacks.nodes[i].parent;
		if (parent != PROFILE_NONE) {
			t->sums.items[parent].value += t->sums.items[i].value;
			t->sums.items[parent].spread += t->sums.items[i].spread;
		}
		first[(parent == PROFILE_NONE ? count : parent) + 2]++;
	}
	for (uint32_t i = 2; i < count + 3; i++)
		first[i] += first[i - 1];
	for (uint32_t i = 0; i < count; i++) {
		uint32_t parent = t->nodes->stacks.nodes[i].parent;
		t->children[first[(parent == PROFILE_NONE ? count : parent) + 1]++] = i;
	}
	for (uint32_t i = 0; i <= count; i++)
		if (first[i + 1] - first[i] > 1)
			qsort_r(t->children + first[i], first[i + 1] - first[i],
				sizeof *t->children, by_value, t);
	return 0;
}

/* Prints what stands before a call, and returns the columns that are left for it. */
static size_t print_head(FILE *out, const struct tree *t, uint64_t value, double spread,
			 uint64_t total, uint32_t depth, const struct report_options *o)
{
	size_t width = report_width(o), left = t->p->estimates.errors ? HEAD + HEAD_ERROR : HEAD;
	size_t deepest = width > left + CALL_ROOM ? (width - left - CALL_ROOM) / 2 : 0;
	fprintf(out, "%11s ", words_value(value, o->sort).text);
	if (t->p->estimates.errors)
		fprintf(out, "%*s ", HEAD_ERROR - 1,
			words_value(estimate_rounded(sqrt(spread)), o->sort).text);
	fprintf(out, "%8s  %*s", words_share(value, total).text,
		(int)(depth < deepest ? depth : deepest) * 2, "");
	left += 2 * (depth < deepest ? depth : deepest);
	if (depth > deepest)
		left += (size_t)fprintf(out, "[%" PRIu32 "] ", depth);
	return width > left ? width - left : 0;
}

struct level {
	uint32_t next, end; /* in children */
};

static int print_tree(FILE *out, struct tree *t, const struct report_options *o, uint64_t total)
{
	static const char recursive[] = " [recursive]";
	/* Paths only get shorter values downwards, so at most node_count levels. */
	VECTOR(struct level) levels = {0};
	uint32_t roots = t->nodes->stacks.node_count;
	if (!vector_push(&levels, (struct level){t->first_child[roots], t->first_child[roots + 1]}))
		return HEFT_ENOMEM;
	while (levels.count) {
		uint32_t depth = (uint32_t)levels.count;
		struct level *l = &levels.items[depth - 1];
		if (l->next == l->end) {
			levels.count--;
			continue;
		}
		uint32_t node = t->children[l->next];
		uint64_t value = t->sums.items[node].value;
		if ((double)value * 100 < (double)total * PRUNE_PERCENT) {
			uint64_t rest = 0;
			double spread = 0;
			uint32_t branches = 0;
			for (; l->next < l->end; l->next++) {
				rest += t->sums.items[t->children[l->next]].value;
				spread += t->sums.items[t->children[l->next]].spread;
				branches += t->sums.items[t->children[l->next]].value > 0;
			}
			if (branches) {
				print_head(out, t, rest, spread, total, depth - 1, o);
				words_style(out, o->color, STYLE_DIM);
				fprintf(out, "... %" PRIu32 " more, each under %d %%\n", branches,
					PRUNE_PERCENT);
				words_style(out, o->color, STYLE_PLAIN);
			}
			continue;
		}
		l->next++;
		size_t room = print_head(out, t, value, t->sums.items[node].spread, total,
					 depth - 1, o);
		const struct profile_frame *f =
			&t->p->stacks.frames[t->nodes->stacks.nodes[node].frame];
		if (!f->user)
			words_style(out, o->color, STYLE_DIM);
		size_t mark = t->sums.items[node].recursive ? sizeof recursive - 1 : 0;
		words_print_place(out, t->p, t->nodes->stacks.nodes[node].frame,
				  room > mark + 20 ? room - mark : 20);
		if (mark)
			fputs(recursive, out);
		words_style(out, o->color, STYLE_PLAIN);
		putc('\n', out);
		if (!vector_push(&levels,
				 (struct level){t->first_child[node], t->first_child[node + 1]})) {
			vector_free(&levels);
			return HEFT_ENOMEM;
		}
	}
	vector_free(&levels);
	return 0;
}

int report_tree(FILE *out, const struct profile *p, const struct report_options *o)
{
	struct tree t = {.p = p, .nodes = profile_new()};
	uint64_t total = 0;
	int rc = t.nodes ? reserve_sums(&t) : HEFT_ENOMEM;
	if (rc == 0)
		rc = o->invert ? build_up(&t, o) : build_down(&t, o);
	if (rc == 0)
		rc = finish(&t);
	for (uint32_t i = 0; i < p->site_count; i++)
		total += measure_of_site(&p->sites[i], o->sort);
	if (rc == 0) {
		char what[160];
		snprintf(what, sizeof what, "%s %s, %s", words_value(total, o->sort).text,
			 o->sort == MEASURE_LIVE_BYTES &&
					 (o->span == REPORT_INSTANT || profile_is_snapshot(p))
				 ? "live then"
				 : measures[o->sort].state,
			 o->invert ? "from the allocating function up"
				   : "from the outermost call down");
		report_print_title(out, p, o, what);
		report_print_span(out, p, o);
		report_print_shrunk(out, p, o);
		report_print_selection(out, o);
		report_print_warnings(out, p, o, false);
		fprintf(out, "%11s ", measures[o->sort].option);
		if (p->estimates.errors)
			fprintf(out, "%*s ", HEAD_ERROR - 1, "+-95 %");
		fprintf(out, "%8s  %s\n", "share", "call");
		rc = print_tree(out, &t, o, total);
		if (t.unknown) {
			print_head(out, &t, t.unknown, t.unknown_spread, total, 0, o);
			fputs("[stack unknown]\n", out);
		}
	}
	if (rc == 0 && !o->invert)
		report_print_next(out, o, "--invert", "the same from the allocating functions up");
	else if (rc == 0)
		report_print_next(out, o, o->full ? "--tree" : "--invert --full",
				  o->full ? "the same from the outermost call down"
					  : "with the frames of the runtime");
	profile_free(t.nodes);
	vector_free(&t.sums);
	free(t.first_child);
	free(t.children);
	return rc;
}
