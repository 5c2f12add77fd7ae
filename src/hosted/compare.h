/* Two numbers: which is the lesser, which the greater, and their order for qsort and bsearch. The next
 * criterion of an order follows behind "?:", which takes its right side if the left side is 0:
 *
 *	return compare_numbers(y->bytes, x->bytes) ?: compare_numbers(x->site, y->site);
 *
 * sorts by bytes, greatest first, then by site. */
#ifndef HEFT_HOSTED_COMPARE_H
#define HEFT_HOSTED_COMPARE_H

#include <stdint.h>

static inline int compare_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static inline uint64_t lesser(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t greater(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

#endif
