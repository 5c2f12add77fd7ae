/* Inside src/profile: the resident memory of a recording's processes over time. */
#ifndef HEFT_PROFILE_TRACE_RESIDENT_H
#define HEFT_PROFILE_TRACE_RESIDENT_H

#include "profile/profile.h"
#include "trace/trace.h"

/* Fills rss, and peak_rss_bytes of the profile and of each process, from the samples in [from_ns, to_ns].
 * processes[i] is the profile's process for the recording's i, or PROFILE_NONE. */
int trace_resident_peak(struct profile *p, const struct trace_contents *c,
			const uint32_t *processes, uint64_t from_ns, uint64_t to_ns);

#endif
