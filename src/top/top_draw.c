/* Draws the screen: the head, the table or an overlay in its place, the bottom line.
 *
 * Invariant: it draws exactly as many lines as the terminal has. */
#include "top/top_state.h"

#include "hosted/compare.h"
#include "hosted/error.h"
#include "profile/process_images.h"
#include "top/top_numbers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define OLD_NS 2500000000u /* data come about once a second, and take up to one to be written */

static const char *const help[] = {
	"s       sort by live, grew, blocks, age, peak, allocated",
	"g       rows are sites, functions, files, modules",
	"t       one thread only: its name or number",
	"/       only stacks with a frame that matches",
	"Enter   the stack of the row; Esc closes it",
	"m       mark: growth from here; again: remove it",
	"x       snapshot: the recording so far as a file",
	"space   pause and go on",
	"l       ledger: where the resident memory is, now",
	"o       the program's output (heft top -- CMD)",
	"w       how to open the web page",
	"arrows, PgUp, PgDn, Home, End   move; the first",
	"        row sorts anew, others stay where they are",
	"q       quit",
	"",
	"AGE p50: half of the freed blocks lived less long.",
	"TREND: live bytes over the whole run.",
	"gap: resident memory that no live block asked for.",
	"!  the first finding; heft report has them all.",
	NULL,
};

static int overlay_help(struct top_lines *out, const struct top_look *look)
{
	int rc = 0;
	for (size_t i = 0; rc == 0 && help[i]; i++)
		rc = top_frame_text(out, help[i], TOP_PLAIN, look);
	return rc;
}

static int overlay_output(const struct top_state *s, struct top_lines *out, size_t lines_free,
			  const struct top_look *look)
{
	int rc = 0;
	const char *text = s->output ? s->output : "";
	const char *at = text + strlen(text);
	if (!*text)
		return top_frame_text(out,
				      s->output ? "the program has written nothing so far"
						: "the program's output goes where it was sent",
				      TOP_DIM, look);
	if (at > text && at[-1] == '\n')
		at--;
	for (size_t lines = 0; at > text; at--)
		if (at[-1] == '\n' && ++lines == lines_free)
			break;
	while (rc == 0 && *at) {
		size_t length = strcspn(at, "\n");
		char *line = strndup(at, length);
		for (char *c = line; c && *c; c++) /* tabs and returns must not move the cursor */
			if (*c == '\t' || *c == '\r')
				*c = ' ';
		rc = line ? top_frame_text(out, line, TOP_PLAIN, look) : HEFT_ENOMEM;
		free(line);
		at += length + (at[length] == '\n');
	}
	return rc;
}

static int overlay_ledger(const struct top_state *s, struct top_lines *out,
			  const struct top_look *look)
{
	int rc = 0;
	for (const char *at = s->ledger ? s->ledger : ""; rc == 0 && *at;) {
		size_t length = strcspn(at, "\n");
		char *line = strndup(at, length);
		rc = line ? top_frame_text(out, line, TOP_PLAIN, look) : HEFT_ENOMEM;
		free(line);
		at += length + (at[length] == '\n');
	}
	return rc;
}

static int by_allocated(const void *a, const void *b)
{
	const struct profile_thread *x = a, *y = b;
	return compare_numbers(y->allocated_bytes, x->allocated_bytes);
}

static int overlay_threads(const struct top_state *s, struct top_lines *out, size_t lines_free,
			   const struct top_look *look)
{
	const struct profile *p = s->profile;
	uint32_t count = 0;
	if (!p || !p->thread_count)
		return top_frame_text(out, "this recording has no threads", TOP_DIM, look);
	struct profile_thread *order = profile_whole_threads(p, &count);
	int rc = order ? top_frame_text(out, "  ALLOC'D       TID  THREAD", TOP_HEAD, look)
		       : HEFT_ENOMEM;
	if (rc == 0)
		qsort(order, count, sizeof *order, by_allocated);
	for (uint32_t i = 0; rc == 0 && i < count && i + 1 < lines_free; i++) {
		char bytes[TOP_NUMBER], line[256];
		top_bytes(bytes, order[i].allocated_bytes);
		snprintf(line, sizeof line, "%9s %9" PRId32 "  %.200s", bytes, order[i].tid,
			 order[i].name && *order[i].name ? order[i].name : "?");
		rc = top_frame_text(out, line, TOP_PLAIN, look);
	}
	free(order);
	return rc;
}

