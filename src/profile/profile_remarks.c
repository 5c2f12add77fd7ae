/* What programs said, once it is in the model: freeing it, and giving its times another origin. trace_remarks.c makes it. */
#include "profile/profile_remarks.h"

#include <stdlib.h>

void profile_remarks_fini(struct profile_remarks *r)
{
	free(r->marks);
	free(r->regions);
	free(r->hops);
	free(r->hop_sites);
	free(r->events);
	free(r->event_sites);
	free(r->pools);
	free(r->pool_sites);
	*r = (struct profile_remarks){0};
}

static void move(uint64_t *time_ns, uint64_t start_ns)
{
	*time_ns = *time_ns > start_ns ? *time_ns - start_ns : 0;
}

void profile_remarks_start_at(struct profile_remarks *r, uint64_t start_ns)
{
	for (uint32_t i = 0; i < r->mark_count; i++)
		move(&r->marks[i].time_ns, start_ns);
	for (uint32_t i = 0; i < r->region_count; i++) {
		move(&r->regions[i].begin_ns, start_ns);
		move(&r->regions[i].end_ns, start_ns);
	}
	for (uint32_t i = 0; i < r->pool_count; i++)
		move(&r->pools[i].peak_time_ns, start_ns);
}
