/* Behaviour in the file: four lists of entries in the order in which they came
 * up, then history as differences from slot to slot. Floating-point sums are
 * stored as their bits, so that a reader goes on exactly.
 *
 * Reading believes nothing: counts are compared with the bytes that are left
 * before anything is allocated, ids with what was defined, keys must differ. */
#include "trace/behaviour_block.h"

#include <stddef.h>
#include <string.h>

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

#define HANDOVER(field) offsetof(struct behaviour_handover, field)
static const size_t handover_fields[] = {
	HANDOVER(frees),
	HANDOVER(bytes),
	HANDOVER(in_order),
	HANDOVER(backlog_blocks),
	HANDOVER(backlog_bytes),
	HANDOVER(backlog_time_ns),
	HANDOVER(first_birth_ns),
	HANDOVER(last_birth_ns),
	HANDOVER(first_free_ns),
	HANDOVER(last_free_ns),
	/* doubles, by their bits */
	HANDOVER(birth),
	HANDOVER(wait),
	HANDOVER(birth_birth),
	HANDOVER(birth_wait),
	HANDOVER(wait_wait),
};
#define GROWTH(field) offsetof(struct behaviour_growth, field)
static const size_t growth_fields[] = {
	GROWTH(steps),           GROWTH(moved_steps),    GROWTH(copied_bytes),
	GROWTH(blocks),          GROWTH(final_bytes),    GROWTH(largest_bytes),
	GROWTH(measured_blocks), GROWTH(measured_bytes), GROWTH(unused_bytes),
};
_Static_assert(sizeof(double) == sizeof(uint64_t), "stored by their bits");

static uint64_t field(const void *base, size_t offset)
{
	uint64_t value;
	memcpy(&value, (const char *)base + offset, sizeof value);
	return value;
}

static void set_field(void *base, size_t offset, uint64_t value)
{
	memcpy((char *)base + offset, &value, sizeof value);
}

static void put_slots(struct byte_buffer *out, const uint64_t *values, uint32_t first,
		      uint32_t count)
{
	uint64_t last = 0;
	for (uint32_t i = first; i < count; i++) {
		buffer_put(out, zigzag((int64_t)(values[i] - last)));
		last = values[i];
	}
}

static void get_slots(struct byte_cursor *c, uint64_t *values, uint32_t first, uint32_t count)
{
	uint64_t last = 0;
	for (uint32_t i = first; i < count; i++)
		values[i] = last += (uint64_t)unzigzag(cursor_get(c));
}

static bool is_kept(const struct behaviour_row *r, const struct tally *t)
{
	return r->site < t->site_count &&
	       t->sites[r->site].own_peak_bytes >= t->peak_bytes / BEHAVIOUR_NOTABLE;
}

void behaviour_put(struct byte_buffer *out, const struct behaviour *b, const struct tally *t)
{
	buffer_put(out, b->handover_count);
	for (uint32_t i = 0; i < b->handover_count; i++) {
		buffer_put(out, b->handovers[i].site);
		for (size_t k = 0; k < LENGTH(handover_fields); k++)
			buffer_put(out, field(&b->handovers[i], handover_fields[k]));
	}
	buffer_put(out, b->pair_count);
	for (uint32_t i = 0; i < b->pair_count; i++) {
		buffer_put(out, b->pairs[i].site);
		buffer_put(out, b->pairs[i].from);
		buffer_put(out, b->pairs[i].to);
		buffer_put(out, b->pairs[i].frees);
	}
	buffer_put(out, b->release_count);
	for (uint32_t i = 0; i < b->release_count; i++) {
		buffer_put(out, b->releases[i].site);
		buffer_put(out, b->releases[i].free_site);
		buffer_put(out, b->releases[i].samples);
	}
	buffer_put(out, b->growth_count);
	for (uint32_t i = 0; i < b->growth_count; i++) {
		buffer_put(out, b->growths[i].site);
		for (size_t k = 0; k < LENGTH(growth_fields); k++)
			buffer_put(out, field(&b->growths[i], growth_fields[k]));
	}
	uint32_t rows = 0;
	for (uint32_t i = 0; i < b->row_count; i++)
		rows += is_kept(b->rows[i], t);
	buffer_put(out, b->slot_ns);
	buffer_put(out, b->slot_count);
	buffer_put(out, rows);
	put_slots(out, b->bytes, 0, b->slot_count);
	put_slots(out, b->blocks, 0, b->slot_count);
	put_slots(out, b->events, 0, b->slot_count);
	for (uint32_t i = 0; i < b->row_count; i++) {
		const struct behaviour_row *r = b->rows[i];
		if (!is_kept(r, t))
			continue;
		buffer_put(out, r->site);
		buffer_put(out, r->first);
		put_slots(out, r->bytes, r->first, b->slot_count);
		put_slots(out, r->blocks, r->first, b->slot_count);
	}
}

