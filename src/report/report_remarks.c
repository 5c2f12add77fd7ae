/* What the program said while it was recorded: marks and regions, the time at each stage of followed blocks, events, and
 * the objects of pools. A section is there only if there is something to show.
 *
 * A program may set a mark in every round of a loop. So marks and regions of one name are one row. */
#include "report/report_parts.h"

#include "hosted/compare.h"
#include "report/report_words.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 10, SITES = 5, NUMBER = 11, NARROW_NUMBER = 10, WIDE_ENOUGH = 90, INDENT = 2 };

/* ---- rows */

static void print_title(FILE *out, const struct report_options *o, const char *title)
{
	words_print_styled(out, o->color, STYLE_BOLD, "\n%s\n", title);
}

static size_t cell_width(const struct report_options *o)
{
	return report_width(o) < WIDE_ENOUGH ? NARROW_NUMBER : NUMBER;
}

static void print_head(FILE *out, const struct report_options *o, const char *const *columns,
		       const char *last)
{
	for (; *columns; columns++)
		fprintf(out, "%*s ", (int)cell_width(o), *columns);
	fprintf(out, " %s\n", last);
}

static void print_cell(FILE *out, const struct report_options *o, struct words value)
{
	fprintf(out, "%*s ", (int)cell_width(o), value.text);
}

/* What is left of a line behind so many cells. */
static size_t room_behind(const struct report_options *o, size_t cells)
{
	size_t taken = cells * (cell_width(o) + 1) + 1;
	return report_width(o) - taken;
}

static void print_name(FILE *out, const char *name, size_t max)
{
	words_print_fit(out, *name ? name : "(no name)", max);
}

static void print_more(FILE *out, uint32_t count, uint32_t shown)
{
	if (count > shown)
		fprintf(out, "... %s more\n", words_count(count - shown).text);
}

/* The next of the user's functions outward; PROFILE_NONE: there is none. */
static uint32_t caller_of(const struct profile *p, uint32_t node)
{
	do
		node = node < p->stacks.node_count ? p->stacks.nodes[node].parent : PROFILE_NONE;
	while (node != PROFILE_NONE && !profile_node_frame(p, node)->user);
	return node;
}

/* A call of heft.h: the function that makes it, and the user's functions that call that one. In an allocator these say more,
 * so they have space of their own. */
static void print_caller(FILE *out, const struct profile *p, uint32_t node, size_t max)
{
	uint32_t user = node == PROFILE_NONE ? node : profile_first_user_node(p, node);
	uint32_t at = caller_of(p, user);
	size_t used = words_print_frame(out, p, user, at == PROFILE_NONE ? max : max * 2 / 3);
	for (; at != PROFILE_NONE && used + 3 < max; at = caller_of(p, at)) {
		const char *function = profile_node_frame(p, at)->function;
		if (used > max * 2 / 3 && used + 3 + words_columns(function) > max)
			break;
		fputs(" < ", out);
		used += 3 + words_print_function(out, function, max - used - 3);
	}
	putc('\n', out);
}

/* ---- marks and regions */

struct named {
	const char *name;
	uint64_t count, first_ns, last_ns, total_ns, max_ns, open;
};

static int by_name(const void *a, const void *b)
{
	const struct named *x = a, *y = b;
	return strcmp(x->name, y->name) ?: compare_numbers(x->first_ns, y->first_ns);
}

static int first_first(const void *a, const void *b)
{
	const struct named *x = a, *y = b;
	return compare_numbers(x->first_ns, y->first_ns) ?: strcmp(x->name, y->name);
}

static int longest_first(const void *a, const void *b)
{
	const struct named *x = a, *y = b;
	return compare_numbers(y->total_ns, x->total_ns) ?: first_first(a, b);
}

/* Makes one row of those with one name. Returns how many there are. */
static uint32_t merge(struct named *list, uint32_t count)
{
	uint32_t kept = 0;
	qsort(list, count, sizeof *list, by_name);
	for (uint32_t i = 0; i < count; i++) {
		struct named *last = kept ? &list[kept - 1] : NULL;
		if (!last || strcmp(last->name, list[i].name) != 0) {
			list[kept++] = list[i];
			continue;
		}
		last->count += list[i].count;
		last->last_ns = list[i].last_ns;
		last->total_ns += list[i].total_ns;
		last->max_ns = greater(last->max_ns, list[i].max_ns);
		last->open += list[i].open;
	}
	return kept;
}

/* Whether somebody may take the name from the screen and give it to a shell. */
static bool can_be_typed(const char *name)
{
	size_t length = 0;
	while ((unsigned char)name[length] >= ' ' && name[length] != 0x7f)
		length++;
	return length && !name[length] && length <= 60;
}

