/* Keeps behaviour with its sites: entries name sites by index and sites name their
 * entries, so whoever drops or moves sites calls this. */
#include "profile/profile.h"

#include "hosted/compare.h"

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
		p->sites[i].handover = p->sites[i].waits = p->sites[i].growth =
			p->sites[i].history = PROFILE_NONE;
	for (uint32_t i = 0; i < p->behaviour.handover_count; i++)
		p->sites[p->behaviour.handovers[i].site].handover = i;
	for (uint32_t i = 0; i < p->behaviour.wait_count; i++)
		p->sites[p->behaviour.waits[i].site].waits = i;
	for (uint32_t i = 0; i < p->behaviour.growth_count; i++)
		p->sites[p->behaviour.growths[i].site].growth = i;
	for (uint32_t i = 0; i < p->behaviour.history.row_count; i++)
		p->sites[p->behaviour.history.rows[i].site].history = i;
	link_releases(p);
}

/* ---- waits */

/* Adds a line whose births count from `later_us` after to's first birth. */
static void add_line(struct profile_wait_line *to, const struct profile_wait_line *l,
		     double later_us)
{
	to->n += l->n;
	to->x += l->x + l->n * later_us;
	to->y += l->y;
	to->xx += l->xx + 2 * later_us * l->x + l->n * later_us * later_us;
	to->xy += l->xy + later_us * l->y;
	to->yy += l->yy;
}

static void fit_line(struct profile_handover *h)
{
	const struct profile_wait_line *m = &h->line;
	double xx = m->n * m->xx - m->x * m->x;
	double xy = m->n * m->xy - m->x * m->y;
	double yy = m->n * m->yy - m->y * m->y;
	h->wait_mean_ns = m->n > 0 ? m->y / m->n * 1e3 : 0;
	h->wait_slope = xx > 0 ? xy / xx : 0;
	h->wait_fit = xx > 0 && yy > 0 ? xy * xy / (xx * yy) : 0;
	if (!(h->wait_fit <= 1)) /* a hostile file may give anything, NaN too */
		h->wait_fit = h->wait_fit > 1 ? 1 : 0;
	if (!(h->wait_slope < 1e15 && h->wait_slope > -1e15))
		h->wait_slope = 0;
	if (!(h->wait_mean_ns >= 0 && h->wait_mean_ns < 1e19))
		h->wait_mean_ns = 0;
}

void profile_waits_add(struct profile_handover *to, const struct profile_handover *from)
{
	uint64_t first = lesser(to->first_birth_ns, from->first_birth_ns);
	if (to->frees && first < to->first_birth_ns) {
		struct profile_wait_line moved = {0};
		add_line(&moved, &to->line, (double)(to->first_birth_ns - first) / 1e3);
		to->line = moved;
	}
	add_line(&to->line, &from->line, (double)(from->first_birth_ns - first) / 1e3);
	to->first_birth_ns = first;
	to->frees += from->frees;
	to->bytes += from->bytes;
	to->in_order += from->in_order;
	to->backlog_blocks += from->backlog_blocks;
	to->backlog_bytes += from->backlog_bytes;
	to->backlog_time_ns = greater(to->backlog_time_ns, from->backlog_time_ns);
	to->last_birth_ns = greater(to->last_birth_ns, from->last_birth_ns);
	to->first_free_ns = lesser(to->first_free_ns, from->first_free_ns);
	to->last_free_ns = greater(to->last_free_ns, from->last_free_ns);
	fit_line(to);
}

/* ---- sites that move */

/* Entries of all lists begin with the index of their site. */
#define SITE_IS_FIRST(type) _Static_assert(offsetof(struct type, site) == 0, #type)
SITE_IS_FIRST(profile_handover);
SITE_IS_FIRST(profile_growth);
SITE_IS_FIRST(profile_release);
SITE_IS_FIRST(profile_history_row);
SITE_IS_FIRST(profile_birth);
SITE_IS_FIRST(profile_first);
SITE_IS_FIRST(profile_hop_site);

/* Gives the entries the new indices of their sites and drops those whose site is dropped. Returns how
 * many are left. */
static uint32_t move_entries(void *list, uint32_t count, size_t size, const uint32_t *to)
{
	char *entry = list, *kept = list;
	uint32_t left = 0, site;
	for (uint32_t i = 0; i < count; i++, entry += size) {
		memcpy(&site, entry, sizeof site);
		site = to[site];
		if (site == PROFILE_NONE)
			continue;
		memmove(kept, entry, size);
		memcpy(kept, &site, sizeof site);
		kept += size;
		left++;
	}
	return left;
}
#define MOVE(list, count, to) ((count) = move_entries(list, count, sizeof *(list), to))

static void link_ages(struct profile *p)
{
	for (uint32_t i = 0, at = 0; i < p->site_count; at += p->estimates.ages[i++].count)
		p->estimates.ages[i].first = at;
}

void profile_sites_moved(struct profile *p, const uint32_t *to)
{
	struct profile_behaviour *b = &p->behaviour;
	for (uint32_t i = 0; i < b->history.row_count; i++)
		if (to[b->history.rows[i].site] == PROFILE_NONE) {
			free(b->history.rows[i].bytes);
			free(b->history.rows[i].blocks);
		}
	MOVE(b->handovers, b->handover_count, to);
	MOVE(b->waits, b->wait_count, to);
	MOVE(b->growths, b->growth_count, to);
	MOVE(b->releases, b->release_count, to);
	MOVE(b->history.rows, b->history.row_count, to);
	MOVE(b->firsts, b->first_count, to);
	MOVE(p->remarks.hop_sites, p->remarks.hop_site_count, to);
	MOVE(p->estimates.live_births.list, p->estimates.live_births.count, to);
	MOVE(p->estimates.peak_births.list, p->estimates.peak_births.count, to);
	if (p->estimates.ages)
		link_ages(p);
	for (uint32_t i = 0; p->recorded.sites && i < p->recorded.site_count; i++)
		if (p->recorded.sites[i] != PROFILE_NONE)
			p->recorded.sites[i] = to[p->recorded.sites[i]];
	profile_link_behaviour(p);
}
