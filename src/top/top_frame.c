/* Writes rows as text: the table, the stack of a row, and everything as plain text. Every line fits the
 * width it is made for, whatever the names and numbers are: it leaves out what matters less, cuts names
 * and marks the cut. */
#include "top/top_pen.h"

#include "hosted/name_words.h"
#include "hosted/number_words.h"
#include "profile/site_callers.h"
#include "top/top_numbers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { STACK_FRAMES = 64, CALLER_LEAST = 12 };

/* Which columns of the table fit; names always have some 20 columns. */
struct columns {
	bool growth, blocks, age, trend, error;
};

static struct columns columns_for(const struct profile *p, const struct top_view *v, size_t width)
{
	return (struct columns){
		.growth = width >= 36 && (p->run.has & PROFILE_HAS_TIMES || v->mark),
		.blocks = width >= 46 && !(p->run.has & PROFILE_LACKS_BLOCKS),
		.age = width >= 56 && measure_known(p, MEASURE_LIFETIME_P50),
		.trend = width >= 72 && p->behaviour.history.row_count,
		.error = width >= 60 && p->estimates.errors,
	};
}

enum { WIDE_NUMBER = 7, WIDE_AGE = 9, WIDE_ERROR = 7 };

static void put_right(struct pen *pen, enum top_style style, const char *text, size_t columns)
{
	size_t used = words_columns(text);
	pen_pad(pen, pen->columns + (columns > used ? columns - used : 1));
	pen_put(pen, style, text);
}

/* The bytes that the first column shows. */
static enum top_sort first_column(const struct top_view *v)
{
	return v->sort == TOP_BY_PEAK || v->sort == TOP_BY_ALLOCATED ? v->sort : TOP_BY_LIVE;
}

static const char *const bytes_titles[] = {
	[TOP_BY_LIVE] = "LIVE",
	[TOP_BY_PEAK] = "PEAK",
	[TOP_BY_ALLOCATED] = "ALLOC",
};
static const char *const name_titles[] = {
	[TOP_SITES] = "SITE",
	[TOP_FUNCTIONS] = "FUNCTION",
	[TOP_FILES] = "FILE",
	[TOP_MODULES] = "MODULE",
};

int top_frame_columns(struct top_lines *out, const struct profile *p, const struct top_view *v,
		      const struct top_look *look)
{
	struct pen pen;
	struct columns c = columns_for(p, v, look->width);
	pen_begin(&pen, look);
	put_right(&pen, TOP_PLAIN, bytes_titles[first_column(v)], WIDE_NUMBER);
	if (c.error)
		put_right(&pen, TOP_PLAIN,
			  look->utf8 ? "\xc2\xb1"
				       "95%"
				     : "+-95%",
			  WIDE_ERROR);
	if (c.growth)
		put_right(&pen, TOP_PLAIN,
			  v->mark      ? "+MARK"
			  : look->utf8 ? "\xce\x94/s"
				       : "GREW/s",
			  WIDE_NUMBER);
	if (c.blocks)
		put_right(&pen, TOP_PLAIN, "BLOCKS", WIDE_NUMBER);
	if (c.age)
		put_right(&pen, TOP_PLAIN, "AGE p50", WIDE_AGE);
	if (c.trend)
		pen_part(&pen, TOP_PLAIN, "TREND   ");
	pen_part(&pen, TOP_PLAIN, name_titles[v->group]);
	pen_pad(&pen, pen.width);
	pen.line.span_count = 0;
	pen_span(&pen, 0, TOP_HEAD);
	return pen_end(&pen, out);
}

static const char *without_folders(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash && slash[1] ? slash + 1 : path;
}

/* "q.c:88 conn_queue_push": the line is what people go to, the name may be cut. */
static void put_place(struct pen *pen, const struct profile *p, uint32_t frame)
{
	const struct profile_frame *f = &p->stacks.frames[frame];
	size_t space = pen_left(pen);
	if (f->file) {
		pen_name(pen, TOP_PLAIN, without_folders(f->file), space > 24 ? space / 2 : space,
			 PEN_NAME);
		if (f->line)
			pen_putf(pen, TOP_PLAIN, ":%" PRIu32, f->line);
	} else if (f->module < p->stacks.module_count && !strstr(f->function, "+0x")) {
		pen_name(pen, TOP_PLAIN, profile_module_name(p, f->module),
			 space > 24 ? space / 3 : space, PEN_NAME);
	}
	if (pen_left(pen) < 6)
		return;
	if (pen_left(pen) < space)
		pen_put(pen, TOP_PLAIN, " ");
	pen_name(pen, TOP_PLAIN, f->function, pen_left(pen), PEN_FUNCTION);
}

/* Sites of one line differ in who called them. `callers` are those that other rows do not have; NULL:
 * there are none. */