static void put_mark(FILE *out, const char *option, const char *name)
{
	char mark[80];
	snprintf(mark, sizeof mark, "mark:%s", name);
	report_print_option(out, option, mark);
}

/* What to type to see what happened between two marks */
static void print_between(FILE *out, const char *from, const char *to,
			  const struct report_options *o)
{
	char *text = NULL;
	size_t size;
	FILE *note = can_be_typed(from) && can_be_typed(to) ? open_memstream(&text, &size) : NULL;
	if (!note)
		return;
	put_mark(note, "--from", from);
	put_mark(note, "--to", to);
	fputs("reports on what happened between the two", note);
	if (fclose(note) == 0)
		report_print_note(out, o, false, text);
	free(text);
}

static void print_marks(FILE *out, struct named *list, uint32_t count,
			const struct report_options *o)
{
	static const char *const columns[] = {"times", "first", "last", NULL};
	print_head(out, o, columns, "mark");
	for (uint32_t i = 0; i < count && i < ROWS; i++) {
		print_cell(out, o, words_count(list[i].count));
		print_cell(out, o, words_duration(list[i].first_ns));
		print_cell(out, o,
			   list[i].count > 1 ? words_duration(list[i].last_ns)
					     : (struct words){"-"});
		putc(' ', out);
		print_name(out, list[i].name, room_behind(o, 3));
		putc('\n', out);
	}
	print_more(out, count, ROWS);
	if (count > 1 && o->span == REPORT_WHOLE)
		print_between(out, list[0].name, list[1].name, o);
}

static void print_regions(FILE *out, struct named *list, uint32_t count,
			  const struct report_options *o)
{
	static const char *const columns[] = {"times", "mean", "max", "open", NULL};
	print_head(out, o, columns, "region");
	for (uint32_t i = 0; i < count && i < ROWS; i++) {
		print_cell(out, o, words_count(list[i].count));
		print_cell(out, o, words_duration(list[i].total_ns / list[i].count));
		print_cell(out, o, words_duration(list[i].max_ns));
		print_cell(out, o, list[i].open ? words_count(list[i].open) : (struct words){"-"});
		putc(' ', out);
		print_name(out, list[i].name, room_behind(o, 4));
		putc('\n', out);
	}
	print_more(out, count, ROWS);
}

static int print_marks_and_regions(FILE *out, const struct profile_remarks *r,
				   const struct report_options *o)
{
	uint32_t most = r->mark_count > r->region_count ? r->mark_count : r->region_count, count;
	if (!most)
		return 0;
	struct named *list = malloc(most * sizeof *list);
	if (!list)
		return HEFT_ENOMEM;
	print_title(out, o,
		    !r->region_count ? "Marks"
		    : !r->mark_count ? "Regions"
				     : "Marks and regions");
	for (uint32_t i = 0; i < r->mark_count; i++)
		list[i] = (struct named){.name = r->marks[i].name,
					 .count = 1,
					 .first_ns = r->marks[i].time_ns,
					 .last_ns = r->marks[i].time_ns};
	count = merge(list, r->mark_count);
	qsort(list, count, sizeof *list, first_first);
	if (count)
		print_marks(out, list, count, o);
	for (uint32_t i = 0; i < r->region_count; i++) {
		const struct profile_region *g = &r->regions[i];
		uint64_t ns = g->end_ns - g->begin_ns;
		list[i] = (struct named){.name = g->name,
					 .count = 1,
					 .first_ns = g->begin_ns,
					 .total_ns = ns,
					 .max_ns = ns,
					 .open = g->is_open};
	}
	count = merge(list, r->region_count);
	qsort(list, count, sizeof *list, longest_first);
	if (count && r->mark_count)
		putc('\n', out);
	if (count)
		print_regions(out, list, count, o);
	free(list);
	return 0;
}

/* ---- stages */

static void print_stages(FILE *out, const struct profile_remarks *r, const struct report_options *o)
{
	static const char *const columns[] = {"blocks", "mean", "p50", "p99", "max", NULL};
	static const char *const fewer[] = {"blocks", "mean", "p99", "max", NULL};
	const bool wide = report_width(o) >= WIDE_ENOUGH;
	if (!r->hop_count)
		return;
	print_title(out, o, "Time at each stage");
	print_head(out, o, wide ? columns : fewer, "from -> to");
	uint32_t shown = r->hop_count < 2 * ROWS ? r->hop_count : 2 * ROWS;
	for (uint32_t i = 0; i < shown; i++) {
		const struct profile_hop *h = &r->hops[i];
		size_t half = (room_behind(o, wide ? 5 : 4) - 4) / 2;
		print_cell(out, o, words_count(h->blocks));
		print_cell(out, o, words_duration(profile_hop_mean_ns(h)));
		if (wide)
			print_cell(out, o, words_duration(h->p50_ns));
		print_cell(out, o, words_duration(h->p99_ns));
		print_cell(out, o, words_duration(h->max_ns));
		putc(' ', out);
		print_name(out, h->from ? h->from : "allocated", half);
		fputs(" -> ", out);
		print_name(out, h->still_there ? "still there" : h->to ? h->to : "freed", half);
		putc('\n', out);
	}
	print_more(out, r->hop_count, shown);
	char text[120];
	snprintf(text, sizeof text, "of %s the end was not seen: others had their addresses later",
		 words_blocks(r->lost_blocks).text);
	if (r->lost_blocks)
		report_print_note(out, o, false, text);
}

