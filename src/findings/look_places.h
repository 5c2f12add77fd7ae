/* Inside src/findings: what a look at the heap told (struct profile_look), function by function. */
#ifndef HEFT_FINDINGS_LOOK_PLACES_H
#define HEFT_FINDINGS_LOOK_PLACES_H

#include "findings/diagnosis.h"

struct look_place {
	uint32_t site;          /* that has most */
	uint64_t bytes, blocks; /* live when the process ended, of sites that have some of it */
	struct profile_look look;
};

typedef uint64_t look_weight(const struct profile_look *look);

/* The functions whose sites have some weight, the heaviest first; free() the list. 0 or HEFT_ENOMEM. */
int look_places(const struct diagnosis *d, look_weight *weight, struct look_place **list,
		uint32_t *count);

/* Whether a look saw most of what was live at the peak, and which of it was touched. */
bool look_knows_touched(const struct profile *p);
/* How much of so many bytes of a site's blocks is in pages that were touched, by what the look saw of the site */
uint64_t look_touched_bytes(const struct profile_site *site, uint64_t bytes);

#endif
