/* The tree of calls: from main down, or (inverted) from the allocating function up.
 *
 * Frames of the runtime are left out unless all are asked for: the tree of a Rust program would
 * begin with twelve levels of std::rt, and the inverted one with operator new. Their callees hang
 * from the user's frame further out. Recursion is merged (call_tree.h). Branches under 1 % are added
 * up in one line. */
#include "report/report_parts.h"

#include "profile/call_tree.h"
#include "profile/estimate.h"
#include "profile/stack_fold.h"
#include "report/report_words.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { PRUNE_PERCENT = 1, HEAD = 22, CALL_ROOM = 36, HEAD_ERROR = 12 };

struct tree {
	const struct profile *p;
	struct call_tree calls;
	uint64_t total;
	uint64_t unknown; /* of sites without a stack */
	double unknown_spread;
};

static double spread_of(const struct profile *p, uint32_t site, enum measure_id sort)
{
	double error = (double)measure_error95(p, site, sort);
	return error * error;
}

/* The number of each site. Sites without a stack, and without a process to stand below, are added up here
 * and get 0: they are not in the tree. */
static uint64_t *take_values(struct tree *t, enum measure_id sort)
{
	const struct profile *p = t->p;
	uint64_t *values = malloc(((size_t)p->site_count + 1) * sizeof *values);
	for (uint32_t i = 0; values && i < p->site_count; i++) {
		values[i] = measure_of_site(&p->sites[i], sort);
		t->total += values[i];
		if (p->sites[i].node != PROFILE_NONE || !values[i] || p->chosen.by_process)
			continue;
		t->unknown += values[i];
		t->unknown_spread += spread_of(p, i, sort);
		values[i] = 0;
	}
	return values;
}

/* What is shown of a tree */
static uint64_t least_of(const struct tree *t)
{
	return t->total / 100 * PRUNE_PERCENT + (t->total % 100 != 0);
}

/* From the allocation up only what is shown is made, because the rest may be gigabytes. */
static int add_sites(struct tree *t, struct call_stacks *s, const uint32_t *order, uint32_t count,
		     const uint64_t *values, const struct report_options *o)
{
	struct call_amount *amounts = malloc(((size_t)count + 1) * sizeof *amounts);
	int rc = amounts ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; rc == 0 && i < count; i++) {
		amounts[i] = (struct call_amount){.value = values[order[i]],
						  .spread = spread_of(t->p, order[i], o->sort)};
		if (!o->invert)
			rc = call_tree_add_site(&t->calls, s, order[i], &amounts[i]);
	}
	if (rc == 0 && o->invert)
		rc = call_tree_add_upwards(&t->calls, s, order, amounts, count, least_of(t));
	free(amounts);
	return rc;
}

static int build(struct tree *t, const struct report_options *o)
{
	struct call_stacks s = {0};
	uint64_t *values = take_values(t, o->sort);
	uint32_t count = 0, *order = values ? call_rank_sites(t->p, values, &count) : NULL;
	unsigned options = CALL_TREE_PLACES | CALL_TREE_MERGED | CALL_TREE_DETAILS |
			   (o->invert ? CALL_TREE_INVERTED : 0) | (o->full ? 0 : CALL_TREE_USER);
	int rc = call_tree_init(&t->calls, options, CALL_TREE_ANY_SIZE);
	if (rc == 0)
		rc = order ? call_stacks_init(&s, &t->calls, t->p, values) : HEFT_ENOMEM;
	if (rc == 0)
		rc = add_sites(t, &s, order, count, values, o);
	call_stacks_fini(&s);
	free(order);
	free(values);
	return rc == 0 ? call_tree_finish(&t->calls) : rc;
}

/* Prints what stands before a call, and returns the columns that are left for it. */
static size_t print_head(FILE *out, const struct tree *t, uint64_t value, double spread,
			 uint32_t depth, const struct report_options *o)
{
	size_t width = report_width(o), left = t->p->estimates.errors ? HEAD + HEAD_ERROR : HEAD;
	size_t deepest = width > left + CALL_ROOM ? (width - left - CALL_ROOM) / 2 : 0;
	fprintf(out, "%11s ", words_value(value, o->sort).text);
	if (t->p->estimates.errors)
		fprintf(out, "%*s ", HEAD_ERROR - 1,
			words_value(estimate_rounded(sqrt(spread)), o->sort).text);
	fprintf(out, "%8s  %*s", words_share(value, t->total).text,
		(int)(depth < deepest ? depth : deepest) * 2, "");
	left += 2 * (depth < deepest ? depth : deepest);
	if (depth > deepest)
		left += (size_t)fprintf(out, "[%" PRIu32 "] ", depth);
	return width > left ? width - left : 0;
}

