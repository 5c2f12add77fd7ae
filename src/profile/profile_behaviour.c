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
	for (uint32_t i = 0; i < p->behaviour.release_count; i++) {
		struct profile_site *s = &p->sites[p->behaviour.releases[i].site];
		if (!s->release_count++)
			s->release_first = i;
	}
}

void profile_link_behaviour(struct profile *p)
{
	for (uint32_t i = 0; i < p->site_count; i++)
		p->sites[i].handover = p->sites[i].growth = p->sites[i].history = PROFILE_NONE;
	for (uint32_t i = 0; i < p->behaviour.handover_count; i++)
		p->sites[p->behaviour.handovers[i].site].handover = i;
	for (uint32_t i = 0; i < p->behaviour.growth_count; i++)
		p->sites[p->behaviour.growths[i].site].growth = i;
	for (uint32_t i = 0; i < p->behaviour.history.row_count; i++)
		p->sites[p->behaviour.history.rows[i].site].history = i;
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
	for (uint32_t i = 0, at = 0; i < p->site_count; at += p->estimates.ages[i++].count)
		p->estimates.ages[i].first = at;
}

void profile_sites_moved(struct profile *p, const uint32_t *to)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < p->behaviour.handover_count; i++) {
		p->behaviour.handovers[i].site = to[p->behaviour.handovers[i].site];
		if (p->behaviour.handovers[i].site != PROFILE_NONE)
			p->behaviour.handovers[n++] = p->behaviour.handovers[i];
	}
	p->behaviour.handover_count = n;
	n = 0;
	for (uint32_t i = 0; i < p->behaviour.growth_count; i++) {
		p->behaviour.growths[i].site = to[p->behaviour.growths[i].site];
		if (p->behaviour.growths[i].site != PROFILE_NONE)
			p->behaviour.growths[n++] = p->behaviour.growths[i];
	}
	p->behaviour.growth_count = n;
	n = 0;
	for (uint32_t i = 0; i < p->behaviour.release_count; i++) {
		p->behaviour.releases[i].site = to[p->behaviour.releases[i].site];
		if (p->behaviour.releases[i].site != PROFILE_NONE)
			p->behaviour.releases[n++] = p->behaviour.releases[i];
	}
	p->behaviour.release_count = n;
	n = 0;
	for (uint32_t i = 0; i < p->behaviour.history.row_count; i++) {
		struct profile_history_row row = p->behaviour.history.rows[i];
		row.site = to[row.site];
		if (row.site == PROFILE_NONE) {
			free(row.bytes);
			free(row.blocks);
		} else
			p->behaviour.history.rows[n++] = row;
	}
	p->behaviour.history.row_count = n;
	move_births(&p->estimates.live_births, to);
	move_births(&p->estimates.peak_births, to);
	if (p->estimates.ages)
		link_ages(p);
	for (uint32_t i = 0; p->recorded.sites && i < p->recorded.site_count; i++)
		if (p->recorded.sites[i] != PROFILE_NONE)
			p->recorded.sites[i] = to[p->recorded.sites[i]];
	profile_link_behaviour(p);
}
