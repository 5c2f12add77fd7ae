/* Blocks by time of birth and by lifetime: what a cloud of points would show, counted in cells. */
#ifndef HEFT_PAGES_VIEW_HEAT_H
#define HEFT_PAGES_VIEW_HEAT_H

#include "profile/profile.h"

struct view_part;

enum { VIEW_HEAT_BIRTHS = 60 };

struct view_heat {
	uint64_t from_ns, to_ns; /* births outside of it are in the first and last slot */
	/* freed, and never freed up to the end; lifetimes as in PROFILE_LIFE_BUCKETS */
	uint64_t freed[VIEW_HEAT_BIRTHS][PROFILE_LIFE_BUCKETS];
	uint64_t live[VIEW_HEAT_BIRTHS][PROFILE_LIFE_BUCKETS];
};

/* Counts the blocks of the part's sites that ended in [from_ns, to_ns]; goes through all its events,
 * once for each part. The heat lives as long as the part is held. */
int view_heat_of(const struct view_part *part, const struct view_heat **out,
		 struct heft_error *err);
void view_heat_free(struct view_heat *heat);

#endif
