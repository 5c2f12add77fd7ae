/* Who allocates and who frees: a table of threads, and for frees that cross threads a matrix of
 * allocating and freeing threads.
 *
 * Programs have three threads or three thousand. Up to a dozen are shown one by one. More are grouped
 * by name without its numbers (worker-1 to worker-64 are "worker-*"). The main thread, which often has
 * the name of those it starts, stays apart. What does not fit is added up as others, so that the sums
 * are always right.
 *
 * Frees by the thread itself are not recorded as hand-overs: they are what a thread freed minus
 * what was handed to it. */
#include "report/report_parts.h"

#include "hosted/compare.h"
#include "profile/process_images.h"
#include "report/report_words.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	APART = 12,     /* up to so many threads are shown one by one */
	NAME_SIZE = 32, /* of a pattern; the kernel's names have 15 bytes */
	CELL = 11,
	WIDEST_NAME = 22,
	NARROWEST_NAME = 12,
	MATRIX_MOST = 12
};

struct group {
	const char *name; /* the pattern, or the only member's name */
	uint32_t first;   /* a member */
	uint32_t members;
	uint64_t allocations, allocated_bytes, frees;
	uint64_t given, taken; /* frees of its blocks by others; its frees of others' blocks */
};

struct census {
	const struct profile *p;
	struct group *groups;
	uint32_t count;
	uint32_t *group_of;          /* by thread */
	uint64_t *given, *taken;     /* by thread */
	char (*patterns)[NAME_SIZE]; /* by thread */
	uint32_t *order;
	uint32_t threads;
	bool lost; /* some hand-overs name no thread */
};

static void make_pattern(char *out, const char *name)
{
	size_t used = 0;
	while (*name && used + 2 < NAME_SIZE) {
		if (!isdigit((unsigned char)*name)) {
			out[used++] = *name++;
			continue;
		}
		out[used++] = '*';
		while (isdigit((unsigned char)*name))
			name++;
	}
	out[used] = 0;
}

static bool is_main(const struct profile_thread *t)
{
	return t->tid == t->pid;
}

static int compare_kinds(const struct census *c, uint32_t x, uint32_t y)
{
	bool first = is_main(&c->p->threads[x]), second = is_main(&c->p->threads[y]);
	return first != second ? (first ? -1 : 1) : strcmp(c->patterns[x], c->patterns[y]);
}

static int by_pattern(const void *a, const void *b, void *ctx)
{
	const struct census *c = ctx;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	int order = compare_kinds(c, x, y);
	return order ? order : x < y ? -1 : x > y;
}

static int most_first(const void *a, const void *b)
{
	const struct group *x = a, *y = b;
	return compare_numbers(y->allocations + y->frees, x->allocations + x->frees)
		       ?: compare_numbers(x->first, y->first);
}

static void add_to_group(struct group *g, const struct group *more)
{
	g->members += more->members;
	g->allocations += more->allocations;
	g->allocated_bytes += more->allocated_bytes;
	g->frees += more->frees;
	g->given += more->given;
	g->taken += more->taken;
}

static void count_handovers(struct census *c)
{
	const struct profile *p = c->p;
	for (uint32_t i = 0; i < p->behaviour.handover_threads_count; i++) {
		const struct profile_handover_threads *h = &p->behaviour.handover_threads[i];
		if (h->from < p->thread_count)
			c->given[h->from] += h->frees;
		if (h->to < p->thread_count)
			c->taken[h->to] += h->frees;
		c->lost |= h->from >= p->thread_count || h->to >= p->thread_count;
	}
}

static void census_fini(struct census *c)
{
	free(c->groups);
	free(c->group_of);
	free(c->given);
	free(c->taken);
	free(c->patterns);
	free(c->order);
}

