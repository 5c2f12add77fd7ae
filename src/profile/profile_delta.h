/* The difference of two snapshots of one program. */
#ifndef HEFT_PROFILE_PROFILE_DELTA_H
#define HEFT_PROFILE_PROFILE_DELTA_H

#include "profile/folded_profile.h"
#include "profile/measure.h"

/* How much more a stack has than before; less than 0: it has less. */
struct profile_delta_change {
	int64_t allocations, allocated_bytes; /* reallocations are allocations too, as in pprof */
	int64_t live_blocks, live_bytes;
};

struct profile_delta {
	struct profile *p; /* the run, and the stacks of both; its sites have no numbers */
	struct folded_profile folded;         /* of p, if it has deep stacks */
	struct profile_delta_change *changes; /* by site of profile_delta_view */
	uint64_t time_ns;                     /* between the two */
};

/* after - before, call stack by call stack. Deep stacks are folded (folded_profile.h), since what
 * writes it has no other form for them. 0 or HEFT_ENOMEM. */
int profile_delta_init(struct profile_delta *d, const struct profile *before,
		       const struct profile *after, uint64_t time_ns, struct heft_error *err);
void profile_delta_fini(struct profile_delta *d);

/* What has the stacks of the changes. */
static inline const struct profile *profile_delta_view(const struct profile_delta *d)
{
	return d->folded.view ? d->folded.view : d->p;
}
/* The change of a measure that deltas have (live and allocated bytes and blocks); others: 0. */
int64_t profile_change_of(const struct profile_delta_change *c, enum measure_id id);

#endif
