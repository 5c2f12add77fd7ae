/* The number that a call site has in a selection: bytes or blocks, live, grown, allocated, or freed
 * soon. Every document adds up this one, so that trees, tables and sums agree. */
#ifndef HEFT_PAGES_VIEW_MEASURE_H
#define HEFT_PAGES_VIEW_MEASURE_H

#include "profile/measure.h"
#include "pages/view_query.h"

struct view_measure {
	enum measure_id id;
	/* For lifetimes: counts the blocks that were freed soon instead; 0: does not. */
	uint32_t buckets;
};

/* What was not freed, in bytes: of several processes, or of chosen ones, what each left at its exit. Of
 * one that called exec only what it had in the end, as the report says. */
enum measure_id view_left_bytes(const struct view_query *q, const struct profile *p);
/* HEFT_EREFUSED with the reason: the file does not tell it. A file that has no peak shows what is
 * live instead, and the other way round. */
int view_measure_of(struct view_measure *m, const struct view_query *q, const struct profile *p,
		    struct heft_error *err);
uint64_t view_value(const struct view_measure *m, const struct profile *p, uint32_t site);
/* The values of all sites; free() them. NULL: no memory. */
uint64_t *view_values(const struct view_measure *m, const struct profile *p);
uint64_t view_sum(const struct view_measure *m, const struct profile *p);
/* What is 95 % certain; false: exact, or not known. site PROFILE_NONE: of the sum. */
bool view_error(const struct view_measure *m, const struct profile *p, uint32_t site,
		uint64_t *error);
const char *view_unit(const struct view_measure *m); /* "bytes", "count" */

#endif