static int census_init(struct census *c, const struct profile *p)
{
	size_t n = (size_t)p->thread_count + 1;
	struct process_images images;
	uint32_t listed = 0;
	memset(c, 0, sizeof *c);
	c->p = p;
	c->groups = calloc(n, sizeof *c->groups);
	c->group_of = calloc(n, sizeof *c->group_of);
	c->given = calloc(n, sizeof *c->given);
	c->taken = calloc(n, sizeof *c->taken);
	c->patterns = calloc(n, sizeof *c->patterns);
	c->order = calloc(n, sizeof *c->order);
	if (!c->groups || !c->group_of || !c->given || !c->taken || !c->patterns || !c->order ||
	    process_images_init(&images, p) < 0) {
		census_fini(c);
		return HEFT_ENOMEM;
	}
	c->threads = images.thread_count;
	bool together = c->threads > APART;
	for (uint32_t i = 0; i < p->thread_count; i++) {
		if (images.first_thread[i] != i)
			continue;
		make_pattern(c->patterns[i], thread_of_images(&images, p, i).name);
		c->order[listed++] = i;
	}
	if (together)
		qsort_r(c->order, listed, sizeof *c->order, by_pattern, c);
	count_handovers(c);
	for (uint32_t i = 0; i < p->thread_count; i++)
		c->group_of[i] = c->order[0]; /* those outside the window, which nobody shows */
	for (uint32_t k = 0; k < listed; k++) {
		uint32_t i = c->order[k];
		struct profile_thread whole = thread_of_images(&images, p, i), *t = &whole;
		bool joins = together && k && compare_kinds(c, i, c->order[k - 1]) == 0;
		if (!joins)
			c->groups[c->count++] = (struct group){.name = t->name, .first = i};
		struct group *g = &c->groups[c->count - 1];
		if (joins && strcmp(g->name, t->name) != 0)
			g->name = c->patterns[i];
		add_to_group(g, &(struct group){.members = 1,
						.allocations = t->allocations,
						.allocated_bytes = t->allocated_bytes,
						.frees = t->frees});
		for (; i != PROFILE_NONE; i = images.next_thread[i]) {
			g->given += c->given[i];
			g->taken += c->taken[i];
			c->group_of[i] = g->first;
		}
	}
	process_images_fini(&images);
	/* Sorting moves the groups: their first threads find them again. */
	qsort(c->groups, c->count, sizeof *c->groups, most_first);
	for (uint32_t i = 0; i < c->count; i++)
		c->order[c->groups[i].first] = i;
	for (uint32_t i = 0; i < p->thread_count; i++)
		c->group_of[i] = c->order[c->group_of[i]];
	return 0;
}

/* ---- the table */

static size_t print_name(FILE *out, const struct census *c, const struct group *g, size_t room)
{
	char more[48] = "";
	if (g->members > 1)
		snprintf(more, sizeof more, " (%s)", words_count(g->members).text);
	else if (g->first < c->p->thread_count)
		snprintf(more, sizeof more, " %" PRId32, c->p->threads[g->first].tid);
	size_t used = strlen(more);
	used += words_print_fit(out, *g->name ? g->name : "(no name)",
				room > used ? room - used : 3);
	fputs(more, out);
	return used;
}

/* Whether a thread's live blocks are known: all it made, less those that were freed. That holds for
 * whole runs, if every hand-over names its threads. */
static bool live_is_known(const struct census *c, const struct report_options *o)
{
	uint64_t made = 0, freed = 0;
	if (c->lost || report_is_selection(o))
		return false;
	for (uint32_t i = 0; i < c->count; i++) {
		const struct group *g = &c->groups[i];
		uint64_t gone = g->frees - g->taken + g->given;
		if (g->taken > g->frees || gone > g->allocations)
			return false;
		made += g->allocations;
		freed += g->frees;
	}
	return made - freed == c->p->totals.live_blocks;
}

/* What the table shows, and how wide its names are. */
struct table {
	bool handed, live;
	size_t name_room;
};

