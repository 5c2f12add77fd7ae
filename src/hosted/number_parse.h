/* Reads numbers, sizes and times as people write them: on the command line, in budgets, in queries. A value
 * that is not understood to its end is refused: "10Mb" read as 10 would cost someone an afternoon. */
#ifndef HEFT_HOSTED_NUMBER_PARSE_H
#define HEFT_HOSTED_NUMBER_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 0 or HEFT_EUSAGE. */
int number_parse(const char *text, uint64_t max, uint64_t *number); /* digits, at most max */
int size_parse(const char *text, uint64_t *bytes); /* 4096, 64k, 1.5M, 2G (1024), 10kB, 1MiB */

/* The parts of a number, for texts that go on behind it: "12", "1.5", ".5", without sign or exponent, in
 * every locale */
struct decimal {
	uint64_t whole, billionths;
	size_t length; /* bytes of the text; 0: it is no number, or does not fit */
};
struct decimal decimal_parse(const char *text, size_t length);
/* Rounds to the nearest; false: the result does not fit. */
bool decimal_scale(const struct decimal *d, uint64_t scale, uint64_t *value);
uint64_t size_unit(const char *text, size_t length); /* "", "k", "MiB": bytes; 0: no such unit */
uint64_t time_unit(const char *text, size_t length); /* "ns" to "h": nanoseconds; 0: no such unit */

#endif
