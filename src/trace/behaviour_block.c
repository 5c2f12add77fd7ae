/* Behaviour in the file: four lists of entries in the order in which they came
 * up, then history as differences from slot to slot, then one more list, which recordings before
 * version 4 do not have. Floating-point sums are stored by their bits, so that a reader goes on exactly.
 *
 * A reader trusts nothing: it compares counts with the bytes that are left before
 * it allocates, compares ids with those that were defined, and refuses equal keys. */
#include "trace/behaviour_block.h"

#include "trace/record_fields.h"

#include <stddef.h>
#include <string.h>

/* All fields are stored by their bits, also doubles: a reader goes on with exactly the same sums. */
#define BITS(record, member) {offsetof(struct record, member), FIELD_UINT64}
#define WAITS(record)                                                                              \
	BITS(record, waits.frees), BITS(record, waits.bytes), BITS(record, waits.in_order),        \
		BITS(record, waits.backlog_blocks), BITS(record, waits.backlog_bytes),             \
		BITS(record, waits.backlog_time_ns), BITS(record, waits.first_birth_ns),           \
		BITS(record, waits.last_birth_ns), BITS(record, waits.first_free_ns),              \
		BITS(record, waits.last_free_ns), BITS(record, waits.birth),                       \
		BITS(record, waits.wait), BITS(record, waits.birth_birth),                         \
		BITS(record, waits.birth_wait), BITS(record, waits.wait_wait)
static const struct record_field handover_fields[] = {WAITS(behaviour_handover)};
static const struct record_field stay_fields[] = {WAITS(behaviour_stay)};
#define GROWTH(member) BITS(behaviour_growth, member)
static const struct record_field growth_fields[] = {
	GROWTH(steps),           GROWTH(moved_steps),    GROWTH(copied_bytes),
	GROWTH(blocks),          GROWTH(final_bytes),    GROWTH(largest_bytes),
	GROWTH(measured_blocks), GROWTH(measured_bytes), GROWTH(unused_bytes),
};
static const struct record_field pair_fields[] = {BITS(behaviour_pair, frees)};
static const struct record_field release_fields[] = {BITS(behaviour_release, samples)};
_Static_assert(sizeof(double) == sizeof(uint64_t), "stored by their bits");

/* The lists, in the order of the file; history comes before the stays. An entry begins with its key: ids of sites, then of threads. */
static const struct {
	uint8_t sites, threads;
	uint8_t field_count;
	uint16_t bytes; /* of an entry */
	const struct record_field *fields;
} lists[BEHAVIOUR_LISTS] = {
	[BEHAVIOUR_HANDOVERS] = {1, 0, FIELD_COUNT(handover_fields),
				 sizeof(struct behaviour_handover), handover_fields},
	[BEHAVIOUR_PAIRS] = {1, 2, FIELD_COUNT(pair_fields), sizeof(struct behaviour_pair),
			     pair_fields},
	[BEHAVIOUR_RELEASES] = {2, 0, FIELD_COUNT(release_fields), sizeof(struct behaviour_release),
				release_fields},
	[BEHAVIOUR_GROWTHS] = {1, 0, FIELD_COUNT(growth_fields), sizeof(struct behaviour_growth),
			       growth_fields},
	[BEHAVIOUR_STAYS] = {1, 1, FIELD_COUNT(stay_fields), sizeof(struct behaviour_stay),
			     stay_fields},
};
enum { LONGEST_KEY = 3, BEFORE_HISTORY = BEHAVIOUR_STAYS };

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

enum { REPLACED_LEAST_BLOCKS = 16, REPLACED_LEAST_TURNS = 10 };

/* Blocks that were replaced again and again show a program's pace, also as a small part of a heap that grows:
 * its sessions beside what it leaks. */
static bool is_replaced(const struct behaviour_row *r, const struct behaviour *b,
			const struct tally *t)
{
	uint64_t most = 0;
	for (uint32_t i = r->first; i < b->slot_count; i++)
		if (r->blocks[i] > most)
			most = r->blocks[i];
	return most >= REPLACED_LEAST_BLOCKS &&
	       t->sites[r->site].frees / REPLACED_LEAST_TURNS >= most;
}

