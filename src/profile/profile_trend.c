/* Trends in live bytes over time.
 *
 * Least squares would be misled by one spike; the median of pairwise slopes (Theil and Sen) and the
 * count of rising pairs (Mann and Kendall) are not, and need no assumption about the noise. Pairs
 * are counted while merge sorting, so a long series costs n log n; the slope takes all pairs of at
 * most 128 points.
 *
 * Live bytes are not independent from one moment to the next, so a large z alone is not proof of
 * growth: users look at floors as well. */
#include "profile/profile_trend.h"

#include "hosted/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SLOPE_POINTS = 128 };

/* Sorts y[from, to) and returns Mann and Kendall's S: pairs that rise minus pairs that fall; ties
 * count for neither. */
static int64_t sort_and_count(uint64_t *y, uint64_t *scratch, uint32_t from, uint32_t to)
{
	if (to - from < 2)
		return 0;
	uint32_t middle = from + (to - from) / 2;
	int64_t s = sort_and_count(y, scratch, from, middle) +
		    sort_and_count(y, scratch, middle, to);
	/* Each of the later half: how many of the earlier half are below, how many above it. */
	uint32_t below = from, not_above = from;
	for (uint32_t k = middle; k < to; k++) {
		while (below < middle && y[below] < y[k])
			below++;
		while (not_above < middle && y[not_above] <= y[k])
			not_above++;
		s += (int64_t)(below - from) - (int64_t)(middle - not_above);
	}
	uint32_t a = from, b = middle;
	for (uint32_t k = from; k < to; k++)
		scratch[k] = b >= to || (a < middle && y[a] <= y[b]) ? y[a++] : y[b++];
	memcpy(y + from, scratch + from, (to - from) * sizeof *y);
	return s;
}

/* Variance of S without a trend, less what ties take away; y is sorted. */
static double kendall_variance(const uint64_t *y, uint32_t count)
{
	double n = count, v = n * (n - 1) * (2 * n + 5);
	for (uint32_t i = 0, next; i < count; i = next) {
		for (next = i; next < count && y[next] == y[i]; next++)
			;
		double t = next - i;
		v -= t * (t - 1) * (2 * t + 5);
	}
	return v / 18;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static int median_slope(double *out, const uint64_t *y, uint32_t count)
{
	uint32_t points = count < SLOPE_POINTS ? count : SLOPE_POINTS, at[SLOPE_POINTS];
	double *slopes = malloc((size_t)points * points / 2 * sizeof *slopes);
	size_t used = 0;
	if (!slopes)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < points; i++)
		at[i] = (uint32_t)((uint64_t)i * (count - 1) / (points - 1));
	for (uint32_t i = 0; i < points; i++)
		for (uint32_t k = i + 1; k < points; k++)
			slopes[used++] = ((double)y[at[k]] - (double)y[at[i]]) / (at[k] - at[i]);
	qsort(slopes, used, sizeof *slopes, ascending);
	*out = used % 2 ? slopes[used / 2] : (slopes[used / 2 - 1] + slopes[used / 2]) / 2;
	free(slopes);
	return 0;
}

int trend_of(struct trend *out, const uint64_t *y, uint32_t count)
{
	*out = (struct trend){0, 0};
	if (count < 3)
		return 0;
	uint64_t *copy = malloc(2 * (size_t)count * sizeof *copy);
	if (!copy)
		return HEFT_ENOMEM;
	memcpy(copy, y, count * sizeof *copy);
	double s = (double)sort_and_count(copy, copy + count, 0, count);
	double variance = kendall_variance(copy, count);
	if (variance > 0 && s != 0)
		out->z = (s - (s > 0 ? 1 : -1)) / sqrt(variance);
	free(copy);
	return median_slope(&out->slope, y, count);
}

void trend_floors(uint64_t *floors, uint32_t parts, const uint64_t *y, uint32_t count)
{
	for (uint32_t i = 0; i < parts; i++) {
		uint32_t from = (uint32_t)((uint64_t)i * count / parts);
		uint32_t to = (uint32_t)((uint64_t)(i + 1) * count / parts);
		floors[i] = UINT64_MAX;
		for (uint32_t k = from; k < to; k++)
			if (y[k] < floors[i])
				floors[i] = y[k];
	}
}
