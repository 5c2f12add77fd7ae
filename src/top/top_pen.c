/* Lines of text (top_pen.h). Only pen_name takes foreign text, so a line holds printable characters only
 * (without UTF-8, printable ASCII only).
 *
 * Invariants: spans lie inside their line and do not overlap; a line's columns never exceed the
 * width. */
#include "top/top_pen.h"

#include "hosted/error.h"
#include "hosted/name_words.h"
#include "hosted/number_words.h"
#include "hosted/vector.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_LINE = 8192 };

int top_lines_add(struct top_lines *to, const struct top_line *line)
{
	if (!array_reserve(to->lines, to->count, to->capacity, 1))
		return HEFT_ENOMEM;
	to->lines[to->count++] = *line;
	return 0;
}

void pen_begin(struct pen *pen, const struct top_look *look)
{
	*pen = (struct pen){.width = look->width, .utf8 = look->utf8};
	if (pen->width > LONGEST_LINE)
		pen->width = LONGEST_LINE;
	pen->out = open_memstream(&pen->text, &pen->size);
}

int pen_end(struct pen *pen, struct top_lines *to)
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

size_t pen_left(const struct pen *pen)
{
	return pen->width - pen->columns;
}

void pen_span(struct pen *pen, long from, enum top_style style)
{
	struct top_line *line = &pen->line;
	long to = pen->out ? ftell(pen->out) : 0;
	if (style == TOP_PLAIN || from < 0 || to <= from || to > UINT16_MAX ||
	    line->span_count == sizeof line->spans / sizeof *line->spans)
		return;
	line->spans[line->span_count++] = (struct top_span){(uint16_t)from, (uint16_t)to, style};
}

bool pen_put(struct pen *pen, enum top_style style, const char *text)
{
	size_t columns = words_columns(text);
	if (!pen->out || columns > pen_left(pen))
		return false;
	long from = ftell(pen->out);
	fputs(text, pen->out);
	pen->columns += columns;
	pen_span(pen, from, style);
	return true;
}

struct pen_text pen_format(const char *fmt, ...)
{
	struct pen_text text;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text.text, sizeof text.text, fmt, ap);
	va_end(ap);
	return text;
}

void pen_pad(struct pen *pen, size_t column)
{
	while (pen->out && pen->columns < column && pen_left(pen)) {
		putc(' ', pen->out);
		pen->columns++;
	}
}

/* Writes "?" for each character that is not ASCII. */
static void put_ascii(FILE *out, const char *text)
{
	for (const unsigned char *s = (const unsigned char *)text; *s; s++)
		if (*s < 0x80)
			putc(*s, out);
		else if ((*s & 0xc0) == 0xc0)
			putc('?', out);
}

void pen_name(struct pen *pen, enum top_style style, const char *name, size_t max, enum pen_fit fit)
{
	char *text = NULL;
	size_t size, space = pen_left(pen) < max ? pen_left(pen) : max;
	FILE *out = pen->out ? open_memstream(&text, &size) : NULL;
	if (!out)
		return;
	if (fit == PEN_FUNCTION)
		words_print_function(out, name, space);
	else if (fit == PEN_END && words_columns(name) > space && space > 3)
		words_print(out, name, space - 3);
	else
		words_print_fit(out, name, space);
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

bool pen_part(struct pen *pen, enum top_style style, const char *text)
{
	size_t gap = pen->columns ? 2 : 0;
	if (gap + words_columns(text) > pen_left(pen))
		return false;
	pen_pad(pen, pen->columns + gap);
	return pen_put(pen, style, text);
}

void pen_graph(struct pen *pen, const uint64_t *values, size_t columns)
{
	uint64_t most = 0;
	for (size_t i = 0; i < columns; i++)
		if (values[i] > most)
			most = values[i];
	for (size_t i = 0; i < columns; i++)
		pen_put(pen, TOP_PLAIN, number_level(values[i], most, pen->utf8));
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
	pen_name(&pen, style, text, pen.width, PEN_END);
	return pen_end(&pen, out);
}