static struct table plan_table(bool handed, bool live, const struct report_options *o)
{
	struct table t = {handed, live, 0};
	for (;;) {
		size_t columns = 3u + 2u * t.handed + t.live;
		size_t taken = 2 + columns * (CELL + 1), width = report_width(o);
		size_t rest = width > taken ? width - taken : 0;
		if (rest >= NARROWEST_NAME || (!t.live && !t.handed)) {
			t.name_room = rest < WIDEST_NAME ? rest : WIDEST_NAME;
			return t;
		}
		if (t.live)
			t.live = false;
		else
			t.handed = false;
	}
}

static void print_row(FILE *out, const struct census *c, const struct group *g,
		      const struct table *t)
{
	fputs("  ", out);
	size_t used = print_name(out, c, g, t->name_room);
	fprintf(out, "%*s %*s %*s %*s", (int)(t->name_room - used), "", CELL,
		words_count(g->allocations).text, CELL, words_bytes(g->allocated_bytes).text, CELL,
		words_count(g->frees).text);
	if (t->handed)
		fprintf(out, " %*s %*s", CELL, words_count(g->given).text, CELL,
			words_count(g->taken).text);
	if (t->live)
		fprintf(out, " %*s", CELL,
			words_count(g->allocations - (g->frees - g->taken + g->given)).text);
	putc('\n', out);
}

static void print_table(FILE *out, const struct census *c, const struct report_options *o,
			bool handed)
{
	struct group others = {.name = "others", .first = PROFILE_NONE};
	struct table t = plan_table(handed, live_is_known(c, o), o);
	words_style(out, o->color, STYLE_BOLD);
	fprintf(out, "  %-*s %*s %*s %*s", (int)t.name_room, "thread", CELL, "allocations", CELL,
		"allocated", CELL, "frees");
	if (t.handed)
		fprintf(out, " %*s %*s", CELL, "given away", CELL, "taken over");
	if (t.live)
		fprintf(out, " %*s", CELL, "live blocks");
	words_style(out, o->color, STYLE_PLAIN);
	putc('\n', out);
	for (uint32_t i = 0; i < c->count; i++) {
		const struct group *g = &c->groups[i];
		if (i < o->limit) {
			print_row(out, c, g, &t);
			continue;
		}
		add_to_group(&others, g);
	}
	if (others.members)
		print_row(out, c, &others, &t);
	if (!t.handed)
		return;
	fputs("  ", out);
	words_print_wrapped(out,
			    "given away: own blocks that another thread freed; taken over: others' "
			    "blocks that it freed",
			    2, report_width(o));
	putc('\n', out);
}

/* ---- the matrix */

static void print_cell_head(FILE *out, const struct census *c, uint32_t column, uint32_t shown)
{
	size_t used;
	putc(' ', out);
	if (column == shown) {
		fprintf(out, "%*s", CELL, "others");
		return;
	}
	char *text = NULL;
	size_t size;
	FILE *cell = open_memstream(&text, &size);
	if (!cell)
		return;
	used = print_name(cell, c, &c->groups[column], CELL);
	fclose(cell);
	fprintf(out, "%*s%s", (int)(CELL - used), "", text ? text : "");
	free(text);
}

