/* A profile whose stacks are folded and cut (stack_fold.h), for formats that cannot do that. */
#ifndef HEFT_PROFILE_FOLDED_PROFILE_H
#define HEFT_PROFILE_FOLDED_PROFILE_H

#include "profile/profile.h"

struct folded_profile {
	struct profile *view; /* what to read; it borrows from the one that was folded */
	uint32_t *sites;      /* by site of the one that was folded: which it became */
	struct profile *own;
};

/* from_leaf: the format's tree begins at the innermost frame. view is NULL if no stack is deep. 0 or
 * HEFT_ENOMEM. */
int folded_profile_init(struct folded_profile *f, const struct profile *p, bool from_leaf);
void folded_profile_fini(struct folded_profile *f);

#endif
