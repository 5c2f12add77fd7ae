/* Numbers that stay at the greatest one instead of starting again at 0. */
#ifndef HEFT_HOSTED_SATURATING_H
#define HEFT_HOSTED_SATURATING_H

#include <stdint.h>

static inline uint64_t saturating_add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* An estimate as a whole number: one that is too large, or no number, has no other defined value. */
static inline uint64_t saturating_whole(double estimate)
{
	if (!(estimate > 0))
		return 0;
	return estimate < 0x1p63 ? (uint64_t)estimate : INT64_MAX;
}

#endif
