/* What copied-records compares (copy_units.h). A group is all sites that are made by the same functions up to the
 * user's own, whatever the recursion and the lines. */
#include "findings/copy_units.h"

#include "findings/site_names.h"
#include "hosted/hash_index.h"

#include <stdlib.h>
#include <string.h>

/* If the peak comes while copies are being made, so many of them are there already. */
#define COPIES_MOSTLY 0.5
/* Numbers and sums nearly agree within this. */
#define COPIES_NEARLY 0.01
/* Text that has room for more takes at most so many times what is in it. */
#define COPIES_MOST_ROOM 2.5
enum { COPIES_FUNCTIONS = 40, COPIES_FRAMES = 256 }; /* of a stack that are compared, looked at */

static void add_to_unit(struct unit *u, const struct profile_site *s)
{
	u->blocks += s->peak_blocks;
	u->bytes += s->peak_bytes;
	u->resized |= s->reallocations > 0;
	u->made = u->resized ? 0 : u->made + s->allocations;
	u->made_bytes = u->resized ? 0 : u->made_bytes + s->allocated_bytes;
}

/* A hash of the functions of a stack up to the one that names it, each once: recursion makes no difference. */
static uint32_t functions_hash(const struct diagnosis *d, uint32_t site)
{
	const struct profile *p = d->p;
	uint32_t count = 0;
	const struct profile_frame *named =
		&p->stacks.frames[p->stacks.nodes[d->named[site]].frame];
	uint32_t hash = hash_number(named->module);
	const char *seen[COPIES_FUNCTIONS];
	uint32_t n = p->sites[site].node;
	for (int k = 0; k < COPIES_FRAMES && n != PROFILE_NONE;
	     k++, n = p->stacks.nodes[n].parent) {
		const char *function = p->stacks.frames[p->stacks.nodes[n].frame].function;
		uint32_t i = 0;
		while (i < count && strcmp(seen[i], function) != 0)
			i++;
		if (i == count && count < COPIES_FUNCTIONS) {
			seen[count++] = function;
			hash += hash_bytes(function, strlen(function)) | 1;
		}
		if (n == d->named[site])
			break;
	}
	return hash;
}

/* Whether most of what was ever made is live at the peak. The peak may come while the last ones are being copied
 * (when the array of the copies grows): then all that were made are compared. */
static bool is_mostly_live(const struct unit *u)
{
	return u->made && (double)u->blocks >= COPIES_MOSTLY * (double)u->made;
}

static bool same_numbers(const struct unit *u, const struct unit *o)
{
	return (u->blocks == o->blocks && u->bytes == o->bytes) ||
	       (is_mostly_live(u) && is_mostly_live(o) && u->made == o->made &&
		u->made_bytes == o->made_bytes);
}

static bool nearly(uint64_t a, uint64_t b)
{
	uint64_t more = a > b ? a : b, less = a + b - more;
	return (double)(more - less) <= COPIES_NEARLY * (double)more;
}

bool units_are_alike(const struct unit *u, const struct unit *o, enum likeness how)
{
	switch (how) {
	case LIKE_SAME: return same_numbers(u, o);
	case LIKE_NEARLY:
		return !same_numbers(u, o) && nearly(u->blocks, o->blocks) &&
		       nearly(u->bytes, o->bytes);
	case LIKE_SMALLER:
		return u->blocks == o->blocks && u->bytes < o->bytes &&
		       (double)o->bytes <= COPIES_MOST_ROOM * (double)u->bytes;
	case LIKE_LARGER: return units_are_alike(o, u, LIKE_SMALLER);
	case LIKENESSES: break;
	}
	return false;
}

static bool is_looked_at(const struct diagnosis *d, uint32_t site)
{
	const struct profile_site *s = &d->p->sites[site];
	return s->peak_blocks && s->node < d->p->stacks.node_count &&
	       d->told[site] != TOLD_EXPLAINED && d->named[site] != PROFILE_NONE;
}

int copy_units_make(struct copies *c)
{
	const struct profile *p = c->d->p;
	struct hash_index index = {0};
	uint32_t *members = calloc((size_t)p->site_count + 1, sizeof *members);
	uint32_t *hashes = malloc(((size_t)p->site_count + 1) * sizeof *hashes);
	struct unit *groups = calloc((size_t)p->site_count + 1, sizeof *groups);
	uint32_t group_count = 0;
	int rc = members && hashes && groups ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->site_count && rc == 0; i++) {
		c->group_of[i] = HASH_NONE;
		if (!is_looked_at(c->d, i))
			continue;
		if (c->count < COPIES_UNITS && p->sites[i].peak_blocks >= COPIES_LEAST_BLOCKS) {
			c->units[c->count] = (struct unit){.site = i};
			add_to_unit(&c->units[c->count++], &p->sites[i]);
		}
		uint32_t hash = functions_hash(c->d, i), at = hash, g;
		while ((g = hash_index_step(&index, hash, &at)) != HASH_NONE)
			if (hashes[g] == hash && named_alike(p, c->d->named, groups[g].site, i))
				break;
		if (g == HASH_NONE) {
			g = group_count++;
			groups[g] = (struct unit){.site = i, .group = true};
			hashes[g] = hash;
			rc = hash_index_add_at(&index, hash, at, g);
		}
		add_to_unit(&groups[g], &p->sites[i]);
		members[g]++;
		c->group_of[i] = g;
	}
	/* The numbers of groups become those of units; one of a single site is that site. */
	uint32_t *unit = hashes;
	for (uint32_t g = 0; g < group_count && rc == 0; g++) {
		bool kept = members[g] > 1 && c->count < 2 * COPIES_UNITS &&
			    groups[g].blocks >= COPIES_LEAST_BLOCKS;
		unit[g] = kept ? c->count : HASH_NONE;
		if (kept)
			c->units[c->count++] = groups[g];
	}
	for (uint32_t i = 0; i < p->site_count && rc == 0; i++)
		if (c->group_of[i] != HASH_NONE)
			c->group_of[i] = unit[c->group_of[i]];
	hash_index_fini(&index);
	free(members);
	free(hashes);
	free(groups);
	return rc;
}

bool unit_is_free(const struct copies *c, uint32_t unit)
{
	const struct unit *u = &c->units[unit];
	if (u->taken)
		return false;
	if (!u->group)
		return c->group_of[u->site] == HASH_NONE || !c->units[c->group_of[u->site]].taken;
	for (uint32_t i = 0; i < c->count && !c->units[i].group; i++)
		if (c->units[i].taken && c->group_of[c->units[i].site] == unit)
			return false;
	return true;
}

bool units_overlap(const struct copies *c, uint32_t a, uint32_t b)
{
	const struct unit *x = &c->units[a], *y = &c->units[b];
	return a == b || (x->group && !y->group && c->group_of[y->site] == a) ||
	       (y->group && !x->group && c->group_of[x->site] == b);
}

struct unit units_sum(const struct unit *a, const struct unit *b)
{
	bool resized = a->resized || b->resized;
	return (struct unit){
		.blocks = a->blocks + b->blocks,
		.bytes = a->bytes + b->bytes,
		.made = resized ? 0 : a->made + b->made,
		.made_bytes = resized ? 0 : a->made_bytes + b->made_bytes,
		.resized = resized,
	};
}