static void print_call(FILE *out, const struct tree *t, const struct call_walk *w,
		       const struct report_options *o)
{
	static const char recursive[] = " [recursive]";
	const struct call_node *n = &t->calls.nodes[w->node];
	uint32_t frame = n->function == PROFILE_NONE ? PROFILE_NONE
						     : t->calls.functions.items[n->function].frame;
	size_t columns = print_head(out, t, n->total, t->calls.details[w->node].spread,
				    w->depth - 1, o);
	size_t mark = n->recursive ? sizeof recursive - 1 : 0;
	columns = columns > mark + 20 ? columns - mark : 20;
	if (frame != PROFILE_NONE && !t->p->stacks.frames[frame].user)
		words_style(out, o->color, STYLE_DIM);
	if (frame != PROFILE_NONE)
		words_print_place(out, t->p, frame, columns);
	else /* a process, or what is not known */
		words_print_function(out, call_tree_name(&t->calls, w->node), columns);
	if (mark)
		fputs(recursive, out);
	words_style(out, o->color, STYLE_PLAIN);
	putc('\n', out);
}

/* What is too small of the calls that a node makes. */
static void print_rest(FILE *out, const struct tree *t, const struct call_walk *w,
		       const struct report_options *o)
{
	const struct call_tree *c = &t->calls;
	uint64_t rest = 0;
	double spread = 0;
	uint32_t branches = 0;
	for (uint32_t i = w->rest; i < c->first[w->node + 1]; i++) {
		uint64_t value = c->nodes[c->children[i]].total;
		rest += value;
		spread += c->details[c->children[i]].spread;
		branches += value > 0; /* what recursion led away from has nothing */
	}
	if (!branches)
		return;
	print_head(out, t, rest, spread, w->depth, o);
	words_style(out, o->color, STYLE_DIM);
	fprintf(out, "... %" PRIu32 " more, each under %d %%\n", branches, PRUNE_PERCENT);
	words_style(out, o->color, STYLE_PLAIN);
}

static int print_tree(FILE *out, const struct tree *t, const struct report_options *o)
{
	uint32_t others;
	bool *kept = call_tree_keep(&t->calls, 0, CALL_TREE_ANY_SIZE, least_of(t), &others);
	struct call_walk w = {.t = &t->calls, .kept = kept};
	while (kept && call_walk_step(&w)) {
		if (w.left)
			print_rest(out, t, &w, o);
		else if (w.node)
			print_call(out, t, &w, o);
	}
	free(kept);
	return kept ? 0 : HEFT_ENOMEM;
}

int report_tree(FILE *out, const struct profile *p, const struct report_options *o)
{
	struct tree t = {.p = p};
	int rc = build(&t, o);
	if (rc == 0) {
		char what[160];
		snprintf(what, sizeof what, "%s %s, %s", words_value(t.total, o->sort).text,
			 o->sort == MEASURE_LIVE_BYTES &&
					 (o->span == REPORT_INSTANT || profile_is_snapshot(p))
				 ? "live"
				 : measures[o->sort].state,
			 o->invert ? "from the allocating function up"
				   : "from the outermost call down");
		report_print_title(out, p, o, what);
		report_print_span(out, p, o);
		report_print_shrunk(out, p, o);
		report_print_selection(out, o);
		report_print_warnings(out, p, o);
		fprintf(out, "%11s ", measures[o->sort].option);
		if (p->estimates.errors)
			fprintf(out, "%*s ", HEAD_ERROR - 1, "+-95 %");
		fprintf(out, "%8s  %s\n", "share", "call");
		rc = print_tree(out, &t, o);
		if (t.unknown) {
			print_head(out, &t, t.unknown, t.unknown_spread, 0, o);
			fputs(STACK_UNKNOWN "\n", out);
		}
	}
	if (rc == 0 && !o->invert)
		report_print_next(out, o, "--invert", "the same from the allocating functions up");
	else if (rc == 0)
		report_print_next(out, o, o->full ? "--tree" : "--invert --full",
				  o->full ? "the same from the outermost call down"
					  : "with the frames of the runtime");
	call_tree_fini(&t.calls);
	return rc;
}