static int print_matrix(FILE *out, const struct census *c, const struct report_options *o)
{
	const struct profile *p = c->p;
	size_t fits = (report_width(o) - WIDEST_NAME - 2) / (CELL + 1);
	uint32_t shown = (uint32_t)(fits > MATRIX_MOST + 1 ? MATRIX_MOST : fits - 1);
	if (shown > c->count)
		shown = c->count;
	uint32_t side = shown + 1;
	bool any_others = c->lost || shown < c->count;
	uint64_t *cells = calloc((size_t)side * side, sizeof *cells);
	if (!cells)
		return HEFT_ENOMEM;
#define PLACE(group) ((group) < shown ? (group) : shown)
	for (uint32_t i = 0; i < p->thread_count; i++) {
		uint32_t at = PLACE(c->group_of[i]);
		if (p->threads[i].frees > c->taken[i])
			cells[at * side + at] += p->threads[i].frees - c->taken[i];
	}
	for (uint32_t i = 0; i < p->behaviour.handover_threads_count; i++) {
		const struct profile_handover_threads *h = &p->behaviour.handover_threads[i];
		uint32_t from = h->from < p->thread_count ? PLACE(c->group_of[h->from]) : shown;
		uint32_t to = h->to < p->thread_count ? PLACE(c->group_of[h->to]) : shown;
		cells[from * side + to] += h->frees;
	}
#undef PLACE
	words_style(out, o->color, STYLE_BOLD);
	fprintf(out, "\nFrees: who allocated (down), who freed (across)\n  %-*s", WIDEST_NAME, "");
	for (uint32_t k = 0; k < shown + any_others; k++)
		print_cell_head(out, c, k, shown);
	putc('\n', out);
	words_style(out, o->color, STYLE_PLAIN);
	for (uint32_t i = 0; i < shown + any_others; i++) {
		static const struct group others = {
			.name = "others", .members = 1, .first = PROFILE_NONE};
		fputs("  ", out);
		size_t used = print_name(out, c, i < shown ? &c->groups[i] : &others, WIDEST_NAME);
		fprintf(out, "%*s", (int)(WIDEST_NAME - used), "");
		for (uint32_t k = 0; k < shown + any_others; k++) {
			uint64_t n = cells[i * side + k];
			words_style(out, o->color && n && i != k, STYLE_WARN);
			fprintf(out, " %*s", CELL, n ? words_count(n).text : ".");
			words_style(out, o->color && n && i != k, STYLE_PLAIN);
		}
		putc('\n', out);
	}
	free(cells);
	return 0;
}

/* ---- processes */

static int print_processes(FILE *out, const struct profile *p, const struct report_options *o)
{
	struct process_images x;
	uint32_t shown = 0;
	if (process_images_init(&x, p) < 0)
		return HEFT_ENOMEM;
	if (x.count < 2) {
		process_images_fini(&x);
		return 0;
	}
	words_print_styled(out, o->color, STYLE_BOLD, "\n  %8s %*s %*s %*s %*s  command\n",
			   "process", CELL, "allocations", CELL, "allocated", CELL, "frees", CELL,
			   "peak");
	for (uint32_t i = 0; i < p->process_count && shown < o->limit; i++) {
		if (x.first[i] != i)
			continue;
		struct profile_process whole = process_of_images(&x, p, i), *q = &whole;
		shown++;
		fprintf(out, "  %8" PRId32 " %*s %*s %*s %*s  ", q->pid, CELL,
			words_count(q->totals.allocations).text, CELL,
			words_bytes(q->totals.allocated_bytes).text, CELL,
			words_count(q->totals.frees).text, CELL,
			words_bytes(q->totals.peak_bytes).text);
		size_t room = report_width(o) - 12 - 4 * (CELL + 1);
		if (q->argc)
			words_print_command(out, q->argv, q->argc, room);
		else
			words_print_fit(out, q->exe, room);
		putc('\n', out);
	}
	if (shown < x.count)
		fprintf(out, "  ... %" PRIu32 " more\n", x.count - shown);
	process_images_fini(&x);
	return 0;
}

/* The order of threads in a file without frees: most live bytes first. */
static int live_first(const void *a, const void *b)
{
	const struct profile_thread *x = a, *y = b;
	if (x->live_bytes != y->live_bytes)
		return x->live_bytes > y->live_bytes ? -1 : 1;
	return x->process != y->process ? (x->process < y->process ? -1 : 1)
					: (x->tid > y->tid) - (x->tid < y->tid);
}

