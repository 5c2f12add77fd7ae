/* Writes the lines above the table: what runs and how it ended, numbers, graphs, the first finding. A line
 * that is too narrow leaves out what matters less. */
#include "top/top_pen.h"

#include "hosted/name_words.h"
#include "hosted/number_words.h"
#include "hosted/program_name.h"
#include "profile/process_groups.h"
#include "profile/process_images.h"
#include "top/top_numbers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void top_end_words(char *text, size_t size, const struct profile *p)
{
	struct how_ended end = profile_how_ended(p);
	switch (end.kind) {
	case END_EXIT:
	case END_SIGNAL:
	case END_OOM: snprintf(text, size, "ended: %s", words_of_end(&end).text); return;
	case END_DETACHED:
	case END_EXEC: snprintf(text, size, "recording ended"); return;
	case END_UNKNOWN: snprintf(text, size, "ended"); return;
	case END_RUNNING:
	case END_CUT: break;
	}
	snprintf(text, size, "%s",
		 !(p->run.has & PROFILE_HAS_TIMES) ? "a snapshot"
		 : p->run.complete                 ? "ended"
						   : "running");
}

/* What the first process was started as. */
static const char *first_program(const struct profile *p, char name[PROGRAM_NAME])
{
	const struct profile_process *first = p->process_count ? &p->processes[0] : NULL;
	return program_name(name, first ? first->exe : NULL,
			    first && first->argc ? first->argv[0]
			    : p->run.argc        ? p->run.argv[0]
						 : NULL);
}

/* Puts as much of the state as fits: all of it, or what stands before the bracket, or before the colon
 * ("ended: exit status 0"). */
static void put_state(struct pen *pen, const char *state)
{
	enum top_style style = strcmp(state, "running") == 0 ? TOP_PLAIN : TOP_WARN;
	const char *bracket = strstr(state, " (");
	int before = bracket ? (int)(bracket - state) : 0;
	if (!pen_part(pen, style, state) &&
	    !(before && pen_partf(pen, style, "%.*s", before, state)))
		pen_partf(pen, style, "%.*s", (int)strcspn(state, ":"), state);
}

static int title_line(struct top_lines *to, const struct profile *p, const struct top_view *v,
		      const struct top_look *look)
{
	struct pen pen;
	char text[TOP_NUMBER], pid[32] = "";
	char program[PROGRAM_NAME];
	const char *name = first_program(p, program);
	pen_begin(&pen, look);
	if (p->run.pid)
		snprintf(pid, sizeof pid, " %" PRId32, p->run.pid);
	if (pen.width >= 60)
		pen_put(&pen, TOP_TITLE, "heft top  ");
	/* The pid and, unless it is very narrow, the time have their places before a long name. */
	size_t rest = strlen(pid) + (pen.width >= 30 ? 8 : 0), space = pen_left(&pen);
	pen_name(&pen, TOP_TITLE, name, space > rest + 4 ? space - rest : 4, PEN_NAME);
	pen_put(&pen, TOP_TITLE, pid);
	if (measure_known(p, MEASURE_DURATION)) {
		top_clock(text, p->run.duration_ns);
		pen_part(&pen, TOP_PLAIN, text);
	}
	if (look->state)
		put_state(&pen, look->state);
	if (profile_count_processes(p) > 1) {
		top_count(text, profile_count_processes(p));
		pen_partf(&pen, TOP_PLAIN, "%s processes", text);
	}
	if (look->thread && pen_left(&pen) > 16 && pen_part(&pen, TOP_WARN, "thread "))
		pen_name(&pen, TOP_WARN, look->thread, 20, PEN_NAME);
	if (v->filter && *v->filter && pen_left(&pen) > 8 && pen_part(&pen, TOP_WARN, "/"))
		pen_name(&pen, TOP_WARN, v->filter, 30, PEN_NAME);
	if (v->group != TOP_SITES || v->sort != TOP_BY_LIVE)
		pen_partf(&pen, TOP_PLAIN, "%s by %s", top_group_name(v->group),
			  top_sort_name(v->sort));
	top_bytes(text, p->run.rate_bytes);
	if (p->run.rate_bytes)
		pen_partf(&pen, TOP_PLAIN, "1 sample/%s", text);
	else if (p->run.format && strcmp(p->run.format, "heft") != 0)
		pen_partf(&pen, TOP_PLAIN, "%.20s", p->run.format);
	else
		pen_part(&pen, TOP_PLAIN, "exact");
	if (p->totals.dropped) {
		top_count(text, p->totals.dropped);
		pen_partf(&pen, TOP_WARN, "%s event%s missing", text,
			  p->totals.dropped == 1 ? "" : "s");
	}
	return pen_end(&pen, to);
}

static uint64_t resident_now(const struct profile *p)
{
	return p->run.rss_count ? p->run.rss[p->run.rss_count - 1].bytes : 0;
}

/* A gap between resident and live memory gets a mark if it is more than half of what is live, and more
 * than the program's text and libraries. */
#define GAP_LEAST_BYTES (32u << 20)

