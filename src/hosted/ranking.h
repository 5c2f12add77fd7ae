/* Numbers in the order of their values, greatest first; equal values keep the order of their numbers,
 * so that the same input always gives the same output. */
#ifndef HEFT_HOSTED_RANKING_H
#define HEFT_HOSTED_RANKING_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct ranked {
	uint64_t value;
	uint32_t index;
};

void rank_greatest_first(struct ranked *list, size_t count);
/* Frees the list, which may be NULL, and returns its numbers in that order. NULL: no memory; free() it. */
uint32_t *rank_take_order(struct ranked *list, size_t count);

/* A value for a number that is not below 0: the bits of such doubles are in the order of the doubles. */
static inline uint64_t rank_value(double number)
{
	uint64_t bits;
	memcpy(&bits, &number, sizeof bits);
	return bits;
}

#endif
