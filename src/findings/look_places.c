/* What a look at the heap told, added up by the function that names a site (look_places.h): people fix functions, and
 * one function may allocate at several sites. */
#include "findings/look_places.h"

#include "findings/site_names.h"
#include "hosted/ranking.h"
#include "hosted/vector.h"
#include "profile/measure.h"

#include <stdlib.h>
#include <string.h>

/* A look that found less of the heap than this share of its peak does not show what was live then. */
#define LOOK_NEAR_PEAK 0.75

/* Adds up the sites of the function that begins at `first` of d->by_function; returns where the next one begins. */
static uint32_t add_up_function(const struct diagnosis *d, uint32_t first, look_weight *weight,
				struct look_place *place)
{
	const struct profile *p = d->p;
	const uint32_t *sites = d->by_function;
	struct profile_site sum = {0};
	uint64_t most = 0;
	uint32_t next = first;
	*place = (struct look_place){.site = sites[first]};
	for (; next < d->by_function_count && named_alike(p, d->named, sites[first], sites[next]);
	     next++) {
		const struct profile_site *s = &p->sites[sites[next]];
		uint64_t own = weight(&s->look);
		if (!own)
			continue;
		measure_add_sums(&sum, s);
		sum.look.untouched_of_bytes += s->look.untouched_of_bytes;
		sum.look.untouched_of_blocks += s->look.untouched_of_blocks;
		if (own > most) {
			most = own;
			place->site = sites[next];
		}
	}
	place->bytes = sum.left_bytes;
	place->blocks = sum.left_blocks;
	place->look = sum.look;
	return next;
}

int look_places(const struct diagnosis *d, look_weight *weight, struct look_place **list,
		uint32_t *count)
{
	VECTOR(struct look_place) places = {0};
	struct ranked *order = NULL;
	bool fine = true;
	*list = NULL;
	*count = 0;
	for (uint32_t i = 0; i < d->by_function_count && fine;) {
		struct look_place one;
		i = add_up_function(d, i, weight, &one);
		fine = !weight(&one.look) || vector_push(&places, one);
	}
	order = malloc((places.count + 1) * sizeof *order);
	*list = malloc((places.count + 1) * sizeof **list);
	fine = fine && order && *list;
	for (uint32_t i = 0; i < places.count && fine; i++)
		order[i] = (struct ranked){weight(&places.items[i].look), i};
	if (fine)
		rank_greatest_first(order, (uint32_t)places.count);
	for (uint32_t i = 0; i < places.count && fine; i++)
		(*list)[i] = places.items[order[i].index];
	*count = fine ? (uint32_t)places.count : 0;
	free(order);
	vector_free(&places);
	return fine ? 0 : HEFT_ENOMEM;
}

bool look_knows_touched(const struct profile *p)
{
	return (p->run.has & PROFILE_HAS_TOUCHED) &&
	       share_of(p->heap.untouched_of_bytes, p->totals.peak_bytes) >= LOOK_NEAR_PEAK;
}

uint64_t look_touched_bytes(const struct profile_site *site, uint64_t bytes)
{
	const struct profile_look *l = &site->look;
	double untouched = share_of(l->untouched_bytes, l->untouched_of_bytes);
	return bytes - (uint64_t)((double)bytes * (untouched < 1 ? untouched : 1));
}