/* Lists as many keys as fit, and always [?]. */
static void key_words(char *text, size_t size, size_t width, const struct top_state *s)
{
	static const char *const words[] = {"[q]uit",       "[s]ort",   "[g]roup",  "[/]filter",
					    "[Enter]stack", "[m]ark",   "[t]hread", "[x]snapshot",
					    "[space]pause", "[l]edger", "[w]eb",    "[o]utput"};
	size_t used = (size_t)snprintf(text, size, "[?]");
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		if (words[i][1] == 'o' && !s->o.own_program)
			continue;
		if (used + 1 + strlen(words[i]) > width || used + 32 > size)
			break;
		used += (size_t)snprintf(text + used, size - used, " %s", words[i]);
	}
}

static int bottom_line(const struct top_state *s, struct top_lines *out,
		       const struct top_look *look)
{
	char text[1024];
	enum top_style style = TOP_WARN;
	if (s->prompt == PROMPT_FILTER)
		snprintf(text, sizeof text, "/%s_", s->typed);
	else if (s->prompt == PROMPT_THREAD)
		snprintf(text, sizeof text, "thread (empty: all): %s_", s->typed);
	else if (s->prompt == PROMPT_QUIT)
		snprintf(text, sizeof text, "%s",
			 look->width >= 66
				 ? "it still runs: [k]ill it  [d]etach, it goes on  other key: back"
				 : "[k]ill [d]etach");
	else if (s->message[0])
		snprintf(text, sizeof text, "%s", s->message);
	else if (s->overlay)
		snprintf(text, sizeof text, "any key: back");
	else {
		key_words(text, sizeof text, look->width, s);
		style = TOP_DIM;
	}
	return top_frame_text(out, text, style, look);
}

static void state_words(const struct top_state *s, char *text, size_t size)
{
	char age[TOP_NUMBER];
	top_age(age, s->age_ns);
	if (s->ended)
		snprintf(text, size, "%s", s->end_words);
	else if (s->paused)
		snprintf(text, size, "paused");
	else if (s->age_ns > OLD_NS)
		snprintf(text, size, "data %s old", age);
	else
		snprintf(text, size, "running");
}

/* The first row to show, so that the cursor is on the screen and the last lines are not empty. */
static uint32_t first_row(const struct top_state *s, size_t lines_free)
{
	uint32_t first = s->first,
		 lines = lines_free < UINT32_MAX ? (uint32_t)lines_free : UINT32_MAX;
	uint32_t last = s->rows.count > lines ? s->rows.count - lines : 0;
	if (first > last)
		first = last;
	if (s->cursor < first)
		first = s->cursor;
	if (s->cursor - first >= lines)
		first = s->cursor - lines + 1;
	return first;
}

/* How many of the table's lines to skip, so that the cursor's row is on the screen with as much of its
 * stack as fits. *cursor is the row's line in the table. */
static size_t lines_above(const struct top_state *s, const struct top_lines *table,
			  size_t lines_free, size_t *cursor)
{
	size_t at = 0, end;
	for (uint32_t row = s->first; at < table->count; at++)
		if (!table->lines[at].stack && row++ == s->cursor)
			break;
	for (end = at + 1; end < table->count && table->lines[end].stack; end++)
		;
	*cursor = at;
	return end <= lines_free ? 0 : end - lines_free < at ? end - lines_free : at;
}

