/* Is a series rising, how fast, and how sure is that? For live bytes over time (profile_history). */
#ifndef HEFT_PROFILE_PROFILE_TREND_H
#define HEFT_PROFILE_PROFILE_TREND_H

#include <stdint.h>

struct trend {
	double slope; /* median of the slopes between all pairs of points, per step */
	double z; /* Mann and Kendall's test: 0 without a trend, above 3.29 with a chance of one in
			 2000 that there is none (points taken to be independent) */
};

/* 0 or HEFT_ENOMEM. Long series are thinned for the slope. Fewer than 3 points: all 0. */
int trend_of(struct trend *out, const uint64_t *y, uint32_t count);

/* The least value in each of `parts` equal parts of the series. What a series never falls below is
 * what it keeps: sawteeth of temporary blocks do not show. count >= parts. */
void trend_floors(uint64_t *floors, uint32_t parts, const uint64_t *y, uint32_t count);

#endif
