/* The arithmetic of estimates (estimate.h).
 *
 * A block of S bytes was sampled with the chance p = 1 - exp(-(S + 1)/R), so a sampled one stands for
 * 1/p blocks and S/p bytes. Sums of these are unbiased, and so is the sum of (1-p)/p^2 (times S^2 for
 * bytes) over the sampled blocks as an estimate of their variance.
 *
 * That variance comes from the samples too. Without samples it is 0, which would mean certainty, and
 * with few samples it is too small as often as the number itself is. A site without samples holds less
 * than 3 R bytes in 95 % of cases. So 3 R is the error of 0, and it is added to the error of few samples
 * as independent errors add: then the truth is covered in 92 % of cases or more. */
#include "profile/estimate.h"

#include "trace/samples_block.h"

#include <math.h>

uint64_t estimate_rounded(double value)
{
	return value < 0x1p62 ? (uint64_t)(value + 0.5) : 1ull << 62;
}

struct estimate_weight estimate_of_block(uint64_t size, uint64_t rate_bytes)
{
	double chance = trace_sample_chance(size, rate_bytes), bytes = (double)size;
	double variance = (1 - chance) / (chance * chance);
	return (struct estimate_weight){
		.objects = 1 / chance,
		.bytes = bytes / chance,
		.objects_variance = variance,
		.bytes_variance = variance * bytes * bytes,
	};
}

double estimate_error95(double variance)
{
	return ESTIMATE_Z95 * sqrt(variance);
}

double estimate_error95_of(double variance, uint64_t samples, double unseen)
{
	double error95 = estimate_error95(variance);
	return samples < ESTIMATE_FEW ? estimate_together(error95, unseen) : error95;
}

double estimate_together(double error95, double other)
{
	return hypot(error95, other);
}

bool estimate_is_few(double value, double error95)
{
	double relative = error95 / ESTIMATE_Z95;
	return value <= 0 || value * value < ESTIMATE_FEW * relative * relative;
}

double estimate_unseen_bytes(uint64_t rate_bytes)
{
	return ESTIMATE_UNSEEN * (double)rate_bytes;
}

struct profile_errors estimate_errors(const struct profile_spread *s, uint64_t rate_bytes,
				      double mean_bytes)
{
	double bytes = estimate_unseen_bytes(rate_bytes), blocks = bytes / (mean_bytes + 1);
#define ERROR95(samples, variance, unseen)                                                         \
	estimate_rounded(estimate_error95_of(s->variance, s->samples, unseen))
	struct profile_errors e = {
		.live_bytes = ERROR95(live_samples, live_bytes, bytes),
		.live_blocks = ERROR95(live_samples, live_blocks, blocks),
		.peak_bytes = ERROR95(peak_samples, peak_bytes, bytes),
		.peak_blocks = ERROR95(peak_samples, peak_blocks, blocks),
		.left_bytes = ERROR95(left_samples, left_bytes, bytes),
		.left_blocks = ERROR95(left_samples, left_blocks, blocks),
		.allocated_bytes = ERROR95(samples, allocated_bytes, bytes),
		.allocations = ERROR95(samples, allocations, blocks),
	};
#undef ERROR95
	return e;
}

void estimate_add_spread(struct profile_spread *to, const struct profile_spread *more)
{
	to->live_bytes += more->live_bytes;
	to->live_blocks += more->live_blocks;
	to->peak_bytes += more->peak_bytes;
	to->peak_blocks += more->peak_blocks;
	to->allocated_bytes += more->allocated_bytes;
	to->allocations += more->allocations;
	to->samples += more->samples;
	to->live_samples += more->live_samples;
	to->peak_samples += more->peak_samples;
	to->left_bytes += more->left_bytes;
	to->left_blocks += more->left_blocks;
	to->left_samples += more->left_samples;
}
