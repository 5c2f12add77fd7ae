/* Inside src/profile: a sampled recording's estimates. */
#ifndef HEFT_PROFILE_TRACE_SAMPLES_H
#define HEFT_PROFILE_TRACE_SAMPLES_H

#include "profile/profile.h"
#include "profile/trace_split.h"
#include "trace/trace.h"

/* The samples of the wanted processes (by the recording's index) as a tally, t empty, and the
 * variance of each site's numbers: free() it. last: the processes whose blocks are live at the end,
 * NULL: all; others' are gone. Sites are the recording's, or with a split those apart by process.
 * 0 or HEFT_ENOMEM. */
int trace_samples_tally(const struct trace_contents *c, const bool *processes, const bool *last,
			struct trace_split *split, struct tally *t, struct profile_spread **spread);
/* The samples of the greatest estimate that was seen, and when that was. */
const struct trace_sample *trace_samples_peak(const struct trace_samples *s, uint32_t *count,
					      uint64_t *time_ns);

#endif
