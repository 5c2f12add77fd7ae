/* Callers that distinguish sites (site_callers.h). A list in which "node_new at node.c:12" stands five
 * times makes people open all five.
 *
 * Sites are grouped by how their first user frame reads, which is without template and call
 * arguments, since that is how lists show long names. A group is split by the next user frame
 * outward, its parts by the one after that, until each site stands alone or stacks end. What is shown
 * are the callers that made a difference, so no two texts of a group are the same but where nothing
 * tells the stacks apart. A line is shown only where callers of one function differ in nothing else,
 * and how deep a recursion is where that is all that differs.
 *
 * Stacks of hostile files may be endless: DEEPEST and MOST_REPEATS bound the work. */
#include "profile/site_callers.h"

#include "hosted/compare.h"
#include "hosted/name_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 64, MOST_REPEATS = 1000, MOST_SHOWN = 6, LONGEST_NAME = 120 };

struct shown_caller {
	uint32_t node, depth; /* depth 1 is the caller of the first user frame */
	uint32_t repeat;      /* to be shown if above 1 */
	bool line;
};

struct item {
	const struct profile *p;
	uint32_t position;
	uint32_t node; /* user frame of this level */
	bool library;  /* a stack without the user's code: its plumbing tells it apart */
	bool line;     /* a line is needed to tell it from its neighbour */
	bool times;    /* or how often it calls itself */
	/* How `node` reads, NULL: the stack has ended. */
	const char *function, *file, *module; /* in the pool */
	uint32_t line_number, repeat;
	struct shown_caller shown[MOST_SHOWN];
	uint32_t shown_count;
};

struct site_callers {
	struct name_pool *pool;
	const char **texts; /* by position */
	uint32_t count;
};

struct grouping {
	struct name_pool *pool;
	bool short_paths; /* builds of one program in different folders read the same */
	bool failed;
};

/* The next frame outward that counts; PROFILE_NONE: there is none. */
static uint32_t caller_of(const struct item *it, uint32_t node)
{
	const struct profile *p = it->p;
	for (node = p->stacks.nodes[node].parent; node != PROFILE_NONE;
	     node = p->stacks.nodes[node].parent) {
		const struct profile_frame *f = profile_node_frame(p, node);
		if (f->user || (it->library && f->plumbing))
			return node;
	}
	return PROFILE_NONE;
}

/* Equal paths are equal pointers. */
static const char *pooled_path(struct grouping *g, const char *path)
{
	const char *slash = path && g->short_paths ? strrchr(path, '/') : NULL;
	const char *kept = path ? name_pool_add(g->pool, slash ? slash + 1 : path) : NULL;
	g->failed |= path && !kept;
	return kept;
}

static void read_node(struct grouping *g, struct item *it)
{
	char text[WORDS_SHORT];
	const struct profile *p = it->p;
	it->function = it->file = it->module = NULL;
	it->line_number = it->repeat = 0;
	if (it->node == PROFILE_NONE)
		return;
	const struct profile_frame *f = profile_node_frame(p, it->node);
	it->function = name_pool_add(g->pool,
				     words_shorten(text, f->function) ? text : f->function);
	it->file = pooled_path(g, f->file);
	it->line_number = f->line;
	if (!f->file && f->module < p->stacks.module_count)
		it->module = pooled_path(g, p->stacks.modules[f->module].path);
	g->failed |= !it->function;
	/* Recursion is one caller: the last of it stands for all. */
	for (uint32_t n = it->node; n != PROFILE_NONE && it->repeat < MOST_REPEATS;
	     n = caller_of(it, n)) {
		if (p->stacks.nodes[n].frame != p->stacks.nodes[it->node].frame)
			break;
		it->node = n;
		it->repeat++;
	}
}

static void step_out(struct grouping *g, struct item *it)
{
	if (it->node != PROFILE_NONE)
		it->node = caller_of(it, it->node);
	read_node(g, it);
}

static int compare(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	return compare_numbers((uintptr_t)x->function, (uintptr_t)y->function)
		       ?: compare_numbers((uintptr_t)x->file, (uintptr_t)y->file)
		       ?: compare_numbers((uintptr_t)x->module, (uintptr_t)y->module)
		       ?: compare_numbers(x->line_number, y->line_number)
		       ?: compare_numbers(x->repeat, y->repeat)
		       ?: compare_numbers(x->position, y->position);
}

static bool reads_same(const struct item *x, const struct item *y)
{
	return x->function == y->function && x->file == y->file && x->module == y->module &&
	       x->line_number == y->line_number && x->repeat == y->repeat;
}

