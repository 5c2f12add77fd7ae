/* The arithmetic of estimates (docs/sampling.md derives it): what a sampled block stands for, how far a
 * sum may be from the truth, when too few samples say little, and how much may be there without a
 * sample. */
#ifndef HEFT_PROFILE_ESTIMATE_H
#define HEFT_PROFILE_ESTIMATE_H

#include "profile/profile.h"

/* Standard deviations to either side that hold 95 % of a normal distribution. */
#define ESTIMATE_Z95 1.959964
/* -ln(0.05): a block of so many times the rate is sampled with a probability of 95 %. */
#define ESTIMATE_UNSEEN 2.995732
/* Numbers from fewer samples than this are marked, and their errors are wider. From about as many
 * expected samples on, plus or minus 1.96 standard errors covers the truth in 92 % of cases or more; at
 * 5 it is 87 %, at 1 63 % (tests/unit/test_coverage.c). */
enum { ESTIMATE_FEW = 10 };

/* What a sampled block stands for, and what it adds to the variances of sums. */
struct estimate_weight {
	double objects, bytes, objects_variance, bytes_variance;
};
struct estimate_weight estimate_of_block(uint64_t size, uint64_t rate_bytes);

uint64_t estimate_rounded(double value);
/* The truth is within plus or minus this in 95 % of cases, if there are enough samples. */
double estimate_error95(double variance);
/* The same for any number of samples: few samples add what may be there unseen. */
double estimate_error95_of(double variance, uint64_t samples, double unseen);
/* The error of a sum or difference of two numbers with independent errors. */
double estimate_together(double error95, double other);
/* Whether the number comes from so few samples that it says little. Ten samples of small blocks have a
 * standard error of 1 / sqrt(10) of their sum. The test is that error, not the count: a few blocks that
 * were certain to be sampled are enough. True for 0. */
bool estimate_is_few(double value, double error95);
/* A site with less than this may have no sample at all (in 5 % of cases). */
double estimate_unseen_bytes(uint64_t rate_bytes);

/* Errors from variances. Unseen bytes are assumed to be in blocks of `mean_bytes` each. */
struct profile_errors estimate_errors(const struct profile_spread *s, uint64_t rate_bytes,
				      double mean_bytes);
void estimate_add_spread(struct profile_spread *to, const struct profile_spread *more);

#endif