/* Moves the lines [first, end) of one list to the end of another, which owns them from then on. */
static int take_lines(struct top_lines *to, struct top_lines *from, size_t first, size_t end)
{
	for (size_t i = first; i < end && i < from->count; i++) {
		if (top_lines_add(to, &from->lines[i]) < 0)
			return HEFT_ENOMEM;
		from->lines[i].text = NULL;
	}
	return 0;
}

/* A low screen shows the first of these that fit: title, numbers, finding, graphs. */
static int draw_head(struct top_state *s, size_t height, struct top_lines *out,
		     const struct top_look *look)
{
	struct top_lines head = {0};
	int rc = top_frame_head(&head, s->profile, s->findings, &s->rows, &s->view, look);
	if (rc == 0)
		rc = take_lines(out, &head, 0, height >= 7 ? 2 : 1);
	if (rc == 0 && height >= 12)
		rc = take_lines(out, &head, 2, 3);
	if (rc == 0 && height >= 9)
		rc = take_lines(out, &head, 3, 4);
	top_lines_free(&head);
	return rc;
}

static int draw_table(struct top_state *s, size_t height, size_t lines_free, struct top_lines *out,
		      const struct top_look *look, size_t *cursor)
{
	struct top_lines table = {0};
	size_t above = out->count;
	int rc = 0;
	if (height >= 6 && lines_free > 1) {
		rc = top_frame_columns(out, s->profile, &s->view, look);
		lines_free--;
		above++;
	}
	s->page = lines_free;
	s->first = first_row(s, lines_free);
	struct top_look part = *look; /* only rows that may be on the screen */
	part.first = s->first;
	part.limit = lines_free;
	if (rc == 0)
		rc = top_frame_rows(&table, s->profile, &s->rows, &s->view, &part);
	if (rc == 0 && table.count) {
		size_t skip = lines_above(s, &table, lines_free, cursor);
		rc = take_lines(out, &table, skip, skip + lines_free);
		*cursor += above - skip;
	} else if (rc == 0) {
		rc = top_frame_text(out,
				    s->filter[0] ? "nothing matches" : "nothing allocated so far",
				    TOP_DIM, look);
	}
	top_lines_free(&table);
	return rc;
}

int top_state_draw(struct top_state *s, size_t width, size_t height, struct top_lines *out,
		   size_t *cursor)
{
	char state[128];
	const struct top_look look = {
		.width = width ? width : 1,
		.utf8 = s->o.utf8,
		.state = state,
		.thread = top_state_thread(s),
		.expanded = s->expanded,
		.limit = SIZE_MAX,
	};
	int rc = 0;
	*cursor = SIZE_MAX;
	state_words(s, state, sizeof state);
	if (s->profile)
		rc = draw_head(s, height, out, &look);
	else
		rc = top_frame_text(out, s->ended ? s->end_words : "heft top: waiting for data ...",
				    TOP_TITLE, &look);
	size_t lines_free = height > out->count + 1 ? height - out->count - 1 : 1;
	size_t until = out->count + lines_free;
	if (rc == 0 && s->overlay == HELP)
		rc = overlay_help(out, &look);
	else if (rc == 0 && s->overlay == OUTPUT)
		rc = overlay_output(s, out, lines_free, &look);
	else if (rc == 0 && s->overlay == LEDGER)
		rc = overlay_ledger(s, out, &look);
	else if (rc == 0 && s->overlay == THREADS)
		rc = overlay_threads(s, out, lines_free, &look);
	else if (rc == 0 && s->profile)
		rc = draw_table(s, height, lines_free, out, &look, cursor);
	while (out->count > until)
		free(out->lines[--out->count].text);
	while (rc == 0 && out->count < until)
		rc = top_frame_text(out, "", TOP_PLAIN, &look);
	return rc == 0 ? bottom_line(s, out, &look) : rc;
}
