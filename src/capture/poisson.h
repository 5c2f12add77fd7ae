/* The arithmetic of sampling, without libm: distances between samples, and the chance
 * that a block is one. Both are right to about 1e-13, far better than any number of
 * samples can show. */
#ifndef HEFT_CAPTURE_POISSON_H
#define HEFT_CAPTURE_POISSON_H

#include <stdint.h>

/* -ln(u) for u in (0, 1]. */
static inline double poisson_minus_log(double u)
{
	union {
		double d;
		uint64_t bits;
	} v = {.d = u};
	int exponent = (int)(v.bits >> 52) - 1023;
	v.bits = (v.bits & 0xfffffffffffffull) | 1023ull << 52; /* 1 <= d < 2 */
	if (v.d > 1.4142135623730951) {
		v.d /= 2;
		exponent++;
	}
	double s = (v.d - 1) / (v.d + 1), z = s * s; /* ln d = 2 atanh s, |s| < 0.172 */
	double sum = 1.0 / 17;
	for (int k = 15; k > 0; k -= 2)
		sum = sum * z + 1.0 / k;
	return -(2 * s * sum + exponent * 0.6931471805599453094);
}

/* 1 - exp(-x) for x >= 0: the series below a half, doubled as often as needed:
 * 1 - exp(-2y) = t (2 - t) with t = 1 - exp(-y). */
static inline double poisson_chance(double x)
{
	if (x > 50)
		return 1;
	int doublings = 0;
	while (x > 0.5) {
		x /= 2;
		doublings++;
	}
	double t = 0;
	for (int k = 14; k > 0; k--)
		t = x / k * (1 - t);
	for (; doublings; doublings--)
		t *= 2 - t;
	return t;
}

/* splitmix64: good enough for this by far, and any seed will do. */
static inline uint64_t poisson_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* An exponential distance of mean `rate` bytes, rounded down. A block reaches it if size >= distance; the
 * chance of that is the chance of size + 1 bytes. It has 53 random bits, so the longest distance is 36
 * times the mean. */
static inline uint64_t poisson_distance(uint64_t *state, uint64_t rate)
{
	double u = (double)((poisson_random(state) >> 11) + 1) * 0x1p-53;
	double d = poisson_minus_log(u) * (double)rate;
	return d < 0x1p62 ? (uint64_t)d : 1ull << 62;
}

#endif
