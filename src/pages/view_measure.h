/* The number that a call site has in a selection: bytes or blocks, live, grown, allocated, or freed
 * soon. Every document adds up this one, so that trees, tables and sums agree. */
#ifndef HEFT_PAGES_VIEW_MEASURE_H
#define HEFT_PAGES_VIEW_MEASURE_H

#include "profile/profile.h"
#include "pages/view_query.h"

enum view_number {
	VIEW_PEAK_BYTES,
	VIEW_PEAK_BLOCKS,
	VIEW_LIVE_BYTES,
	VIEW_LIVE_BLOCKS,
	VIEW_LEFT_BYTES, /* at the end: of each process at its own */
	VIEW_LEFT_BLOCKS,
	VIEW_GREW_BYTES,
	VIEW_GREW_BLOCKS,
	VIEW_ALLOCATED_BYTES,
	VIEW_ALLOCATIONS,
	VIEW_FREED_SOON,
};

struct view_measure {
	enum view_number number;
	uint32_t buckets; /* of lifetimes, for VIEW_FREED_SOON */
	bool bytes;       /* else a count */
};

/* HEFT_EREFUSED with the reason: the file does not tell it. A file that has no peak shows what is
 * live instead, and the other way round. */
int view_measure_of(struct view_measure *m, const struct view_query *q, const struct profile *p,
		    struct heft_error *err);
uint64_t view_value(const struct view_measure *m, const struct profile *p, uint32_t site);
/* Of all sites, free() it. NULL: no memory. */
uint64_t *view_values(const struct view_measure *m, const struct profile *p);
uint64_t view_sum(const struct view_measure *m, const struct profile *p);
/* What is 95 % certain; false: exact, or not known. site PROFILE_NONE: of the sum. */
bool view_error(const struct view_measure *m, const struct profile *p, uint32_t site,
		uint64_t *error);
const char *view_unit(const struct view_measure *m); /* "bytes", "count" */

#endif
