/* Inside src/findings: whether blocks of two sites were made together, one object after the other. */
#ifndef HEFT_FINDINGS_MADE_TOGETHER_H
#define HEFT_FINDINGS_MADE_TOGETHER_H

#include "profile/profile.h"

enum together {
	TOGETHER_NOT, /* they were seen to be made or freed apart */
	TOGETHER_UNKNOWN, /* the file does not have enough of their order or of their course over time */
	TOGETHER_IN_COURSE, /* their numbers rise and fall together */
	TOGETHER_IN_ORDER,  /* and they were made in turn */
};

/* At the peak, or at the end of a slot of the history, an object may be half made. So the counts of 100
 * objects and more may differ by this part. Counts of fewer objects must agree exactly. */
#define TOGETHER_TOLERANCE 0.01
#define TOGETHER_EXACT_BELOW 100

/* Whether k blocks of `site` were made for each one of `reference`. */
enum together made_together(const struct profile *p, uint32_t reference, uint32_t site, uint64_t k);

/* The same by their order alone. */
enum together made_in_turn(const struct profile *p, uint32_t reference, uint32_t site, uint64_t k);

/* Whether `site` has at most one block for each of `reference`: between two of its blocks there is always one of the
 * reference. So it is a part that not every object has. */
bool made_at_most_once(const struct profile *p, uint32_t reference, uint32_t site);

/* The first blocks of a site in their order; *count is 0 if they are not known. */
const struct profile_first *first_blocks(const struct profile *p, uint32_t site, uint32_t *count);

#endif