static void put_caller(struct pen *pen, const struct profile *p, uint32_t site, const char *callers)
{
	uint32_t node = p->sites[site].node;
	if (node >= p->stacks.node_count || pen_left(pen) < CALLER_LEAST)
		return;
	if (callers) {
		pen_put(pen, TOP_DIM, pen->utf8 ? " \xe2\x86\x90 " : " <- ");
		pen_name(pen, TOP_DIM, callers, pen_left(pen), PEN_NAME);
		return;
	}
	for (node = p->stacks.nodes[profile_first_user_node(p, node)].parent;
	     node < p->stacks.node_count; node = p->stacks.nodes[node].parent)
		if (p->stacks.frames[p->stacks.nodes[node].frame].user)
			break;
	if (node >= p->stacks.node_count)
		return;
	pen_put(pen, TOP_DIM, pen->utf8 ? " \xe2\x86\x90 " : " <- ");
	pen_name(pen, TOP_DIM, p->stacks.frames[p->stacks.nodes[node].frame].function,
		 pen_left(pen), PEN_FUNCTION);
}

static void put_row_name(struct pen *pen, const struct profile *p, const struct top_row *row,
			 enum top_group group, const char *callers)
{
	char more[48] = "";
	if (row->sites > 1 && group != TOP_SITES)
		snprintf(more, sizeof more, " (%.20s sites)", words_count(row->sites).text);
	size_t reserved = strlen(more) + 12 < pen_left(pen) ? strlen(more) : 0;
	size_t space = pen_left(pen) - reserved;
	const struct profile_frame *f = group != TOP_MODULES && row->name < p->stacks.frame_count
						? &p->stacks.frames[row->name]
						: NULL;
	if (group == TOP_MODULES && row->name < p->stacks.module_count)
		pen_name(pen, TOP_PLAIN, profile_module_name(p, row->name), space, PEN_NAME);
	else if (!f)
		pen_name(pen, TOP_DIM, "[stack unknown]", space, PEN_END);
	else if (group == TOP_SITES) {
		size_t behind = callers ? words_columns(callers) + 4 : 0;
		behind = behind < space / 2 ? behind : space / 2;
		pen->width -= behind;
		put_place(pen, p, row->name);
		pen->width += behind;
		put_caller(pen, p, row->site, callers);
	} else if (group == TOP_FUNCTIONS)
		pen_name(pen, TOP_PLAIN, f->function, space, PEN_FUNCTION);
	else if (f->file)
		pen_name(pen, TOP_PLAIN, f->file, space, PEN_NAME);
	else
		pen_name(pen, TOP_PLAIN, profile_module_name(p, f->module), space, PEN_NAME);
	if (reserved)
		pen_put(pen, TOP_DIM, more);
}

static void put_age(struct pen *pen, const struct top_row *row)
{
	static const char *const arrows[2][3] = {{"v", "", "^"},
						 {"\xe2\x86\x93", "", "\xe2\x86\x91"}};
	char text[TOP_NUMBER], age[TOP_NUMBER + 8];
	top_age(text, row->values[TOP_BY_AGE]);
	snprintf(age, sizeof age, "%s%s", text, arrows[pen->utf8][row->age_trend + 1]);
	put_right(pen, TOP_PLAIN, row->values[TOP_BY_AGE] ? age : "-", WIDE_AGE);
}

static int row_line(struct top_lines *to, const struct profile *p, const struct top_row *row,
		    const char *callers, const struct top_view *v, const struct top_look *look)
{
	struct pen pen;
	struct columns c = columns_for(p, v, look->width);
	char text[TOP_NUMBER];
	pen_begin(&pen, look);
	pen.line.key = row->key;
	top_bytes(text, row->values[first_column(v)]);
	put_right(&pen, TOP_PLAIN, text, WIDE_NUMBER);
	if (c.error) {
		top_bytes(text, row->error_bytes);
		put_right(&pen, TOP_DIM, row->error_bytes ? text : "-", WIDE_ERROR);
	}
	if (c.growth) {
		top_growth(text, row->growth);
		put_right(&pen,
			  !row->has_growth || strcmp(text, "0") == 0 ? TOP_PLAIN
			  : row->growth > 0                          ? TOP_GROWS
								     : TOP_SHRINKS,
			  row->has_growth ? text : "-", WIDE_NUMBER);
	}
	if (c.blocks) {
		top_count(text, row->values[TOP_BY_BLOCKS]);
		put_right(&pen, TOP_PLAIN, text, WIDE_NUMBER);
	}
	if (c.age)
		put_age(&pen, row);
	pen_pad(&pen, pen.columns + 2);
	if (c.trend) {
		size_t begin = pen.columns;
		if (row->has_trend)
			pen_graph(&pen, row->trend, TOP_TREND);
		pen_pad(&pen, begin + TOP_TREND + 2);
	}
	put_row_name(&pen, p, row, v->group, callers);
	return pen_end(&pen, to);
}

/* ---- the stack of a row */

