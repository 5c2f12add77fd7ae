/* Keeps behaviour (see behaviour.h).
 *
 * The tally calls this for few events: frees by another thread, frees
 * that carry their own call stack, reallocs, sites that reach a new size. So
 * looking up an entry may take a hash; a hand-over remembers its last pair of
 * threads.
 *
 * History costs nothing an event: the tally applies a batch at once unless it
 * spans the end of a slot. Then the events before that end come first, and the
 * slot is filled from what they add up to: a batch of a program that allocates
 * seldom may span many slots. A site gets a row when its own peak first
 * reaches a BEHAVIOUR_NOTABLEth of the heap's; with all rows taken, the smallest
 * gives way to one twice its size.
 *
 * Invariant: watched in struct tally_site is set exactly for sites with a row. */
#include "tally/behaviour.h"

#include "hosted/vector.h"
#include "tally/tally.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOT_NS = 1 << 16 };

void behaviour_init(struct behaviour *b)
{
	memset(b, 0, sizeof *b);
	b->slot_ns = FIRST_SLOT_NS;
}

void behaviour_fini(struct behaviour *b)
{
	free(b->handovers);
	free(b->pairs);
	free(b->stays);
	free(b->releases);
	free(b->growths);
	hash_index_fini(&b->handover_index);
	hash_index_fini(&b->pair_index);
	hash_index_fini(&b->stay_index);
	hash_index_fini(&b->release_index);
	hash_index_fini(&b->growth_index);
	for (uint32_t i = 0; i < b->row_count; i++)
		free(b->rows[i]);
	free(b->rows);
	memset(b, 0, sizeof *b);
}

/* ---- entries, found by the one to three numbers that they begin with */

/* Finds the entry with this key, or makes it if there may be one more: *made. NULL: neither. The array
 * whose pointer is at entries_at may move. */
static void *find(struct behaviour *b, struct hash_index *index, void *entries_at, uint32_t *count,
		  uint32_t *capacity, size_t element, const uint32_t *key, unsigned words,
		  bool *made)
{
	char *entries;
	memcpy(&entries, entries_at, sizeof entries); /* a pointer of another type */
	*made = false;
	uint64_t mixed = 0;
	for (unsigned i = 0; i < words; i++)
		mixed = hash_mix(mixed, key[i]);
	uint32_t hash = hash_number(mixed), i;
	for (uint32_t at = hash; (i = hash_index_step(index, hash, &at)) != HASH_NONE;)
		if (memcmp(entries + i * element, key, words * sizeof *key) == 0)
			return entries + i * element;
	if (b->failed || *count >= BEHAVIOUR_ENTRIES)
		return NULL;
	if (*count == *capacity) {
		size_t bigger = array_grow(entries_at, *capacity, *count, 1, BEHAVIOUR_ENTRIES,
					   element);
		b->failed = !bigger;
		if (bigger)
			*capacity = (uint32_t)bigger;
	}
	if (b->failed || hash_index_add(index, hash, *count) < 0) {
		b->failed = true;
		return NULL;
	}
	memcpy(&entries, entries_at, sizeof entries);
	char *e = entries + *count * element;
	memset(e, 0, element);
	memcpy(e, key, words * sizeof *key);
	++*count;
	*made = true;
	return e;
}

static struct behaviour_handover *handover_of(struct behaviour *b, uint32_t site, bool *made)
{
	uint32_t *near = &b->near_handover[site % BEHAVIOUR_NEAR];
	*made = false;
	if (*near && b->handovers[*near - 1].site == site)
		return &b->handovers[*near - 1];
	struct behaviour_handover *h = find(b, &b->handover_index, &b->handovers,
					    &b->handover_count, &b->handover_capacity,
					    sizeof *b->handovers, &site, 1, made);
	if (*made)
		h->last_pair = BEHAVIOUR_NO_PAIR;
	if (h)
		*near = (uint32_t)(h - b->handovers) + 1;
	return h;
}

static struct behaviour_pair *pair_of(struct behaviour *b, uint32_t site, uint32_t from,
				      uint32_t to, bool *made)
{
	const uint32_t key[3] = {site, from, to};
	return find(b, &b->pair_index, &b->pairs, &b->pair_count, &b->pair_capacity,
		    sizeof *b->pairs, key, 3, made);
}

static struct behaviour_stay *stay_of(struct behaviour *b, uint32_t site, uint32_t thread,
				      bool *made)
{
	uint32_t *near = &b->near_stay[site % BEHAVIOUR_NEAR];
	*made = false;
	if (*near && b->stays[*near - 1].site == site && b->stays[*near - 1].thread == thread)
		return &b->stays[*near - 1];
	const uint32_t key[2] = {site, thread};
	struct behaviour_stay *s = find(b, &b->stay_index, &b->stays, &b->stay_count,
					&b->stay_capacity, sizeof *b->stays, key, 2, made);
	if (s)
		*near = (uint32_t)(s - b->stays) + 1;
	return s;
}