static bool is_kept(const struct behaviour_row *r, const struct behaviour *b, const struct tally *t)
{
	return r->site < t->site_count &&
	       (t->sites[r->site].own_peak_bytes >= t->peak_bytes / BEHAVIOUR_NOTABLE ||
		is_replaced(r, b, t));
}

static void put_list(struct byte_buffer *out, unsigned list, const void *entries, uint32_t count)
{
	buffer_put(out, count);
	for (uint32_t i = 0; i < count; i++) {
		const char *entry = (const char *)entries + i * lists[list].bytes;
		uint32_t key[LONGEST_KEY];
		memcpy(key, entry, sizeof key);
		for (unsigned k = 0; k < lists[list].sites + lists[list].threads; k++)
			buffer_put(out, key[k]);
		fields_put(out, entry, lists[list].fields, lists[list].field_count);
	}
}

static void put_history(struct byte_buffer *out, const struct behaviour *b, const struct tally *t)
{
	uint32_t rows = 0;
	for (uint32_t i = 0; i < b->row_count; i++)
		rows += is_kept(b->rows[i], b, t);
	buffer_put(out, b->slot_ns);
	buffer_put(out, b->slot_count);
	buffer_put(out, rows);
	put_slots(out, b->bytes, 0, b->slot_count);
	put_slots(out, b->blocks, 0, b->slot_count);
	put_slots(out, b->events, 0, b->slot_count);
	for (uint32_t i = 0; i < b->row_count; i++) {
		const struct behaviour_row *r = b->rows[i];
		if (!is_kept(r, b, t))
			continue;
		buffer_put(out, r->site);
		buffer_put(out, r->first);
		put_slots(out, r->bytes, r->first, b->slot_count);
		put_slots(out, r->blocks, r->first, b->slot_count);
	}
}

void behaviour_put(struct byte_buffer *out, const struct behaviour *b, const struct tally *t)
{
	put_list(out, BEHAVIOUR_HANDOVERS, b->handovers, b->handover_count);
	put_list(out, BEHAVIOUR_PAIRS, b->pairs, b->pair_count);
	put_list(out, BEHAVIOUR_RELEASES, b->releases, b->release_count);
	put_list(out, BEHAVIOUR_GROWTHS, b->growths, b->growth_count);
	put_history(out, b, t);
	put_list(out, BEHAVIOUR_STAYS, b->stays, b->stay_count);
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
	return c->bad ? "a history as long as its slots and rows" : NULL;
}

/* Reads an entry of a list; false: its key is not defined, or was there before. */
static bool get_entry(struct byte_cursor *c, struct behaviour *b, unsigned list,
		      uint32_t site_limit, uint32_t thread_limit)
{
	uint32_t key[LONGEST_KEY] = {0};
	bool defined = true;
	for (unsigned k = 0; k < lists[list].sites + lists[list].threads; k++) {
		uint64_t id = cursor_get(c);
		defined &= id < (k < lists[list].sites ? site_limit : thread_limit);
		key[k] = (uint32_t)id;
	}
	void *entry = defined ? behaviour_add(b, list, key) : NULL;
	if (entry)
		fields_get(c, entry, lists[list].fields, lists[list].field_count);
	return entry;
}

static const char *get_list(struct byte_cursor *c, struct behaviour *b, unsigned list,
			    uint32_t site_limit, uint32_t thread_limit)
{
	size_t least = lists[list].sites + lists[list].threads + (size_t)lists[list].field_count;
	uint32_t count = get_count(c, least, BEHAVIOUR_ENTRIES);
	for (uint32_t i = 0; i < count && !c->bad; i++)
		if (!get_entry(c, b, list, site_limit, thread_limit))
			return "sites and threads that are defined, each once";
	return c->bad ? "as many entries as it says" : NULL;
}

const char *behaviour_get(struct byte_cursor *c, struct behaviour *b, uint32_t site_limit,
			  uint32_t thread_limit)
{
	const char *expected = NULL;
	for (unsigned l = 0; l < BEFORE_HISTORY && !expected; l++)
		expected = get_list(c, b, l, site_limit, thread_limit);
	if (!expected)
		expected = get_history(c, b, site_limit);
	if (!expected && c->at != c->end) /* a recording before version 4 ends here */
		expected = get_list(c, b, BEHAVIOUR_STAYS, site_limit, thread_limit);
	return expected ? expected : c->at != c->end ? "nothing after its lists" : NULL;
}
