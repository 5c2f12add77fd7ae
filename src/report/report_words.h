/* Inside src/report: numbers as people read them, and foreign names made harmless. */
#ifndef HEFT_REPORT_REPORT_WORDS_H
#define HEFT_REPORT_REPORT_WORDS_H

#include "profile/profile.h"

#include <stdint.h>
#include <stdio.h>

struct words {
	char text[40];
};
struct words words_bytes(uint64_t bytes);             /* 12.3 MiB */
struct words words_count(uint64_t n);                 /* 12,345,678 */
struct words words_blocks(uint64_t n);                /* 1 block, 12,345 blocks */
struct words words_duration(uint64_t ns);             /* 1.234 s */
struct words words_rate(uint64_t n, uint64_t ns);     /* 9.9 M/s */
struct words words_share(uint64_t part, uint64_t of); /* 12.3 %; "-" of nothing */

/* Control characters and bytes that are no UTF-8 as \xNN. At most about `max` columns are shown,
 * the cut marked by "...". */
void words_print(FILE *out, const char *name, size_t max);
/* The same without what stands in <> and (): std::vector<..>::push_back(..). */
void words_print_short(FILE *out, const char *function, size_t max);
/* "function at file:line", long paths shortened from the left, the cut marked. */
void words_print_place(FILE *out, const struct profile *p, uint32_t frame);
/* The same with what is special about it on this stack. */
void words_print_frame(FILE *out, const struct profile *p, uint32_t node);
void words_print_command(FILE *out, const char *const *argv, uint32_t argc, size_t max);
/* Quoted for a shell if it has to be. */
void words_print_shell(FILE *out, const char *path);

enum style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_WARN };
void words_style(FILE *out, bool color, enum style style);

/* How it ended: "exit status 0", "killed by signal 9 (KILL)" ... */
void words_print_end(FILE *out, const struct profile *p);

#endif