/* How many entries of at least `least` bytes follow. */
static uint32_t get_count(struct byte_cursor *c, size_t least, uint32_t most)
{
	uint64_t count = cursor_get_max(c, most);
	if (count > cursor_left(c) / least) {
		c->bad = true;
		return 0;
	}
	return (uint32_t)count;
}

static const char *get_history(struct byte_cursor *c, struct behaviour *b, uint32_t site_limit)
{
	b->slot_ns = cursor_get(c);
	b->slot_count = (uint32_t)cursor_get_max(c, BEHAVIOUR_SLOTS);
	uint32_t rows = get_count(c, 2, BEHAVIOUR_ROWS);
	if (c->bad || !b->slot_ns || b->slot_ns > UINT64_MAX / (4 * BEHAVIOUR_SLOTS))
		return "a history of slots and rows";
	get_slots(c, b->bytes, 0, b->slot_count);
	get_slots(c, b->blocks, 0, b->slot_count);
	get_slots(c, b->events, 0, b->slot_count);
	if (rows && !(b->rows = calloc(BEHAVIOUR_ROWS, sizeof *b->rows)))
		return "enough memory for its history";
	for (uint32_t i = 0; i < rows && !c->bad; i++) {
		struct behaviour_row *r = calloc(1, sizeof *r);
		if (!r)
			return "enough memory for its history";
		b->rows[b->row_count++] = r;
		r->site = (uint32_t)cursor_get(c);
		r->first = (uint32_t)cursor_get_max(c, b->slot_count);
		if (r->site >= site_limit)
			return "sites that are defined";
		for (uint32_t k = 0; k < i; k++)
			if (b->rows[k]->site == r->site)
				return "one row a site";
		get_slots(c, r->bytes, r->first, b->slot_count);
		get_slots(c, r->blocks, r->first, b->slot_count);
	}
	return c->bad || c->at != c->end ? "a history as long as its slots and rows" : NULL;
}

const char *behaviour_get(struct byte_cursor *c, struct behaviour *b, uint32_t site_limit,
			  uint32_t thread_limit)
{
	static const char *const defined = "sites and threads that are defined, each once";
	uint32_t count = get_count(c, 1 + LENGTH(handover_fields), BEHAVIOUR_ENTRIES);
	for (uint32_t i = 0; i < count && !c->bad; i++) {
		uint64_t site = cursor_get(c);
		struct behaviour_handover *h = site < site_limit
						       ? behaviour_add_handover(b, (uint32_t)site)
						       : NULL;
		if (!h)
			return defined;
		for (size_t k = 0; k < LENGTH(handover_fields); k++)
			set_field(h, handover_fields[k], cursor_get(c));
	}
	count = get_count(c, 4, BEHAVIOUR_ENTRIES);
	for (uint32_t i = 0; i < count && !c->bad; i++) {
		uint64_t site = cursor_get(c), from = cursor_get(c), to = cursor_get(c);
		struct behaviour_pair *p = NULL;
		if (site < site_limit && from < thread_limit && to < thread_limit)
			p = behaviour_add_pair(b, (uint32_t)site, (uint32_t)from, (uint32_t)to);
		if (!p)
			return defined;
		p->frees = cursor_get(c);
	}
	count = get_count(c, 3, BEHAVIOUR_ENTRIES);
	for (uint32_t i = 0; i < count && !c->bad; i++) {
		uint64_t site = cursor_get(c), free_site = cursor_get(c);
		struct behaviour_release *r = NULL;
		if (site < site_limit && free_site < site_limit)
			r = behaviour_add_release(b, (uint32_t)site, (uint32_t)free_site);
		if (!r)
			return defined;
		r->samples = cursor_get(c);
	}
	count = get_count(c, 1 + LENGTH(growth_fields), BEHAVIOUR_ENTRIES);
	for (uint32_t i = 0; i < count && !c->bad; i++) {
		uint64_t site = cursor_get(c);
		struct behaviour_growth *g = site < site_limit
						     ? behaviour_add_growth(b, (uint32_t)site)
						     : NULL;
		if (!g)
			return defined;
		for (size_t k = 0; k < LENGTH(growth_fields); k++)
			set_field(g, growth_fields[k], cursor_get(c));
	}
	if (c->bad)
		return "as many entries as it says";
	return get_history(c, b, site_limit);
}
