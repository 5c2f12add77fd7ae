/* Values of sites, added up for what stands on their stacks: functions, files, lines. */
#ifndef HEFT_PAGES_VIEW_SUMS_H
#define HEFT_PAGES_VIEW_SUMS_H

#include "profile/profile.h"

struct view_sums {
	uint64_t self;  /* of stacks whose innermost frame is of the group */
	uint64_t total; /* of stacks with any frame of it */
};

/* sums[groups[frame]], of `count` groups, all 0 before; frames of group PROFILE_NONE count for nothing.
 * values: by site. 0 or HEFT_ENOMEM. */
int view_add_up(struct view_sums *sums, uint32_t count, const struct profile *p,
		const uint64_t *values, const uint32_t *groups);

#endif
