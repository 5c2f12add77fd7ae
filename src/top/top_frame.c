/* Rows into text: the head, the table, a stack. Every line fits the width it is made for, whatever
 * the names and numbers are: what matters less is left out, names are cut and the cut is marked.
 * Foreign text goes through put_name and nothing else, so no line can hold anything but printable
 * characters (printable ASCII without UTF-8).
 *
 * Invariants: spans lie inside their line and do not overlap; a line's columns never exceed the
 * width. */
#include "top/top.h"

#include "hosted/name_words.h"
#include "profile/site_callers.h"
#include "hosted/number_words.h"
#include "profile/process_groups.h"
#include "profile/process_images.h"
#include "hosted/program_name.h"
#include "top/top_numbers.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_LINE = 8192, STACK_FRAMES = 64, CALLER_LEAST = 12 };

/* ---- one line at a time */

int top_lines_add(struct top_lines *to, const struct top_line *line)
{
	if (to->count == to->capacity) {
		size_t more = to->capacity ? to->capacity * 2 : 64;
		struct top_line *lines = reallocarray(to->lines, more, sizeof *lines);
		if (!lines)
			return HEFT_ENOMEM;
		to->lines = lines;
		to->capacity = more;
	}
	to->lines[to->count++] = *line;
	return 0;
}

struct pen {
	FILE *out;
	char *text;
	size_t size;
	size_t columns, width;
	bool utf8;
	struct top_line line;
};

static void pen_begin(struct pen *pen, const struct top_look *look)
{
	*pen = (struct pen){.width = look->width, .utf8 = look->utf8};
	if (pen->width > LONGEST_LINE)
		pen->width = LONGEST_LINE;
	pen->out = open_memstream(&pen->text, &pen->size);
}

static int pen_end(struct pen *pen, struct top_lines *to)
{
	if (!pen->out || fclose(pen->out) != 0 || !pen->text)
		goto lost;
	for (size_t n = pen->size; n && pen->text[n - 1] == ' '; n--)
		pen->text[n - 1] = 0;
	pen->line.text = pen->text;
	if (top_lines_add(to, &pen->line) == 0)
		return 0;
lost:
	free(pen->text);
	return HEFT_ENOMEM;
}

static size_t pen_room(const struct pen *pen)
{
	return pen->width - pen->columns;
}

static void pen_span(struct pen *pen, long from, enum top_style style)
{
	struct top_line *line = &pen->line;
	long to = pen->out ? ftell(pen->out) : 0;
	if (style == TOP_PLAIN || from < 0 || to <= from || to > UINT16_MAX ||
	    line->span_count == sizeof line->spans / sizeof *line->spans)
		return;
	line->spans[line->span_count++] = (struct top_span){(uint16_t)from, (uint16_t)to, style};
}

/* Text of our own: of known width. Not if it does not fit. */
static bool put(struct pen *pen, enum top_style style, const char *text)
{
	size_t columns = words_columns(text);
	if (!pen->out || columns > pen_room(pen))
		return false;
	long from = ftell(pen->out);
	fputs(text, pen->out);
	pen->columns += columns;
	pen_span(pen, from, style);
	return true;
}

