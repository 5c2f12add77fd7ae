/* Keeping behaviour with its sites: entries name sites by index and sites name
 * their entries, so whoever drops or moves sites calls this. */
#include "profile/profile.h"

#include <stdlib.h>
#include <string.h>

/* Releases of one site stand together, so theirs is a range. */
static void link_releases(struct profile *p)
{
	for (uint32_t i = 0; i < p->site_count; i++)
		p->sites[i].release_first = p->sites[i].release_count = 0;
	for (uint32_t i = 0; i < p->release_count; i++) {
		struct profile_site *s = &p->sites[p->releases[i].site];
		if (!s->release_count++)
			s->release_first = i;
	}
}

void profile_link_behaviour(struct profile *p)
{
	for (uint32_t i = 0; i < p->site_count; i++)
		p->sites[i].handover = p->sites[i].growth = p->sites[i].history = PROFILE_NONE;
	for (uint32_t i = 0; i < p->handover_count; i++)
		p->sites[p->handovers[i].site].handover = i;
	for (uint32_t i = 0; i < p->growth_count; i++)
		p->sites[p->growths[i].site].growth = i;
	for (uint32_t i = 0; i < p->history.row_count; i++)
		p->sites[p->history.rows[i].site].history = i;
	link_releases(p);
}

/* Births of dropped sites go; ages point to what is left. */
static void move_births(struct profile_births *b, const uint32_t *to)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < b->count; i++) {
		b->list[i].site = to[b->list[i].site];
		if (b->list[i].site != PROFILE_NONE)
			b->list[n++] = b->list[i];
	}
	b->count = n;
}

static void link_ages(struct profile *p)
{
	for (uint32_t i = 0, at = 0; i < p->site_count; at += p->ages[i++].count)
		p->ages[i].first = at;
}

void profile_sites_moved(struct profile *p, const uint32_t *to)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < p->handover_count; i++) {
		p->handovers[i].site = to[p->handovers[i].site];
		if (p->handovers[i].site != PROFILE_NONE)
			p->handovers[n++] = p->handovers[i];
	}
	p->handover_count = n;
	n = 0;
	for (uint32_t i = 0; i < p->growth_count; i++) {
		p->growths[i].site = to[p->growths[i].site];
		if (p->growths[i].site != PROFILE_NONE)
			p->growths[n++] = p->growths[i];
	}
	p->growth_count = n;
	n = 0;
	for (uint32_t i = 0; i < p->release_count; i++) {
		p->releases[i].site = to[p->releases[i].site];
		if (p->releases[i].site != PROFILE_NONE)
			p->releases[n++] = p->releases[i];
	}
	p->release_count = n;
	n = 0;
	for (uint32_t i = 0; i < p->history.row_count; i++) {
		struct profile_history_row row = p->history.rows[i];
		row.site = to[row.site];
		if (row.site == PROFILE_NONE) {
			free(row.bytes);
			free(row.blocks);
		} else
			p->history.rows[n++] = row;
	}
	p->history.row_count = n;
	move_births(&p->live_births, to);
	move_births(&p->peak_births, to);
	if (p->ages)
		link_ages(p);
	for (uint32_t i = 0; p->recorded_sites && i < p->recorded_site_count; i++)
		if (p->recorded_sites[i] != PROFILE_NONE)
			p->recorded_sites[i] = to[p->recorded_sites[i]];
	profile_link_behaviour(p);
}
