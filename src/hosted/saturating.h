/* Sums that stay at the greatest number instead of starting again at 0. */
#ifndef HEFT_HOSTED_SATURATING_H
#define HEFT_HOSTED_SATURATING_H

#include <stdint.h>

static inline uint64_t saturating_add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

#endif
