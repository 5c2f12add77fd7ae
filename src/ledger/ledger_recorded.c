/* The heap of a recorded process: its live blocks are known, with what was asked for. Each resident byte of the heap
 * was requested, is rounding (usable, not requested), a header, or free.
 *
 * Where glibc's heap was read chunk by chunk, what is in use but in no list shows too: blocks that nobody recorded.
 * Where it was not (a large heap takes too long), the headers are the words before the blocks, and the rest is free.
 * Of another allocator only pages with live blocks are known to be its own. */
#include "ledger/ledger_parts.h"

#include "hosted/error.h"

#include <stdio.h>

const char ledger_pages_of_blocks[] = "pages with blocks";

/* ---- pages */

static uint64_t page_of(uint64_t at)
{
	return at & ~(uint64_t)(LEDGER_PAGE - 1);
}

static uint64_t block_end(const struct ledger_block *b)
{
	uint64_t bytes = b->usable_bytes > b->size_bytes ? b->usable_bytes : b->size_bytes;
	return b->address + (bytes ? bytes : 1);
}

int ledger_own_claim(struct ledger_taking *t, struct heft_error *err)
{
	bool fine = true;
	for (size_t i = 0; i < t->blocks.own_count && fine; i++) {
		const struct ledger_own *o = &t->blocks.own[i];
		if (o->at < UINT64_MAX - o->bytes)
			fine = ledger_claim_anonymous(t, o->at, o->at + o->bytes, LEDGER_HEFT,
						      "heft's tables in the program");
	}
	return fine ? 0 : heft_fail(err, HEFT_ENOMEM, "no memory for a ledger");
}

int ledger_recorded_claim(struct ledger_taking *t, struct heft_error *err)
{
	uint64_t start = 0, end = 0;
	bool fine = true;
	for (size_t i = 0; i < t->blocks.count && fine; i++) {
		const struct ledger_block *b = &t->blocks.items[i];
		uint64_t from = page_of(b->address), to = page_of(block_end(b) - 1) + LEDGER_PAGE;
		if (from <= end && end) {
			end = to > end ? to : end;
			continue;
		}
		if (end)
			fine = ledger_claim_anonymous(t, start, end, LEDGER_ALLOCATOR,
						      ledger_pages_of_blocks);
		start = from;
		end = to;
	}
	if (end && fine)
		fine = ledger_claim_anonymous(t, start, end, LEDGER_ALLOCATOR,
					      ledger_pages_of_blocks);
	return fine ? 0 : heft_fail(err, HEFT_ENOMEM, "no memory for a ledger");
}

/* ---- blocks */

/* What the blocks of one heap add up to */
struct block_sums {
	struct ledger_bytes requested, rounding, headers;
	uint64_t blocks;
};

static void measure_block(struct ledger_taking *t, const struct ledger_block *b,
			  struct block_sums *s)
{
	uint64_t end = b->address + b->size_bytes;
	ledger_pages_measure(&t->pages, b->address - 8, b->address, &s->headers);
	ledger_pages_measure(&t->pages, b->address, end, &s->requested);
	ledger_pages_measure(&t->pages, end, b->address + b->usable_bytes, &s->rounding);
	s->blocks++;
}

/* Both lists are in order of address. */
static void measure_blocks(struct ledger_taking *t, struct block_sums *arenas,
			   struct block_sums *others, uint64_t *large)
{
	enum { STEP_EVERY = 1 << 18 };
	size_t k = 0;
	for (size_t i = 0; i < t->blocks.count; i++) {
		const struct ledger_block *b = &t->blocks.items[i];
		if (i % STEP_EVERY == 0)
			t->request->step(t->request->ctx);
		while (k < t->taken.count && t->taken.items[k].end <= b->address)
			k++;
		if (k == t->taken.count || t->taken.items[k].start > b->address)
			continue;
		const struct ledger_span *s = &t->taken.items[k];
		if (s->name == ledger_heap_name)
			measure_block(t, b, arenas);
		else if (s->name == ledger_pages_of_blocks)
			measure_block(t, b, others);
		else if (s->kind == LEDGER_LARGE_MAPPINGS)
			++*large;
	}
}

/* ---- lines */

