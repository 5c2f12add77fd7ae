/* Inside src/profile: a sampled recording's estimates. */
#ifndef HEFT_PROFILE_TRACE_SAMPLES_H
#define HEFT_PROFILE_TRACE_SAMPLES_H

#include "profile/profile.h"
#include "profile/trace_split.h"
#include "trace/trace.h"

/* Adds the samples of the wanted processes (by the recording's index) up in t, which is empty, and the
 * variances of each site's numbers in *spread, which the caller frees. last: the processes whose blocks
 * are live at the end; NULL: all. Sites are the recording's, or with a split those by process.
 * 0 or HEFT_ENOMEM. */
int trace_samples_tally(const struct trace_contents *c, const bool *processes, const bool *last,
			struct trace_split *split, struct tally *t, struct profile_spread **spread);
/* The samples of the greatest estimate that was seen, and when that was. */
const struct trace_sample *trace_samples_peak(const struct trace_samples *s, uint32_t *count,
					      uint64_t *time_ns);

/* What several processes had together when that was most (trace_peak.c). */
struct trace_at_peak {
	struct trace_peak_sample {
		const struct trace_sample *sample; /* the recording's */
		uint32_t process;                  /* likewise */
	} *list;                                   /* free() it */
	size_t count;
	uint64_t time_ns;
};
/* processes: the wanted ones, by the recording's index. 0 or HEFT_ENOMEM. */
int trace_samples_at_peak(const struct trace_contents *c, const bool *processes,
			  struct trace_at_peak *out);
/* The time of samples that were read at `time_ns`, but not later than the end of their process. */
uint64_t trace_samples_moment(const struct trace_process *q, uint64_t time_ns);

#endif