/* ---- events */

static void print_events(FILE *out, const struct profile *p, const struct report_options *o)
{
	static const char *const columns[] = {"times", "weight", NULL};
	const struct profile_remarks *r = &p->remarks;
	if (!r->event_count)
		return;
	print_title(out, o, "Events");
	print_head(out, o, columns, "event");
	for (uint32_t i = 0; i < r->event_count && i < ROWS; i++) {
		const struct profile_event *e = &r->events[i];
		print_cell(out, o, words_count(e->count));
		print_cell(out, o, words_count(e->weight));
		putc(' ', out);
		print_name(out, e->name, room_behind(o, 2));
		putc('\n', out);
		for (uint32_t k = 0; k < e->sites && k < SITES; k++) {
			const struct profile_event_site *s = &r->event_sites[e->first + k];
			print_cell(out, o, words_count(s->count));
			print_cell(out, o, words_count(s->weight));
			fprintf(out, "%*s", INDENT + 1, "");
			print_caller(out, p, s->node, room_behind(o, 2) - INDENT);
		}
	}
	print_more(out, r->event_count, ROWS);
}

/* ---- pools */

static void print_pool(FILE *out, const struct profile *p, const struct profile_pool *pool,
		       const struct report_options *o)
{
	char many[96] = "";
	if ((pool->pools > 1 || pool->destroyed) && report_width(o) >= WIDE_ENOUGH)
		snprintf(many, sizeof many, "  (%s, %s destroyed)",
			 words_many(pool->pools, "pool", "pools").text,
			 words_count(pool->destroyed).text);
	print_cell(out, o, words_count(pool->left_objects));
	print_cell(out, o, words_bytes(pool->left_bytes));
	print_cell(out, o, words_bytes(pool->peak_bytes));
	print_cell(out, o, words_count(pool->objects));
	putc(' ', out);
	print_name(out, pool->name, room_behind(o, 4) - strlen(many));
	fprintf(out, "%s\n", many);
	for (uint32_t k = 0; k < pool->sites && k < SITES; k++) {
		const struct profile_pool_site *s = &p->remarks.pool_sites[pool->first + k];
		print_cell(out, o, words_count(s->left_objects));
		print_cell(out, o, words_bytes(s->left_bytes));
		print_cell(out, o, words_bytes(s->peak_bytes));
		print_cell(out, o, words_count(s->objects));
		fprintf(out, "%*s", INDENT + 1, "");
		print_caller(out, p, s->node, room_behind(o, 4) - INDENT);
	}
	if (pool->sites > SITES)
		fprintf(out, "%*s... %s more\n", (int)(4 * (cell_width(o) + 1)) + INDENT + 1, "",
			words_count(pool->sites - SITES).text);
}

static void print_pools(FILE *out, const struct profile *p, const struct report_options *o)
{
	static const char *const columns[] = {"left", "left", "peak", "objects", NULL};
	static const char *const live[] = {"live", "live", "peak", "objects", NULL};
	const struct profile_remarks *r = &p->remarks;
	if (!r->pool_count)
		return;
	print_title(out, o, "Pools: objects that the program's own allocators hand out");
	print_head(out, o, o->span == REPORT_WHOLE ? columns : live, "pool");
	for (uint32_t i = 0; i < r->pool_count && i < ROWS; i++)
		print_pool(out, p, &r->pools[i], o);
	print_more(out, r->pool_count, ROWS);
}

int report_print_remarks(FILE *out, const struct profile *p, const struct report_options *o)
{
	/* Those filters are for stacks of allocations. */
	if (o->focus || o->ignore || !profile_remarks_any(&p->remarks))
		return 0;
	int rc = print_marks_and_regions(out, &p->remarks, o);
	if (rc < 0)
		return rc;
	print_stages(out, &p->remarks, o);
	print_events(out, p, o);
	print_pools(out, p, o);
	return 0;
}