static struct behaviour_release *release_of(struct behaviour *b, uint32_t site, uint32_t free_site,
					    bool *made)
{
	const uint32_t key[2] = {site, free_site};
	return find(b, &b->release_index, &b->releases, &b->release_count, &b->release_capacity,
		    sizeof *b->releases, key, 2, made);
}

static struct behaviour_growth *growth_of(struct behaviour *b, uint32_t site, bool *made)
{
	uint32_t *near = &b->near_growth[site % BEHAVIOUR_NEAR];
	*made = false;
	if (*near && b->growths[*near - 1].site == site)
		return &b->growths[*near - 1];
	struct behaviour_growth *e = find(b, &b->growth_index, &b->growths, &b->growth_count,
					  &b->growth_capacity, sizeof *b->growths, &site, 1, made);
	if (e)
		*near = (uint32_t)(e - b->growths) + 1;
	return e;
}

void *behaviour_add(struct behaviour *b, enum behaviour_list list, const uint32_t *key)
{
	bool made = false;
	void *e = NULL;
	switch (list) {
	case BEHAVIOUR_HANDOVERS: e = handover_of(b, key[0], &made); break;
	case BEHAVIOUR_PAIRS: e = pair_of(b, key[0], key[1], key[2], &made); break;
	case BEHAVIOUR_RELEASES: e = release_of(b, key[0], key[1], &made); break;
	case BEHAVIOUR_GROWTHS: e = growth_of(b, key[0], &made); break;
	case BEHAVIOUR_STAYS: e = stay_of(b, key[0], key[1], &made); break;
	case BEHAVIOUR_LISTS: break;
	}
	return made ? e : NULL;
}

/* ---- events */

/* first: nothing was added to w before. */
static void add_wait(struct behaviour_waits *w, const struct behaviour_hand *e, bool first,
		     uint64_t live_blocks, uint64_t live_bytes)
{
	uint64_t birth = e->time_ns > e->lifetime_ns ? e->time_ns - e->lifetime_ns : 0;
	if (first) {
		w->first_birth_ns = w->last_birth_ns = birth;
		w->first_free_ns = e->time_ns;
	}
	w->frees += e->weight;
	w->bytes += e->size * e->weight;
	/* Several producers may step back a little without there being another order. */
	w->in_order += birth + e->lifetime_ns / 8 >= w->last_birth_ns ? e->weight : 0;
	if (birth > w->last_birth_ns)
		w->last_birth_ns = birth;
	double x = ((double)birth - (double)w->first_birth_ns) / 1e3;
	double y = (double)e->lifetime_ns / 1e3, weight = (double)e->weight;
	if (birth < w->first_birth_ns)
		x = 0;
	w->birth += weight * x;
	w->wait += weight * y;
	w->birth_birth += weight * x * x;
	w->birth_wait += weight * x * y;
	w->wait_wait += weight * y * y;
	w->last_free_ns = e->time_ns;
	if (live_blocks > w->backlog_blocks) {
		w->backlog_blocks = live_blocks;
		w->backlog_bytes = live_bytes;
		w->backlog_time_ns = e->time_ns;
	}
}

void behaviour_on_handover(struct behaviour *b, const struct behaviour_hand *e,
			   uint64_t live_blocks, uint64_t live_bytes)
{
	bool made;
	struct behaviour_handover *h = handover_of(b, e->site, &made);
	if (!h)
		return;
	add_wait(&h->waits, e, made, live_blocks, live_bytes);
	struct behaviour_pair *p = h->last_pair < b->pair_count ? &b->pairs[h->last_pair] : NULL;
	if (!p || p->from != e->from || p->to != e->to) {
		p = pair_of(b, e->site, e->from, e->to, &made);
		if (!p)
			return;
		h->last_pair = (uint32_t)(p - b->pairs);
	}
	p->frees++;
}

void behaviour_on_stay(struct behaviour *b, const struct behaviour_hand *e, uint64_t live_blocks,
		       uint64_t live_bytes)
{
	bool made;
	struct behaviour_stay *s = stay_of(b, e->site, e->to, &made);
	if (s)
		add_wait(&s->waits, e, made, live_blocks, live_bytes);
}

