/* If the program follows the items of a queue (heft_mark_block), it has said where they wait: at the stage at which its
 * blocks spend the most time. */
#include "findings/queue_parts.h"

#include <stdlib.h>

/* By site of the whole profile: whether its blocks are items of the group. NULL: no memory. */
static bool *sites_of(const struct queue_places *q, uint32_t group)
{
	const struct profile *p = q->d->p, *whole = q->d->whole;
	bool *is_item = calloc((size_t)whole->site_count + 1, sizeof *is_item);
	for (uint32_t i = group; is_item && i < q->count; i++)
		for (uint32_t k = 0; q->list[i].group == group && k < q->list[i].sites; k++) {
			/* A part has the ids of the whole, which are the places of its sites. */
			uint32_t id = p->sites[q->sites[q->list[i].first + k]].id;
			if (id && id <= whole->site_count)
				is_item[id - 1] = true;
		}
	return is_item;
}

int queue_longest_stage(const struct queue_places *q, uint32_t group, struct queue_stage *out)
{
	const struct profile_remarks *r = &q->d->whole->remarks;
	struct queue_stage now = {0};
	*out = now;
	if (!r->hop_site_count)
		return 0;
	bool *is_item = sites_of(q, group);
	if (!is_item)
		return HEFT_ENOMEM;
	/* Hops are in the order of their stages. */
	for (uint32_t i = 0; i < r->hop_site_count; i++) {
		const struct profile_hop_site *x = &r->hop_sites[i];
		const char *stage = r->hops[x->hop].from;
		if (!stage || !is_item[x->site])
			continue;
		if (stage != now.name)
			now = (struct queue_stage){.name = stage};
		now.blocks += x->blocks;
		now.total_ns += x->total_ns;
		if (now.total_ns > out->total_ns)
			*out = now;
	}
	free(is_item);
	return 0;
}