static int print_live_threads(FILE *out, const struct profile *p, const struct report_options *o)
{
	enum { NAME = 24 };
	bool made = (p->run.has & PROFILE_HAS_ALLOCATED) &&
		    !p->estimates.errors; /* samples add up by site */
	char what[80];
	uint32_t count;
	struct profile_thread *order = profile_whole_threads(p, &count);
	if (!order)
		return HEFT_ENOMEM;
	qsort(order, count, sizeof *order, live_first);
	snprintf(what, sizeof what, "%" PRIu32 " thread%s%s", count, count == 1 ? "" : "s",
		 p->estimates.errors ? " with live samples" : "");
	report_print_title(out, p, o, what);
	words_style(out, o->color, STYLE_BOLD);
	fprintf(out, "\n  %-*s %*s", NAME, "thread", CELL, "live");
	if (p->estimates.errors)
		fprintf(out, " %*s", CELL, "+-95 %");
	fprintf(out, " %*s", CELL, "live blocks");
	if (p->estimates.errors)
		fprintf(out, " %*s", CELL, "+-95 %");
	if (made)
		fprintf(out, " %*s %*s", CELL, "allocations", CELL, "allocated");
	words_style(out, o->color, STYLE_PLAIN);
	putc('\n', out);
	for (uint32_t i = 0; i < count && i < o->limit; i++) {
		const struct profile_thread *t = &order[i];
		char number[16];
		int digits = snprintf(number, sizeof number, " %" PRId32, t->tid);
		fputs("  ", out);
		size_t used = words_print_fit(out, *t->name ? t->name : "thread",
					      NAME - (size_t)digits);
		fprintf(out, "%-*s %*s", (int)(NAME - used), number, CELL,
			words_bytes(t->live_bytes).text);
		if (p->estimates.errors)
			fprintf(out, " %*s", CELL, words_bytes(t->errors.live_bytes).text);
		fprintf(out, " %*s", CELL, words_count(t->live_blocks).text);
		if (p->estimates.errors)
			fprintf(out, " %*s", CELL, words_count(t->errors.live_blocks).text);
		if (made)
			fprintf(out, " %*s %*s", CELL, words_count(t->allocations).text, CELL,
				words_bytes(t->allocated_bytes).text);
		putc('\n', out);
	}
	if (count > o->limit)
		fprintf(out, "... %zu more\n", (size_t)count - o->limit);
	report_print_next(out, o, "", "the report");
	free(order);
	return 0;
}

int report_threads(FILE *out, const struct profile *p, const struct report_options *o)
{
	struct census c;
	uint64_t crossed = 0;
	bool sampled = p->estimates.errors && p->thread_count;
	if (!(p->run.has & PROFILE_HAS_THREADS) && !sampled) {
		report_print_title(out, p, o, "threads");
		fputs("  This file does not record threads.\n", out);
		report_print_next(out, o, "", "the report");
		return 0;
	}
	if (sampled || !(p->run.has & PROFILE_HAS_FREES))
		return print_live_threads(out, p, o);
	int rc = census_init(&c, p);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < p->site_count; i++)
		crossed += p->sites[i].cross_thread_frees;
	report_print_title(out, p, o, p->thread_count ? words_threads(p).text : "no threads");
	report_print_span(out, p, o);
	report_print_selection(out, o);
	report_print_warnings(out, p, o);
	putc('\n', out);
	/* Hand-overs are of the whole recording, whatever is selected. */
	bool matrix = p->behaviour.handover_threads_count && !report_is_selection(o);
	print_table(out, &c, o, matrix);
	if (matrix)
		rc = print_matrix(out, &c, o);
	else if (!crossed)
		fputs("  No block was freed by a thread other than the one that allocated it.\n",
		      out);
	else
		fprintf(out, "  %s %s freed by a thread other than the one that allocated %s.\n",
			words_blocks(crossed).text, crossed == 1 ? "was" : "were",
			crossed == 1 ? "it" : "them");
	if (rc == 0)
		rc = print_processes(out, p, o);
	if (rc == 0 && c.count) {
		const struct group *g = &c.groups[0];
		char option[160] = "--lifetimes", tid[16];
		snprintf(tid, sizeof tid, "%" PRId32, p->threads[g->first].tid);
		if (c.threads > 1 && g->members == 1)
			snprintf(option, sizeof option, "--thread %s", tid);
		report_print_next(out, o, option,
				  c.threads > 1 && g->members == 1
					  ? "what the busiest thread allocates"
					  : "how long blocks live");
	}
	census_fini(&c);
	return rc;
}