static bool putf(struct pen *pen, enum top_style style, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static bool putf(struct pen *pen, enum top_style style, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return put(pen, style, text);
}

static void pad(struct pen *pen, size_t column)
{
	while (pen->out && pen->columns < column && pen_room(pen)) {
		putc(' ', pen->out);
		pen->columns++;
	}
}

/* Without UTF-8 a character becomes as many marks as it has columns, roughly. */
static void put_ascii(FILE *out, const char *text)
{
	for (const unsigned char *s = (const unsigned char *)text; *s; s++)
		if (*s < 0x80)
			putc(*s, out);
		else if ((*s & 0xc0) == 0xc0)
			putc('?', out);
}

enum fit { FIT_NAME, FIT_FUNCTION, FIT_END };

/* Foreign text in at most `max` columns. */
static void put_name(struct pen *pen, enum top_style style, const char *name, size_t max,
		     enum fit fit)
{
	char *text = NULL;
	size_t size, room = pen_room(pen) < max ? pen_room(pen) : max;
	FILE *out = pen->out ? open_memstream(&text, &size) : NULL;
	if (!out)
		return;
	if (fit == FIT_FUNCTION)
		words_print_function(out, name, room);
	else if (fit == FIT_END && words_columns(name) > room && room > 3)
		words_print(out, name, room - 3);
	else
		words_print_fit(out, name, room);
	if (fclose(out) == 0 && text) {
		long from = ftell(pen->out);
		pen->columns += words_columns(text);
		if (pen->utf8)
			fputs(text, pen->out);
		else
			put_ascii(pen->out, text);
		pen_span(pen, from, style);
	}
	free(text);
}

/* Two blanks and a text, or nothing. */
static bool put_part(struct pen *pen, enum top_style style, const char *text)
{
	size_t gap = pen->columns ? 2 : 0;
	if (gap + words_columns(text) > pen_room(pen))
		return false;
	pad(pen, pen->columns + gap);
	return put(pen, style, text);
}

static bool put_partf(struct pen *pen, enum top_style style, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static bool put_partf(struct pen *pen, enum top_style style, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return put_part(pen, style, text);
}

void top_lines_free(struct top_lines *l)
{
	for (size_t i = 0; i < l->count; i++)
		free(l->lines[i].text);
	free(l->lines);
	*l = (struct top_lines){0};
}

int top_frame_text(struct top_lines *out, const char *text, enum top_style style,
		   const struct top_look *look)
{
	struct pen pen;
	pen_begin(&pen, look);
	put_name(&pen, style, text, pen.width, FIT_END);
	return pen_end(&pen, out);
}

/* ---- head */

void top_end_words(char *text, size_t size, const struct profile *p)
{
	const char *name = sigabbrev_np(p->signal);
	switch (p->end) {
	case PROFILE_END_EXIT:
		snprintf(text, size, "ended: exit status %" PRId32, p->exit_status);
		return;
	case PROFILE_END_SIGNAL:
		snprintf(text, size, "ended: signal %" PRId32 "%s%s%s", p->signal,
			 name ? " (SIG" : "", name ? name : "", name ? ")" : "");
		return;
	case PROFILE_END_DETACHED:
	case PROFILE_END_EXEC:
		snprintf(text, size, "recording ended");
		return;
	case PROFILE_END_UNKNOWN:
		snprintf(text, size, "ended");
		return;
	case PROFILE_END_RUNNING:
		break;
	}
	snprintf(text, size, "%s",
		 !(p->has & PROFILE_HAS_TIMES) ? "a snapshot"
		 : p->complete                 ? "ended"
					       : "running");
}

/* What the first process was started as. */
static const char *first_program(const struct profile *p, char name[PROGRAM_NAME])
{
	const struct profile_process *first = p->process_count ? &p->processes[0] : NULL;
	return program_name(name, first ? first->exe : NULL,
			    first && first->argc ? first->argv[0]
			    : p->argc		 ? p->argv[0]
						 : NULL);
}

/* All of it, or its first word: "ended" of "ended: exit status 0". */
static void put_state(struct pen *pen, const char *state)
{
	enum top_style style = strcmp(state, "running") == 0 ? TOP_PLAIN : TOP_WARN;
	if (!put_part(pen, style, state))
		put_partf(pen, style, "%.*s", (int)strcspn(state, ":"), state);
}

static int title_line(struct top_lines *to, const struct profile *p, const struct top_view *v,
		      const struct top_look *look)
{
	struct pen pen;
	char text[TOP_NUMBER], pid[32] = "";
	char program[PROGRAM_NAME];
	const char *name = first_program(p, program);
	pen_begin(&pen, look);
	if (p->pid)
		snprintf(pid, sizeof pid, " %" PRId32, p->pid);
	if (pen.width >= 60)
		put(&pen, TOP_TITLE, "heft top  ");
	/* The pid and, unless it is very narrow, the time have their places before a long name. */
	size_t rest = strlen(pid) + (pen.width >= 30 ? 8 : 0), room = pen_room(&pen);
	put_name(&pen, TOP_TITLE, name, room > rest + 4 ? room - rest : 4, FIT_NAME);
	put(&pen, TOP_TITLE, pid);
	if (p->has & PROFILE_HAS_TIMES) {
		top_clock(text, p->duration_ns);
		put_part(&pen, TOP_PLAIN, text);
	}
	if (look->state)
		put_state(&pen, look->state);
	if (profile_count_processes(p) > 1) {
		top_count(text, profile_count_processes(p));
		put_partf(&pen, TOP_PLAIN, "%s processes", text);
	}
	if (look->thread && pen_room(&pen) > 16 && put_part(&pen, TOP_WARN, "thread "))
		put_name(&pen, TOP_WARN, look->thread, 20, FIT_NAME);
	if (v->filter && *v->filter && pen_room(&pen) > 8 && put_part(&pen, TOP_WARN, "/"))
		put_name(&pen, TOP_WARN, v->filter, 30, FIT_NAME);
	if (v->group != TOP_SITES || v->sort != TOP_BY_LIVE)
		put_partf(&pen, TOP_PLAIN, "%s by %s", top_group_name(v->group),
			  top_sort_name(v->sort));
	top_bytes(text, p->rate_bytes);
	if (p->rate_bytes)
		put_partf(&pen, TOP_PLAIN, "1 sample/%s", text);
	else if (p->format && strcmp(p->format, "heft") != 0)
		put_partf(&pen, TOP_PLAIN, "%.20s", p->format);
	else
		put_part(&pen, TOP_PLAIN, "exact");
	if (p->totals.dropped) {
		top_count(text, p->totals.dropped);
		put_partf(&pen, TOP_WARN, "%s event%s missing", text,
			  p->totals.dropped == 1 ? "" : "s");
	}
	return pen_end(&pen, to);
}

static uint64_t resident_now(const struct profile *p)
{
	return p->rss_count ? p->rss[p->rss_count - 1].bytes : 0;
}

/* Resident memory beyond what is live is worth a mark when it is as much as half of that again, and
 * not merely the program's text and libraries. */
#define GAP_LEAST_BYTES (32u << 20)

static int numbers_line(struct top_lines *to, const struct profile *p, const struct top_rows *rows,
			const struct top_look *look)
{
	struct pen pen;
	char text[TOP_NUMBER], other[TOP_NUMBER];
	uint64_t live = p->totals.live_bytes, rss = resident_now(p);
	pen_begin(&pen, look);
	top_bytes(text, live);
	if (p->has & PROFILE_HAS_LIVE)
		put_partf(&pen, TOP_TITLE, "live %s", text);
	if (p->rate_bytes && p->total_errors.live_bytes && pen.width >= 60) {
		top_bytes(text, p->total_errors.live_bytes);
		putf(&pen, TOP_PLAIN, " %s%s", look->utf8 ? "\xc2\xb1" : "+-", text);
	}
	if (rows->has_growth) {
		static const char *const arrows[2][3] = {{"v", "=", "^"},
							 {"\xe2\x96\xbc", "=", "\xe2\x96\xb2"}};
		double steady = 1024 + (double)live / 1000; /* a second: less is no way to go */
		int way = rows->growth >= steady ? 1 : rows->growth <= -steady ? -1 : 0;
		top_growth(text, rows->growth);
		if (pen_room(&pen) > 10)
			putf(&pen,
			     way > 0   ? TOP_GROWS
			     : way < 0 ? TOP_SHRINKS
				       : TOP_PLAIN,
			     " %s%s/s", arrows[look->utf8][way + 1], text);
	}
	if (p->has & PROFILE_HAS_PEAK) {
		top_bytes(text, p->totals.peak_bytes);
		top_clock(other, p->totals.peak_time_ns);
		if (!(p->has & PROFILE_HAS_TIMES) ||
		    !put_partf(&pen, TOP_PLAIN, "peak %s@%s", text, other))
			put_partf(&pen, TOP_PLAIN, "peak %s", text);
	}
	if (rss) {
		top_bytes(text, rss);
		put_partf(&pen, TOP_PLAIN, "RSS %s", text);
	}
	if (rss > live && p->has & PROFILE_HAS_LIVE) {
		bool large = rss - live > GAP_LEAST_BYTES && rss - live > live / 2;
		top_bytes(text, rss - live);
		put_partf(&pen, large ? TOP_WARN : TOP_PLAIN, "gap %s%s", text, large ? " !" : "");
	}
	top_count(text, p->totals.live_blocks);
	if (p->has & PROFILE_HAS_LIVE && !(p->has & PROFILE_LACKS_BLOCKS))
		put_partf(&pen, TOP_PLAIN, "blocks %s", text);
	top_count(text, p->totals.threads);
	if (p->totals.threads > 1)
		put_partf(&pen, TOP_PLAIN, "threads %s", text);
	return pen_end(&pen, to);
}

/* A graph with a value for each column, scaled to the greatest. */
static void put_graph(struct pen *pen, const uint64_t *values, size_t columns)
{
	uint64_t most = 0;
	for (size_t i = 0; i < columns; i++)
		if (values[i] > most)
			most = values[i];
	for (size_t i = 0; i < columns; i++)
		put(pen, TOP_PLAIN, number_level(values[i], most, pen->utf8));
}

enum { GRAPH_MAX = 256 };

static size_t heap_graph(uint64_t values[GRAPH_MAX], size_t columns, const struct profile *p,
			 const struct top_view *v)
{
	const struct profile_history *h = &p->history;
	bool history = h->slot_count && h->bytes;
	size_t count = history ? h->slot_count : v->point_count;
	if (columns > count)
		columns = count;
	for (size_t i = 0; i < columns; i++) {
		values[i] = 0;
		/* The greatest of a column's part: a peak that shows nowhere is a lie. */
		for (size_t s = i * count / columns; s < (i + 1) * count / columns; s++) {
			uint64_t bytes = history ? h->bytes[s] : v->points[s].live_bytes;
			if (bytes > values[i])
				values[i] = bytes;
		}
	}
	return columns;
}

static size_t resident_graph(uint64_t values[GRAPH_MAX], size_t columns, const struct profile *p)
{
	uint64_t now = 0;
	uint32_t at = 0;
	if (!p->rss_count || !p->duration_ns)
		return 0;
	for (size_t i = 0; i < columns; i++) {
		double until = (double)p->duration_ns * (double)(i + 1) / (double)columns;
		values[i] = now;
		for (; at < p->rss_count && (double)p->rss[at].time_ns <= until; at++) {
			now = p->rss[at].bytes;
			if (now > values[i])
				values[i] = now;
		}
	}
	return columns;
}

static int graphs_line(struct top_lines *to, const struct profile *p, const struct top_view *v,
		       const struct top_look *look)
{
	struct pen pen;
	uint64_t values[GRAPH_MAX];
	char text[TOP_NUMBER];
	pen_begin(&pen, look);
	bool both = pen.width >= 40 && p->rss_count && (p->history.slot_count || v->point_count);
	size_t mark = v->mark && pen.width >= 60 ? 14 : 0;
	size_t room = pen.width > mark + 16 ? pen.width - mark - 16 : 4;
	size_t columns = both ? room / 2 : room;
	if (columns > GRAPH_MAX)
		columns = GRAPH_MAX;
	size_t n = heap_graph(values, columns, p, v);
	if (n) {
		put(&pen, TOP_DIM, "heap ");
		put_graph(&pen, values, n);
	}
	n = both || !n ? resident_graph(values, n ? n : columns, p) : 0;
	if (n) {
		put_part(&pen, TOP_DIM, "RSS ");
		put_graph(&pen, values, n);
	}
	if (v->mark) {
		top_clock(text, v->mark->time_ns);
		put_partf(&pen, TOP_WARN, "mark %s", text);
	}
	return pen_end(&pen, to);
}

/* The numbers below are of a small part of the program's memory. */
static int unseen_line(struct top_lines *to, const struct profile *p, const struct top_look *look)
{
	char first[256];
	snprintf(first, sizeof first, "! %.*s", (int)strcspn(p->unseen, "\n"), p->unseen);
	return top_frame_text(to, first, TOP_WARN, look);
}

static int finding_line(struct top_lines *to, const struct profile *p, const struct findings *f,
			const struct top_look *look)
{
	struct pen pen;
	uint32_t count = f ? findings_count(f) : 0;
	pen_begin(&pen, look);
	if (!count) {
		const char *words = f ? p->complete ? "no findings" : "no findings so far"
				    : look->thread ? "findings are of all threads together"
						   : "";
		put_name(&pen, TOP_DIM, words, pen.width, FIT_END);
		return pen_end(&pen, to);
	}
	const struct finding *first = findings_get(f, 0);
	enum top_style style = first->severity == FINDING_LOW ? TOP_PLAIN : TOP_WARN;
	char more[32] = "";
	if (count > 1 && pen.width >= 60)
		snprintf(more, sizeof more, " (+%" PRIu32 " more)", count - 1);
	put(&pen, style, "! ");
	put_name(&pen, style, first->summary, pen_room(&pen) - strlen(more), FIT_END);
	put(&pen, TOP_DIM, more);
	return pen_end(&pen, to);
}

int top_frame_head(struct top_lines *out, const struct profile *p, const struct findings *f,
		   const struct top_rows *rows, const struct top_view *v,
		   const struct top_look *look)
{
	int rc = title_line(out, p, v, look);
	if (rc == 0 && p->unseen)
		rc = unseen_line(out, p, look);
	if (rc == 0)
		rc = numbers_line(out, p, rows, look);
	if (rc == 0)
		rc = graphs_line(out, p, v, look);
	return rc == 0 ? finding_line(out, p, f, look) : rc;
}

/* ---- table */

/* What fits: with each column the names still have some 20 columns. */
struct columns {
	bool growth, blocks, age, trend, error;
};

static struct columns columns_for(const struct profile *p, const struct top_view *v, size_t width)
{
	bool sampled = p->errors != NULL;
	return (struct columns){
		.growth = width >= 36 && (p->has & PROFILE_HAS_TIMES || v->mark),
		.blocks = width >= 46 && !(p->has & PROFILE_LACKS_BLOCKS),
		.age = width >= 56 && p->has & PROFILE_HAS_LIFETIMES,
		.trend = width >= 72 && p->history.row_count,
		.error = width >= 60 && sampled,
	};
}

enum { WIDE_NUMBER = 7, WIDE_AGE = 9, WIDE_ERROR = 7 };

static void put_right(struct pen *pen, enum top_style style, const char *text, size_t columns)
{
	size_t used = words_columns(text);
	pad(pen, pen->columns + (columns > used ? columns - used : 1));
	put(pen, style, text);
}

static const char *first_column(enum top_sort sort)
{
	return sort == TOP_BY_PEAK ? "PEAK" : sort == TOP_BY_ALLOCATED ? "ALLOC" : "LIVE";
}

static const char *first_of_names(enum top_group group)
{
	static const char *const names[] = {
		[TOP_SITES] = "SITE",
		[TOP_FUNCTIONS] = "FUNCTION",
		[TOP_FILES] = "FILE",
		[TOP_MODULES] = "MODULE",
	};
	return names[group];
}

int top_frame_columns(struct top_lines *out, const struct profile *p, const struct top_view *v,
		      const struct top_look *look)
{
	struct pen pen;
	struct columns c = columns_for(p, v, look->width);
	pen_begin(&pen, look);
	put_right(&pen, TOP_PLAIN, first_column(v->sort), WIDE_NUMBER);
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
		put_part(&pen, TOP_PLAIN, "TREND   ");
	put_part(&pen, TOP_PLAIN, first_of_names(v->group));
	pad(&pen, pen.width);
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
	const struct profile_frame *f = &p->frames[frame];
	size_t room = pen_room(pen);
	if (f->file) {
		put_name(pen, TOP_PLAIN, without_folders(f->file), room > 24 ? room / 2 : room,
			 FIT_NAME);
		if (f->line)
			putf(pen, TOP_PLAIN, ":%" PRIu32, f->line);
	} else if (f->module < p->module_count && !strstr(f->function, "+0x")) {
		put_name(pen, TOP_PLAIN, profile_module_name(p, f->module),
			 room > 24 ? room / 3 : room, FIT_NAME);
	}
	if (pen_room(pen) < 6)
		return;
	if (pen_room(pen) < room)
		put(pen, TOP_PLAIN, " ");
	put_name(pen, TOP_PLAIN, f->function, pen_room(pen), FIT_FUNCTION);
}

/* Who called it: sites of one line differ in that. `callers` are those that tell it from other rows,
 * if there are such. */
static void put_caller(struct pen *pen, const struct profile *p, uint32_t site, const char *callers)
{
	uint32_t node = p->sites[site].node;
	if (node >= p->node_count || pen_room(pen) < CALLER_LEAST)
		return;
	if (callers) {
		put(pen, TOP_DIM, pen->utf8 ? " \xe2\x86\x90 " : " <- ");
		put_name(pen, TOP_DIM, callers, pen_room(pen), FIT_NAME);
		return;
	}
	for (node = p->nodes[profile_first_user_node(p, node)].parent; node < p->node_count;
	     node = p->nodes[node].parent)
		if (p->frames[p->nodes[node].frame].user)
			break;
	if (node >= p->node_count)
		return;
	put(pen, TOP_DIM, pen->utf8 ? " \xe2\x86\x90 " : " <- ");
	put_name(pen, TOP_DIM, p->frames[p->nodes[node].frame].function, pen_room(pen),
		 FIT_FUNCTION);
}

static void put_row_name(struct pen *pen, const struct profile *p, const struct top_row *row,
			 enum top_group group, const char *callers)
{
	char more[48] = "";
	if (row->sites > 1 && group != TOP_SITES)
		snprintf(more, sizeof more, " (%" PRIu32 " sites)", row->sites);
	size_t reserved = strlen(more) + 12 < pen_room(pen) ? strlen(more) : 0;
	size_t room = pen_room(pen) - reserved;
	const struct profile_frame *f =
		group != TOP_MODULES && row->name < p->frame_count ? &p->frames[row->name] : NULL;
	if (group == TOP_MODULES && row->name < p->module_count)
		put_name(pen, TOP_PLAIN, profile_module_name(p, row->name), room, FIT_NAME);
	else if (!f)
		put_name(pen, TOP_DIM, "[stack unknown]", room, FIT_END);
	else if (group == TOP_SITES) {
		size_t behind = callers ? words_columns(callers) + 4 : 0;
		behind = behind < room / 2 ? behind : room / 2;
		pen->width -= behind;
		put_place(pen, p, row->name);
		pen->width += behind;
		put_caller(pen, p, row->site, callers);
	} else if (group == TOP_FUNCTIONS)
		put_name(pen, TOP_PLAIN, f->function, room, FIT_FUNCTION);
	else if (f->file)
		put_name(pen, TOP_PLAIN, f->file, room, FIT_NAME);
	else
		put_name(pen, TOP_PLAIN, profile_module_name(p, f->module), room, FIT_NAME);
	if (reserved)
		put(pen, TOP_DIM, more);
}

static void put_age(struct pen *pen, const struct top_row *row)
{
	static const char *const arrows[2][3] = {{"v", "", "^"},
						 {"\xe2\x86\x93", "", "\xe2\x86\x91"}};
	char text[TOP_NUMBER], age[TOP_NUMBER + 8];
	top_age(text, row->age_ns);
	snprintf(age, sizeof age, "%s%s", text, arrows[pen->utf8][row->age_trend + 1]);
	put_right(pen, TOP_PLAIN, row->has_age ? age : "-", WIDE_AGE);
}

static int row_line(struct top_lines *to, const struct profile *p, const struct top_row *row,
		    const char *callers, const struct top_view *v, const struct top_look *look)
{
	struct pen pen;
	struct columns c = columns_for(p, v, look->width);
	char text[TOP_NUMBER];
	pen_begin(&pen, look);
	pen.line.key = row->key;
	top_bytes(text, v->sort == TOP_BY_PEAK        ? row->peak_bytes
			: v->sort == TOP_BY_ALLOCATED ? row->allocated_bytes
						      : row->live_bytes);
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
		top_count(text, row->live_blocks);
		put_right(&pen, TOP_PLAIN, text, WIDE_NUMBER);
	}
	if (c.age)
		put_age(&pen, row);
	pad(&pen, pen.columns + 2);
	if (c.trend) {
		size_t begin = pen.columns;
		if (row->has_trend)
			put_graph(&pen, row->trend, TOP_TREND);
		pad(&pen, begin + TOP_TREND + 2);
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
	pad(&pen, 4);
	if (row->sites > 1)
		putf(&pen, TOP_DIM, "largest of %" PRIu32 " sites:", row->sites);
	else
		put(&pen, TOP_DIM, profile_via_name(s->via));
	top_bytes(text, s->allocated_bytes);
	top_count(other, s->allocations);
	if (p->has & PROFILE_HAS_ALLOCATED)
		put_partf(&pen, TOP_DIM, "allocated %s in %s", text, other);
	if (p->has & PROFILE_HAS_FREES && s->allocations)
		put_partf(&pen, TOP_DIM, "freed %.0f %%",
			  100 * (double)s->frees / (double)s->allocations);
	top_bytes(text, s->peak_bytes);
	if (p->has & PROFILE_HAS_PEAK)
		put_partf(&pen, TOP_DIM, "at peak %s", text);
	uint32_t node = s->release_count && s->release_first < p->release_count
				? p->releases[s->release_first].node
				: PROFILE_NONE;
	if (node < p->node_count && put_part(&pen, TOP_DIM, "freed by "))
		put_place(&pen, p, p->nodes[profile_first_user_node(p, node)].frame);
	return pen_end(&pen, to);
}

static int stack_lines(struct top_lines *to, const struct profile *p, const struct top_row *row,
		       const struct top_look *look)
{
	int rc = facts_line(to, p, row, look);
	unsigned depth = 0;
	for (uint32_t node = p->sites[row->site].node; rc == 0 && node < p->node_count;
	     node = p->nodes[node].parent) {
		struct pen pen;
		const struct profile_frame *f = &p->frames[p->nodes[node].frame];
		pen_begin(&pen, look);
		pen.line.stack = true;
		pad(&pen, 4);
		if (++depth > STACK_FRAMES) {
			put(&pen, TOP_DIM, "... more callers: heft report --full");
			return pen_end(&pen, to);
		}
		put_place(&pen, p, p->nodes[node].frame);
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
	/* Without memory for it, rows that read the same do. */
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
		snprintf(more, sizeof more, "%7s %" PRIu32 " more (-n %" PRIu32 ")", "...",
			 rows.count - (uint32_t)look->limit, rows.count);
	if (rc == 0 && more[0])
		rc = top_frame_text(&lines, more, TOP_PLAIN, look);
	for (size_t i = 0; rc == 0 && i < lines.count; i++)
		fprintf(out, "%s\n", lines.lines[i].text);
	top_lines_free(&lines);
	top_rows_free(&rows);
	return rc;
}
