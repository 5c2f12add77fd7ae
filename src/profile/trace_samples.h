/* Inside src/profile: a sampled recording's estimates. */
#ifndef HEFT_PROFILE_TRACE_SAMPLES_H
#define HEFT_PROFILE_TRACE_SAMPLES_H

#include "profile/profile.h"
#include "trace/trace.h"

/* Variances of a site's estimates. */
struct trace_spread {
	double live_bytes, live_blocks, peak_bytes, peak_blocks, allocated_bytes, allocations;
};

/* The samples of the wanted processes (by the recording's index) as a tally, t empty, and the
 * variance of each site's numbers, site_count of them: free() it. 0 or HEFT_ENOMEM. */
int trace_samples_tally(const struct trace_contents *c, const bool *processes, struct tally *t,
			struct trace_spread **spread);
void trace_spread_add(struct trace_spread *to, const struct trace_spread *more);
/* What is 95 % certain: the estimate, plus or minus this. */
struct profile_errors trace_spread_errors(const struct trace_spread *s);

#endif