static int add_line(struct ledger *l, enum ledger_kind kind, const char *name,
		    const struct ledger_bytes *bytes, uint64_t blocks, struct heft_error *err)
{
	if (!bytes->mapped && !bytes->resident)
		return 0;
	int rc = ledger_add(l, kind, name, bytes, err);
	for (size_t i = 0; i < l->count && !rc && blocks; i++)
		if (l->items[i].kind == kind && !strcmp(l->items[i].name, name))
			l->items[i].blocks += blocks;
	return rc;
}

static int add_blocks(struct ledger *l, const struct block_sums *s, struct heft_error *err)
{
	int rc = add_line(l, LEDGER_REQUESTED, "requested", &s->requested, s->blocks, err);
	return rc ? rc
		  : add_line(l, LEDGER_ROUNDING, "rounding: usable, not requested", &s->rounding,
			     s->blocks, err);
}

/* glibc's heap, read chunk by chunk. 1: the blocks do not fit what was read. */
static int lines_of_chunks(struct ledger_taking *t, const struct ledger_bytes *heap,
			   const struct block_sums *s, struct ledger *l, struct heft_error *err)
{
	const struct older_totals *totals = &t->totals;
	struct ledger_bytes rest = *heap, in_use = totals->kinds[OLDER_IN_USE];
	uint64_t all = totals->used.blocks - totals->mapped.blocks;
	if (!ledger_subtract(&in_use, &s->requested) || !ledger_subtract(&in_use, &s->rounding) ||
	    s->blocks > all)
		return 1;
	for (size_t i = 0; i < OLDER_KINDS; i++)
		if (!ledger_subtract(&rest, &totals->kinds[i]))
			return 1;
	int rc = add_blocks(l, s, err);
	if (!rc && all > s->blocks)
		rc = add_line(l, LEDGER_IN_USE, "blocks in use that were not recorded", &in_use,
			      all - s->blocks, err);
	if (!rc)
		rc = add_line(l, LEDGER_HEADERS, "headers of blocks in use",
			      &totals->kinds[OLDER_HEADERS], all, err);
	return rc ? rc : ledger_heap_free_lines(t, &rest, l, err);
}

/* The same without the chunks, or another allocator's pages. */
static int lines_of_blocks(struct ledger_taking *t, const struct ledger_bytes *heap,
			   const struct block_sums *s, bool has_headers, struct ledger *l,
			   struct heft_error *err)
{
	struct ledger_bytes rest = *heap;
	if (!heap->mapped)
		return 0;
	if (!ledger_subtract(&rest, &s->requested) || !ledger_subtract(&rest, &s->rounding) ||
	    (has_headers && !ledger_subtract(&rest, &s->headers))) {
		snprintf(l->note, sizeof l->note,
			 "The blocks of the heap overlap, so it is not split.");
		return ledger_add(l, LEDGER_ALLOCATOR, "the heap", heap, err);
	}
	int rc = add_blocks(l, s, err);
	if (!rc && has_headers)
		rc = add_line(l, LEDGER_HEADERS, "headers of blocks in use", &s->headers, s->blocks,
			      err);
	const char *name = !has_headers            ? "between blocks, in pages of another allocator"
			   : t->request->all_known ? "free, in bins, caches and at the top"
						   : "free, or in use since before it was recorded";
	return rc ? rc : add_line(l, LEDGER_HELD_FREE, name, &rest, 0, err);
}

int ledger_recorded_lines(struct ledger_taking *t, const struct ledger_bytes *arenas,
			  const struct ledger_bytes *others, struct ledger *l,
			  struct heft_error *err)
{
	struct block_sums in_arenas = {0}, elsewhere = {0};
	uint64_t large = 0;
	measure_blocks(t, &in_arenas, &elsewhere, &large);
	int rc = t->heap && t->heap_was_still ? lines_of_chunks(t, arenas, &in_arenas, l, err) : 1;
	if (rc == 1)
		rc = lines_of_blocks(t, arenas, &in_arenas, t->heap != NULL, l, err);
	if (!rc)
		rc = lines_of_blocks(t, others, &elsewhere, false, l, err);
	for (size_t i = 0; i < l->count; i++)
		if (l->items[i].kind == LEDGER_LARGE_MAPPINGS)
			l->items[i].blocks = large;
	if (t->blocks.about && !l->note[0])
		snprintf(l->note, sizeof l->note,
			 "Threads were in the middle of calls: what is requested and what is free "
			 "may be wrong by a few blocks.");
	return rc;
}
