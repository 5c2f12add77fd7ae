/* Inside src/top: writes one line of text at a time, with styles, never wider than the line may be. */
#ifndef HEFT_TOP_TOP_PEN_H
#define HEFT_TOP_TOP_PEN_H

#include "top/top.h"

#include <stdio.h>

struct pen {
	FILE *out;
	char *text;
	size_t size;
	size_t columns, width;
	bool utf8;
	struct top_line line;
};

void pen_begin(struct pen *pen, const struct top_look *look);
int pen_end(struct pen *pen, struct top_lines *to); /* 0 or HEFT_ENOMEM */
size_t pen_left(const struct pen *pen);             /* columns */

/* Writes heft's own text, whose width is known. Returns false, and writes nothing, if it does not fit. */
bool pen_put(struct pen *pen, enum top_style style, const char *text);
/* The same, after two blanks if something stands before it. */
bool pen_part(struct pen *pen, enum top_style style, const char *text);

struct pen_text {
	char text[512];
};
struct pen_text pen_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
#define pen_putf(pen, style, ...) pen_put((pen), (style), pen_format(__VA_ARGS__).text)
#define pen_partf(pen, style, ...) pen_part((pen), (style), pen_format(__VA_ARGS__).text)

void pen_pad(struct pen *pen, size_t column); /* blanks up to this column */
/* Gives the text from this byte on a style. */
void pen_span(struct pen *pen, long from, enum top_style style);
/* A graph with a value for each column, scaled to the greatest. */
void pen_graph(struct pen *pen, const uint64_t *values, size_t columns);

enum pen_fit { PEN_NAME, PEN_FUNCTION, PEN_END }; /* cuts the middle, the arguments, the end */
/* Writes foreign text in at most `max` columns. */
void pen_name(struct pen *pen, enum top_style style, const char *name, size_t max,
	      enum pen_fit fit);

#endif