/* Splits items that read the same up to this level. */
static void split(struct grouping *g, struct item *items, uint32_t count, uint32_t depth)
{
	if (count < 2 || depth > DEEPEST || g->failed)
		return;
	bool ended = true;
	for (uint32_t i = 0; i < count; i++) {
		step_out(g, &items[i]);
		items[i].line = items[i].times = false;
		ended &= items[i].node == PROFILE_NONE;
	}
	if (ended || g->failed)
		return;
	qsort(items, count, sizeof *items, compare);
	bool parted = !reads_same(&items[0], &items[count - 1]);
	for (uint32_t i = 0; parted && i + 1 < count; i++) {
		struct item *x = &items[i], *y = &items[i + 1];
		if (x->function != y->function || x->file != y->file || x->module != y->module)
			continue;
		if (x->line_number != y->line_number)
			x->line = y->line = true;
		else if (x->repeat != y->repeat)
			x->times = y->times = true;
	}
	for (uint32_t i = 0; parted && i < count; i++) {
		struct item *it = &items[i];
		if (it->node == PROFILE_NONE)
			continue;
		/* If there are too many, the last one is kept: it splits this group. */
		if (it->shown_count < MOST_SHOWN)
			it->shown_count++;
		it->shown[it->shown_count - 1] = (struct shown_caller){
			it->node, depth, it->times ? it->repeat : 1, it->line};
	}
	for (uint32_t i = 0, next; i < count; i = next) {
		for (next = i + 1; next < count && reads_same(&items[i], &items[next]);)
			next++;
		split(g, items + i, next - i, depth + 1);
	}
}

static const char *text_of(struct grouping *g, const struct item *it)
{
	char text[MOST_SHOWN * (LONGEST_NAME + 32)], name[WORDS_SHORT], line[16], times[16];
	size_t used = 0;
	uint32_t before = 0;
	for (uint32_t i = 0; i < it->shown_count; i++) {
		const struct shown_caller *c = &it->shown[i];
		const struct profile_frame *f = profile_node_frame(it->p, c->node);
		line[0] = times[0] = 0;
		if (c->line && f->line)
			snprintf(line, sizeof line, ":%" PRIu32, f->line);
		if (c->repeat > 1)
			snprintf(times, sizeof times, " x%" PRIu32, c->repeat);
		int n = snprintf(text + used, sizeof text - used, "%s%s%.*s%s%s", i ? " < " : "",
				 c->depth > before + 1 ? "... < " : "", LONGEST_NAME,
				 words_shorten(name, f->function) ? name : f->function, line,
				 times);
		used += n < 0 ? 0 : (size_t)n;
		before = c->depth;
	}
	const char *kept = used ? name_pool_add_n(g->pool, text, used) : NULL;
	g->failed |= used && !kept;
	return kept;
}

struct site_callers *site_callers_new_among(const struct site_of *list, uint32_t count)
{
	struct site_callers *c = calloc(1, sizeof *c);
	struct item *items = calloc((size_t)count + 1, sizeof *items);
	struct grouping g = {0};
	uint32_t used = 0;
	if (c) {
		c->count = count;
		c->pool = g.pool = name_pool_new();
		c->texts = calloc((size_t)count + 1, sizeof *c->texts);
	}
	if (!c || !items || !c->pool || !c->texts) {
		free(items);
		site_callers_free(c);
		return NULL;
	}
	for (uint32_t i = 1; i < count; i++)
		g.short_paths |= list[i].p != list[0].p;
	for (uint32_t i = 0; i < count && !g.failed; i++) {
		const struct profile *p = list[i].p;
		uint32_t node = p->sites[list[i].site].node;
		if (node >= p->stacks.node_count)
			continue;
		struct item *it = &items[used++];
		it->p = p;
		it->position = i;
		it->node = profile_first_user_node(p, node);
		it->library = !profile_node_frame(p, it->node)->user;
		read_node(&g, it);
	}
	if (used)
		qsort(items, used, sizeof *items, compare);
	for (uint32_t i = 0, next; i < used; i = next) {
		for (next = i + 1; next < used && reads_same(&items[i], &items[next]);)
			next++;
		split(&g, items + i, next - i, 1);
	}
	for (uint32_t i = 0; i < used && !g.failed; i++)
		c->texts[items[i].position] = text_of(&g, &items[i]);
	free(items);
	if (g.failed) {
		site_callers_free(c);
		return NULL;
	}
	return c;
}

struct site_callers *site_callers_new(const struct profile *p, const uint32_t *sites,
				      uint32_t count)
{
	struct site_of *list = malloc(((size_t)count + 1) * sizeof *list);
	for (uint32_t i = 0; list && i < count; i++)
		list[i] = (struct site_of){p, sites[i]};
	struct site_callers *c = list ? site_callers_new_among(list, count) : NULL;
	free(list);
	return c;
}

void site_callers_free(struct site_callers *c)
{
	if (!c)
		return;
	name_pool_free(c->pool);
	free(c->texts);
	free(c);
}

const char *site_callers_text(const struct site_callers *c, uint32_t position)
{
	return c && position < c->count ? c->texts[position] : NULL;
}
