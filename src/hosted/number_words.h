/* Writes numbers for people, in sentences, tables and graphs. */
#ifndef HEFT_HOSTED_NUMBER_WORDS_H
#define HEFT_HOSTED_NUMBER_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NUMBER_WORDS = 32 }; /* bytes for any of them, with its NUL */

/* "12,345,678" */
void number_count(char text[NUMBER_WORDS], uint64_t n);
/* "12.3 MiB"; below 1024 "12" with `byte` or `several` behind it. */
void number_bytes(char text[NUMBER_WORDS], uint64_t bytes, const char *byte, const char *several);

/* The same as values, for use inside an expression */
struct words {
	char text[40];
};
struct words words_count(uint64_t n); /* 12,345,678 */
/* "1 block", "12 blocks"; a noun has at most 12 letters. */
struct words words_many(uint64_t n, const char *one, const char *many);
struct words words_bytes(uint64_t bytes); /* 512 B, 12.3 MiB */
struct words words_size(uint64_t bytes);  /* 512 bytes, 12.3 MiB */
struct words words_duration(uint64_t ns);
struct words words_time(double ns);
struct words words_percent(double share); /* 0.123 as 12.3 % */

/* How many of `steps` the share part / whole fills; at least 1 if part is not 0. */
size_t number_steps(uint64_t part, uint64_t whole, size_t steps);
/* One column of a histogram, as high as part / whole. */
const char *number_level(uint64_t part, uint64_t whole, bool utf8);

#endif