static int numbers_line(struct top_lines *to, const struct profile *p, const struct top_rows *rows,
			const struct top_look *look)
{
	struct pen pen;
	char text[TOP_NUMBER], other[TOP_NUMBER];
	uint64_t live = p->totals.live_bytes, rss = resident_now(p);
	pen_begin(&pen, look);
	top_bytes(text, live);
	if (measure_known(p, MEASURE_LIVE_BYTES))
		pen_partf(&pen, TOP_TITLE, "live %s", text);
	if (p->run.rate_bytes && p->estimates.total_errors.live_bytes && pen.width >= 60) {
		top_bytes(text, p->estimates.total_errors.live_bytes);
		pen_putf(&pen, TOP_PLAIN, " %s%s", look->utf8 ? "\xc2\xb1" : "+-", text);
	}
	if (rows->has_growth) {
		static const char *const arrows[2][3] = {{"v", "=", "^"},
							 {"\xe2\x96\xbc", "=", "\xe2\x96\xb2"}};
		double steady = 1024 +
				(double)live / 1000; /* less than this a second has no arrow */
		int way = rows->growth >= steady ? 1 : rows->growth <= -steady ? -1 : 0;
		top_growth(text, rows->growth);
		if (pen_left(&pen) > 10)
			pen_putf(&pen,
				 way > 0   ? TOP_GROWS
				 : way < 0 ? TOP_SHRINKS
					   : TOP_PLAIN,
				 " %s%s/s", arrows[look->utf8][way + 1], text);
	}
	if (measure_known(p, MEASURE_PEAK_BYTES)) {
		top_bytes(text, p->totals.peak_bytes);
		top_clock(other, p->totals.peak_time_ns);
		if (!measure_known(p, MEASURE_PEAK_TIME) ||
		    !pen_partf(&pen, TOP_PLAIN, "peak %s@%s", text, other))
			pen_partf(&pen, TOP_PLAIN, "peak %s", text);
	}
	if (rss) {
		top_bytes(text, rss);
		pen_partf(&pen, TOP_PLAIN, "RSS %s", text);
	}
	if (rss > live && measure_known(p, MEASURE_LIVE_BYTES)) {
		bool large = rss - live > GAP_LEAST_BYTES && rss - live > live / 2;
		top_bytes(text, rss - live);
		pen_partf(&pen, large ? TOP_WARN : TOP_PLAIN, "gap %s%s", text, large ? " !" : "");
	}
	top_count(text, p->totals.live_blocks);
	if (measure_known(p, MEASURE_LIVE_BLOCKS))
		pen_partf(&pen, TOP_PLAIN, "blocks %s", text);
	top_count(text, p->totals.threads);
	if (p->totals.threads > 1)
		pen_partf(&pen, TOP_PLAIN, "threads %s", text);
	return pen_end(&pen, to);
}

enum { GRAPH_MAX = 256 };

static size_t heap_graph(uint64_t values[GRAPH_MAX], size_t columns, const struct profile *p,
			 const struct top_view *v)
{
	const struct profile_history *h = &p->behaviour.history;
	bool history = h->slot_count && h->bytes;
	size_t count = history ? h->slot_count : v->point_count;
	if (columns > count)
		columns = count;
	for (size_t i = 0; i < columns; i++) {
		values[i] = 0;
		/* A column shows the greatest value of its time, so that every peak is seen. */
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
	if (!p->run.rss_count || !p->run.duration_ns)
		return 0;
	for (size_t i = 0; i < columns; i++) {
		double until = (double)p->run.duration_ns * (double)(i + 1) / (double)columns;
		values[i] = now;
		for (; at < p->run.rss_count && (double)p->run.rss[at].time_ns <= until; at++) {
			now = p->run.rss[at].bytes;
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
	bool both = pen.width >= 40 && p->run.rss_count &&
		    (p->behaviour.history.slot_count || v->point_count);
	size_t mark = v->mark && pen.width >= 60 ? 14 : 0;
	size_t space = pen.width > mark + 16 ? pen.width - mark - 16 : 4;
	size_t columns = both ? space / 2 : space;
	if (columns > GRAPH_MAX)
		columns = GRAPH_MAX;
	size_t n = heap_graph(values, columns, p, v);
	if (n) {
		pen_put(&pen, TOP_DIM, "heap ");
		pen_graph(&pen, values, n);
	}
	n = both || !n ? resident_graph(values, n ? n : columns, p) : 0;
	if (n) {
		pen_part(&pen, TOP_DIM, "RSS ");
		pen_graph(&pen, values, n);
	}
	if (v->mark) {
		top_clock(text, v->mark->time_ns);
		pen_partf(&pen, TOP_WARN, "mark %s", text);
	}
	return pen_end(&pen, to);
}

/* The program has much memory that heft does not see: the numbers below are of a small part. */
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
		const char *words = f ? p->run.complete ? "no findings" : "no findings so far"
				    : look->thread ? "findings are of all threads together"
						   : "";
		pen_name(&pen, TOP_DIM, words, pen.width, PEN_END);
		return pen_end(&pen, to);
	}
	const struct finding *first = findings_get(f, 0);
	enum top_style style = first->severity == FINDING_LOW ? TOP_PLAIN : TOP_WARN;
	char more[32] = "";
	if (count > 1 && pen.width >= 60)
		snprintf(more, sizeof more, " (+%.20s more)", words_count(count - 1).text);
	pen_put(&pen, style, "! ");
	pen_name(&pen, style, first->summary, pen_left(&pen) - strlen(more), PEN_END);
	pen_put(&pen, TOP_DIM, more);
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
