/* Inside src/report: numbers as people read them (report_words.c), and places fitted into a line
 * (report_names.c). */
#ifndef HEFT_REPORT_REPORT_WORDS_H
#define HEFT_REPORT_REPORT_WORDS_H

#include "hosted/name_words.h"
#include "hosted/number_words.h"
#include "profile/measure.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct place_words {
	char text[96];
};
struct words words_growth(uint64_t from, uint64_t to); /* +12.3 MiB, -5 B, 0 B */
struct words words_exact_bytes(uint64_t bytes);        /* 12,345,678 B */
struct words words_blocks(uint64_t n);                 /* 1 block, 12,345 blocks */
struct words words_processes(uint64_t n);              /* 1 process, 201 processes */
/* "3 threads in 1 process", "4 threads", "201 processes": what is known; "" if nothing is. */
struct place_words words_threads(const struct profile *p);
/* The error that follows an estimate. */
struct words words_within(uint64_t error_bytes);      /* " +- 1.2 MiB" */
struct words words_within_count(uint64_t error);      /* " +- 1,234" */
struct words words_rate(uint64_t n, uint64_t ns);     /* 9.9 M/s */
struct words words_share(uint64_t part, uint64_t of); /* 12.3 %; "-" if `of` is 0 */
/* words_within for the bytes of an estimate; "" in an exact profile. */
struct words words_error(const struct profile *p, uint64_t error_bytes);
/* How it ended: exit status 0, killed by signal 9 (SIGKILL) ... */
static inline struct end_words words_end(const struct profile *p)
{
	struct how_ended end = profile_how_ended(p);
	return words_of_end(&end);
}
struct words words_value(uint64_t value, enum measure_id measure); /* in its unit */

/* "function at file:line" in at most `max` columns: a long path is shortened from the left, a long
 * function in the middle. Returns the columns used. */
size_t words_print_place(FILE *out, const struct profile *p, uint32_t frame, size_t max);
/* The same with what is special about it on this stack. */
size_t words_print_frame(FILE *out, const struct profile *p, uint32_t node, size_t max);

enum style {
	STYLE_PLAIN,
	STYLE_BOLD,
	STYLE_DIM,
	STYLE_WARN,
	STYLE_HIGH,
	STYLE_MEDIUM,
	STYLE_LOW,
};
void words_style(FILE *out, bool color, enum style style);
/* Prints in the style, then returns to plain. */
void words_print_styled(FILE *out, bool color, enum style style, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* A bar as long as part / whole of `columns`; every part above 0 shows. */
void words_print_bar(FILE *out, uint64_t part, uint64_t whole, size_t columns, bool utf8);
/* One column of a histogram, as high as part / whole. */
void words_print_level(FILE *out, uint64_t part, uint64_t whole, bool utf8);

#endif
