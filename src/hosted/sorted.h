/* Binary search in whatever is sorted. */
#ifndef HEFT_HOSTED_SORTED_H
#define HEFT_HOSTED_SORTED_H

#include <stddef.h>

/* How many of the elements 0 .. n - 1 come before a place: `before` is an expression of the index `i`, true
 * for the first elements and false for all others. So this is also the index of the first one behind.
 *
 *	size_t at = count_before(i, n, items[i].address < address); */
#define count_before(i, n, before)                                                                 \
	({                                                                                         \
		size_t low_ = 0, high_ = (n);                                                      \
		while (low_ < high_) {                                                             \
			size_t i = low_ + (high_ - low_) / 2;                                      \
			if (before)                                                                \
				low_ = i + 1;                                                      \
			else                                                                       \
				high_ = i;                                                         \
		}                                                                                  \
		low_;                                                                              \
	})

#endif
