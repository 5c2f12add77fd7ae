/* What tells sites of a list apart whose first user frames read the same: "function < caller". */
#ifndef HEFT_PROFILE_SITE_CALLERS_H
#define HEFT_PROFILE_SITE_CALLERS_H

#include "profile/profile.h"

struct site_callers;
/* For a list of sites (indices). NULL: no memory. */
struct site_callers *site_callers_new(const struct profile *p, const uint32_t *sites,
				      uint32_t count);
/* For a list of sites of several profiles: a comparison's. */
struct site_of {
	const struct profile *p;
	uint32_t site;
};
struct site_callers *site_callers_new_among(const struct site_of *list, uint32_t count);
void site_callers_free(struct site_callers *c);
/* For the site at this position of the list: "caller", "walk x3", "caller < ... < main:12"; NULL: its first
 * user frame says it alone, or no caller would tell more. A NULL list tells nothing. */
const char *site_callers_text(const struct site_callers *c, uint32_t position);

#endif
