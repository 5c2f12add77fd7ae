/* The arithmetic of sampling against libm, and its statistics against what they must be. The seed is
 * fixed, so a run says the same every time; bounds are five standard deviations. */
#include "capture/poisson.h"
#include "unit_test.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

static void near(double got, double want, double relative)
{
	if (fabs(got - want) > relative * fabs(want) + 1e-300)
		fail_msg("%.17g, not %.17g", got, want);
}

TEST(test_logarithm)
{
	near(poisson_minus_log(0x1p-53), -log(0x1p-53), 1e-14);
	assert_true(poisson_minus_log(1.0) == 0);
	for (int i = 1; i < 100000; i++) {
		double u = i / 100000.0;
		near(poisson_minus_log(u), -log(u), 1e-12);
	}
	uint64_t s = 7;
	for (int i = 0; i < 100000; i++) {
		double u = (double)((poisson_random(&s) >> 11) + 1) * 0x1p-53;
		near(poisson_minus_log(u), -log(u), 1e-12);
	}
}

TEST(test_chance)
{
	for (double x = 1e-9; x < 60; x *= 1.01)
		near(poisson_chance(x), -expm1(-x), 1e-12);
	assert_true(poisson_chance(1e9) == 1);
	assert_true(poisson_chance(0) == 0);
}

/* Mean and variance of an exponential distribution of mean R are R and R squared; its tail beyond
 * 20 R (which 26 random bits cannot reach) is e^-20. */
TEST(test_distances)
{
	enum { N = 2000000 };
	const double rate = 524288;
	uint64_t s = 42;
	double sum = 0, squares = 0;
	uint64_t largest = 0;
	for (int i = 0; i < N; i++) {
		uint64_t d = poisson_distance(&s, (uint64_t)rate);
		largest = d > largest ? d : largest;
		sum += (double)d;
		squares += (double)d * (double)d;
	}
	double mean = sum / N, variance = squares / N - mean * mean;
	/* Rounding down takes a half. */
	assert_true(fabs(mean + 0.5 - rate) < 5 * rate / sqrt(N));
	assert_true(fabs(variance - rate * rate) < 5 * rate * rate * sqrt(8.0 / N));
	assert_true(largest > 10 * (uint64_t)rate);
}

/* A thread that allocates blocks of one size: as many are sampled as should be, and their weights
 * add up to what was allocated, for sizes from far below to far above the rate. */
TEST(test_estimates)
{
	static const uint64_t sizes[] = {0, 16, 1000, 100000, 524288, 5000000};
	const uint64_t rate = 524288;
	uint64_t s = 1;
	for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
		uint64_t size = sizes[k];
		double chance = poisson_chance((double)(size + 1) / (double)rate);
		uint64_t blocks = (uint64_t)fmin(20000 / chance, 2e8), samples = 0;
		uint64_t left = poisson_distance(&s, rate);
		for (uint64_t i = 0; i < blocks; i++) {
			if (size < left) {
				left -= size + 1;
				continue;
			}
			samples++;
			left = poisson_distance(&s, rate);
		}
		/* The block right after a sample has the same chance as any other: see size 0. */
		double expect = (double)blocks * chance;
		double spread = sqrt(expect * (1 - chance)) + 1e-9;
		if (fabs((double)samples - expect) > 5 * spread + 1)
			fail_msg("size %llu: %llu samples, not %.0f +- %.0f",
				 (unsigned long long)size, (unsigned long long)samples, expect,
				 spread);
	}
}

UNIT_TESTS(NULL, NULL)