void behaviour_on_free(struct behaviour *b, const struct trace_event *e, uint64_t live_blocks,
		       uint64_t live_bytes)
{
	if (e->op == TRACE_FREE && e->thread != e->birth_thread) {
		const struct behaviour_hand hand = {e->time_ns, e->lifetime_ns,  e->size,
						    e->site,    e->birth_thread, e->thread,
						    1};
		behaviour_on_handover(b, &hand, live_blocks, live_bytes);
	}
	bool made;
	if (e->flags & TRACE_FREED_AT) {
		struct behaviour_release *r = release_of(b, e->site, e->free_site, &made);
		if (r)
			r->samples++;
	}
	if (e->flags & (TRACE_GROWN | TRACE_MEASURED)) {
		struct behaviour_growth *g = growth_of(b, e->site, &made);
		if (!g)
			return;
		g->blocks++;
		g->final_bytes += e->size;
		if (e->size > g->largest_bytes)
			g->largest_bytes = e->size;
		if (e->flags & TRACE_MEASURED) {
			g->measured_blocks++;
			g->measured_bytes += e->size;
			g->unused_bytes += e->unused_bytes < e->size ? e->unused_bytes : e->size;
		}
	}
}

void behaviour_on_realloc(struct behaviour *b, const struct trace_event *e)
{
	if (e->size <= e->old_size)
		return;
	bool made;
	struct behaviour_growth *g = growth_of(b, e->site, &made);
	if (!g)
		return;
	g->steps++;
	g->moved_steps += (e->flags & TRACE_MOVED) != 0;
	if (e->flags & TRACE_COPIED)
		g->copied_bytes += e->old_size;
}

/* ---- history */

uint64_t behaviour_watch(struct behaviour *b, struct tally *t, uint32_t site)
{
	struct behaviour_row *row = NULL;
	if (b->failed)
		return UINT64_MAX;
	if (!b->rows) {
		b->rows = calloc(BEHAVIOUR_ROWS, sizeof *b->rows);
		if (!b->rows) {
			b->failed = true;
			return UINT64_MAX;
		}
	}
	if (b->row_count < BEHAVIOUR_ROWS) {
		row = malloc(sizeof *row);
		if (!row) {
			b->failed = true;
			return UINT64_MAX;
		}
		b->rows[b->row_count++] = row;
	} else {
		uint64_t least = UINT64_MAX;
		for (uint32_t i = 0; i < b->row_count; i++) {
			uint64_t own = t->sites[b->rows[i]->site].own_peak_bytes;
			if (own < least) {
				least = own;
				row = b->rows[i];
			}
		}
		if (!row || t->sites[site].own_peak_bytes / 2 < least)
			return least < UINT64_MAX / 4 ? least * 2 : UINT64_MAX;
		t->sites[row->site].watched = 0;
	}
	memset(row, 0, sizeof *row);
	row->site = site;
	row->first = b->slot_count;
	t->sites[site].watched = 1;
	return t->notable_bytes;
}

/* Every second slot stays: slot i of the longer ones ends where slot 2i + 1 did. */
static void halve(struct behaviour *b)
{
	uint32_t half = b->slot_count / 2;
	for (uint32_t i = 0; i < half; i++) {
		b->bytes[i] = b->bytes[2 * i + 1];
		b->blocks[i] = b->blocks[2 * i + 1];
		b->events[i] = b->events[2 * i + 1];
	}
	for (uint32_t k = 0; k < b->row_count; k++) {
		struct behaviour_row *r = b->rows[k];
		for (uint32_t i = 0; i < half; i++) {
			r->bytes[i] = r->bytes[2 * i + 1];
			r->blocks[i] = r->blocks[2 * i + 1];
		}
		r->first /= 2;
	}
	b->slot_count = half;
	b->slot_ns *= 2;
}

void behaviour_advance(struct behaviour *b, struct tally *t, uint64_t time_ns)
{
	if (time_ns / b->slot_ns < (uint64_t)b->slot_count + 1)
		return;
	while (time_ns / b->slot_ns >= (uint64_t)b->slot_count + 1) {
		if (b->slot_count == BEHAVIOUR_SLOTS) {
			halve(b);
			continue;
		}
		uint32_t at = b->slot_count++;
		b->bytes[at] = t->live_bytes;
		b->blocks[at] = t->live_blocks;
		b->events[at] = t->events;
		for (uint32_t k = 0; k < b->row_count; k++) {
			struct behaviour_row *r = b->rows[k];
			r->bytes[at] = t->sites[r->site].live_bytes;
			r->blocks[at] = t->sites[r->site].live_blocks;
		}
	}
	uint64_t notable = t->peak_bytes / BEHAVIOUR_NOTABLE;
	if (b->row_count < BEHAVIOUR_ROWS || notable > t->notable_bytes)
		t->notable_bytes = notable;
}
