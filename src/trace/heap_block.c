/* What a look at a heap told, in a recording: its own numbers, then a row for each site that has something to tell
 * (docs/trace-format.md). A row that contradicts itself is refused, so that readers need not think of blocks that are
 * lost twice. Numbers are below 2^48 and rows below 2^17, so that sums cannot overflow. */
#include "trace/heap_block.h"

#include "trace/record_fields.h"

#define NUMBER_MOST ((UINT64_C(1) << 48) - 1)

#define LOOK(member) FIELD(heap_look, member)
static const struct record_field look_fields[] = {
	LOOK(parts),      LOOK(time_ns),      LOOK(took_ns),
	LOOK(blocks),     LOOK(bytes),        LOOK(root_bytes),
	LOOK(heap_bytes), LOOK(pinned_bytes), LOOK(releasable_bytes),
	LOOK(trim_bytes),
};
#define SITE(member) FIELD(heap_site, member)
static const struct record_field site_fields[] = {
	SITE(blocks),           SITE(bytes),
	SITE(direct_blocks),    SITE(direct_bytes),
	SITE(indirect_blocks),  SITE(indirect_bytes),
	SITE(held_blocks),      SITE(held_bytes),
	SITE(untouched_blocks), SITE(untouched_bytes),
	SITE(duplicate_blocks), SITE(duplicate_bytes),
	SITE(zero_blocks),      SITE(zero_bytes),
	SITE(pinned_bytes),
};

void heap_block_put(struct byte_buffer *b, const struct heap_look *l, uint32_t process)
{
	uint32_t last = 0;
	buffer_put(b, process);
	fields_put(b, l, look_fields, FIELD_COUNT(look_fields));
	buffer_put_string(b, l->note);
	buffer_put(b, l->count);
	for (size_t i = 0; i < l->count; i++) {
		buffer_put(b, l->items[i].site - last);
		last = l->items[i].site;
		fields_put(b, &l->items[i], site_fields, FIELD_COUNT(site_fields));
	}
}

static bool is_sane(const struct heap_site *s)
{
	const uint64_t numbers[] = {s->blocks,          s->bytes,           s->direct_blocks,
				    s->direct_bytes,    s->indirect_blocks, s->indirect_bytes,
				    s->held_blocks,     s->held_bytes,      s->untouched_bytes,
				    s->duplicate_bytes, s->zero_bytes,      s->pinned_bytes};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (numbers[i] > NUMBER_MOST)
			return false;
	return s->direct_blocks + s->indirect_blocks <= s->blocks &&
	       s->direct_bytes + s->indirect_bytes <= s->bytes &&
	       s->untouched_blocks <= s->blocks && s->untouched_bytes <= s->bytes &&
	       s->duplicate_blocks <= s->blocks && s->zero_blocks <= s->blocks &&
	       s->duplicate_blocks + s->zero_blocks <= s->blocks &&
	       s->duplicate_bytes + s->zero_bytes <= s->bytes;
}

static const char *get_row(struct heap_look *l, uint32_t site_count, struct byte_cursor *c)
{
	uint64_t last = l->count ? l->items[l->count - 1].site : 0;
	uint64_t step = cursor_get_max(c, UINT32_MAX);
	struct heap_site row = {0};
	if (c->bad || last + step >= site_count || (l->count && !step))
		return "rows of sites that have been defined, in their order";
	row.site = (uint32_t)(last + step);
	fields_get(c, &row, site_fields, FIELD_COUNT(site_fields));
	if (c->bad || !is_sane(&row))
		return "a row that does not contradict itself";
	return vector_push(l, row) ? NULL : "enough memory for a look at a heap";
}

const char *heap_block_get(struct heap_look *l, uint32_t *process, uint32_t site_count,
			   struct byte_cursor *c)
{
	size_t length;
	const char *wrong = NULL;
	struct heap_site sum = {0};
	*process = (uint32_t)cursor_get_max(c, UINT32_MAX);
	fields_get(c, l, look_fields, FIELD_COUNT(look_fields));
	const uint8_t *note = cursor_get_bytes(c, &length);
	if (c->bad || length >= sizeof l->note)
		return "the start of a look at a heap";
	memcpy(l->note, note, length);
	uint64_t count = cursor_get(c);
	if (count > HEAP_LOOK_ROWS || count > cursor_left(c) / (1 + FIELD_COUNT(site_fields)))
		return "as many rows as the look says";
	for (uint64_t i = 0; i < count && !wrong; i++)
		wrong = get_row(l, site_count, c);
	if (!wrong && (c->bad || c->at != c->end))
		wrong = "as many rows as the look says";
	for (size_t i = 0; i < l->count; i++) {
		sum.blocks += l->items[i].blocks;
		sum.bytes += l->items[i].bytes;
		sum.pinned_bytes += l->items[i].pinned_bytes;
	}
	/* Rows are rounded one by one; some may have been left out. */
	if (!wrong &&
	    (sum.blocks > l->blocks || sum.bytes > l->bytes ||
	     sum.pinned_bytes > l->pinned_bytes + l->count || l->heap_bytes > NUMBER_MOST ||
	     l->releasable_bytes > l->heap_bytes || l->trim_bytes > l->heap_bytes))
		wrong = "rows that add up to no more than the look";
	return wrong;
}
