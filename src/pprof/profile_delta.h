/* The difference of two snapshots of one program, as a profile whose values are signed. */
#ifndef HEFT_PPROF_PROFILE_DELTA_H
#define HEFT_PPROF_PROFILE_DELTA_H

#include "profile/profile.h"

/* after - before, call stack by call stack: live and allocated bytes and blocks, as two's
 * complement in the sites' unsigned fields; fit for export_options.difference_ns and for nothing
 * else. *out is the caller's to free. 0 or HEFT_ENOMEM. */
int profile_delta(const struct profile *before, const struct profile *after, struct profile **out,
		  struct heft_error *err);

#endif
