/* The arithmetic of estimates, in one place (docs/sampling.md derives it): what one sampled block
 * stands for, how far a sum of such may be from the truth, when that is not to be believed, and what
 * no sample tells. */
#ifndef HEFT_PROFILE_ESTIMATE_H
#define HEFT_PROFILE_ESTIMATE_H

#include "profile/profile.h"

/* Standard deviations to either side that hold 95 % of a normal distribution. */
#define ESTIMATE_Z95 1.959964
/* -ln(0.05): of so many times the rate, a block is sampled with a probability of 95 %. */
#define ESTIMATE_UNSEEN 2.995732
/* Numbers from fewer samples than this are marked, and their errors are wider. From about as many
 * expected samples on, plus or minus 1.96 standard errors covers the truth in 92 % of cases or more; at
 * 5 it is 87 %, at 1 63 % (tests/unit/test_coverage.c). */
enum { ESTIMATE_FEW = 10 };

/* What a sampled block stands for, and what it adds to the variances of sums of such. */
struct estimate_weight {
	double objects, bytes, objects_variance, bytes_variance;
};
struct estimate_weight estimate_of_block(uint64_t size, uint64_t rate_bytes);

uint64_t estimate_rounded(double value);
/* What is 95 % certain of an estimate from enough samples: plus or minus this. */
double estimate_error95(double variance);
/* The same from any number of samples: of a few, also what may be there unseen. */
double estimate_error95_of(double variance, uint64_t samples, double unseen);
/* Two independent errors of 95 %, of a sum or a difference. */
double estimate_together(double error95, double other);
/* Is the number made of so few samples that little is known of it? Ten samples of small blocks have a
 * standard error of a part of sqrt(10) of their sum: that is what is asked, since blocks that were
 * certain to be sampled need not be many. Of nothing it is true. */
bool estimate_is_few(double value, double error95);
/* A site of less than this may be there without a sample (in 5 % of cases), a whole one of it. */
double estimate_unseen_bytes(uint64_t rate_bytes);

/* Errors from variances. What may be there unseen is taken to be in blocks of `mean_bytes` each. */
struct profile_errors estimate_errors(const struct profile_spread *s, uint64_t rate_bytes,
				      double mean_bytes);
void estimate_add_spread(struct profile_spread *to, const struct profile_spread *more);

#endif