static int facts_line(struct top_lines *to, const struct profile *p, const struct top_row *row,
		      const struct top_look *look)
{
	struct pen pen;
	const struct profile_site *s = &p->sites[row->site];
	char text[TOP_NUMBER], other[TOP_NUMBER];
	pen_begin(&pen, look);
	pen.line.stack = true;
	pen_pad(&pen, 4);
	if (row->sites > 1)
		pen_putf(&pen, TOP_DIM, "largest of %" PRIu32 " sites:", row->sites);
	else
		pen_put(&pen, TOP_DIM, profile_via_name(s->via));
	top_bytes(text, s->allocated_bytes);
	top_count(other, s->allocations);
	if (measure_known(p, MEASURE_ALLOCATED_BYTES))
		pen_partf(&pen, TOP_DIM, "allocated %s in %s", text, other);
	if (measure_known(p, MEASURE_FREES) && s->allocations)
		pen_partf(&pen, TOP_DIM, "freed %.0f %%",
			  100 * (double)s->frees / (double)s->allocations);
	top_bytes(text, s->peak_bytes);
	if (measure_known(p, MEASURE_PEAK_BYTES))
		pen_partf(&pen, TOP_DIM, "at peak %s", text);
	uint32_t node = s->release_count && s->release_first < p->behaviour.release_count
				? p->behaviour.releases[s->release_first].node
				: PROFILE_NONE;
	if (node < p->stacks.node_count && pen_part(&pen, TOP_DIM, "freed by "))
		put_place(&pen, p, p->stacks.nodes[profile_first_user_node(p, node)].frame);
	return pen_end(&pen, to);
}

static int stack_lines(struct top_lines *to, const struct profile *p, const struct top_row *row,
		       const struct top_look *look)
{
	int rc = facts_line(to, p, row, look);
	unsigned depth = 0;
	for (uint32_t node = p->sites[row->site].node; rc == 0 && node < p->stacks.node_count;
	     node = p->stacks.nodes[node].parent) {
		struct pen pen;
		const struct profile_frame *f = &p->stacks.frames[p->stacks.nodes[node].frame];
		pen_begin(&pen, look);
		pen.line.stack = true;
		pen_pad(&pen, 4);
		if (++depth > STACK_FRAMES) {
			pen_put(&pen, TOP_DIM, "... more callers: heft report --full");
			return pen_end(&pen, to);
		}
		put_place(&pen, p, p->stacks.nodes[node].frame);
		if (!f->user) {
			pen.line.span_count = 0;
			pen_span(&pen, 0, TOP_DIM);
		}
		rc = pen_end(&pen, to);
	}
	return rc;
}

int top_frame_rows(struct top_lines *out, const struct profile *p, const struct top_rows *rows,
		   const struct top_view *v, const struct top_look *look)
{
	int rc = 0;
	uint32_t end = rows->count, count = 0;
	if (end > look->first && end - look->first > look->limit)
		end = look->first + (uint32_t)look->limit;
	/* Without memory for this, rows that look the same are shown as they are. */
	uint32_t *sites = v->group == TOP_SITES ? malloc(((size_t)end + 1) * sizeof *sites) : NULL;
	for (uint32_t i = look->first; sites && i < end; i++)
		sites[count++] = rows->rows[i].site;
	struct site_callers *callers = sites ? site_callers_new(p, sites, count) : NULL;
	for (uint32_t i = look->first; rc == 0 && i < end; i++) {
		rc = row_line(out, p, &rows->rows[i], site_callers_text(callers, i - look->first),
			      v, look);
		if (rc == 0 && rows->rows[i].key == look->expanded)
			rc = stack_lines(out, p, &rows->rows[i], look);
	}
	site_callers_free(callers);
	free(sites);
	return rc;
}

/* ---- all of it, once */

int top_print(FILE *out, const struct profile *p, const struct findings *f,
	      const struct top_view *v, const struct top_look *look)
{
	struct top_rows rows;
	struct top_lines lines = {0};
	int rc = top_rows_new(&rows, p, v);
	if (rc < 0)
		return rc;
	rc = top_frame_head(&lines, p, f, &rows, v, look);
	if (rc == 0)
		rc = top_frame_columns(&lines, p, v, look);
	if (rc == 0)
		rc = top_frame_rows(&lines, p, &rows, v, look);
	char more[64] = "";
	if (!rows.count)
		snprintf(more, sizeof more, "nothing was allocated so far");
	else if (rows.count > look->limit)
		snprintf(more, sizeof more, "%7s %.20s more (-n %" PRIu32 ")", "...",
			 words_count(rows.count - look->limit).text, rows.count);
	if (rc == 0 && more[0])
		rc = top_frame_text(&lines, more, TOP_PLAIN, look);
	for (size_t i = 0; rc == 0 && i < lines.count; i++)
		fprintf(out, "%s\n", lines.lines[i].text);
	top_lines_free(&lines);
	top_rows_free(&rows);
	return rc;
}
