/* How much of the live blocks of a recorded process was never written to, site by site: its pages are known from the
 * pause, and its blocks are gone through for the lines of the ledger in any case, after the pause. So every ledger has it,
 * also where nobody asked for a look at what the blocks hold (heap_look_take.c).
 *
 * A block smaller than a page never shows it. */
#include "ledger/ledger_touched.h"

#include "hosted/error.h"

void ledger_touched_add(struct ledger_touched *to, const struct ledger_block *b)
{
	to->blocks++;
	to->bytes += b->size_bytes;
	while (b->site >= to->count)
		if (!vector_push(to, (struct ledger_touched_site){0})) {
			to->failed = true;
			return;
		}
	struct ledger_touched_site *site = &to->items[b->site];
	site->blocks++;
	site->bytes += b->size_bytes;
	if (b->size_bytes < LEDGER_PAGE ||
	    ledger_pages_are_own(to->pages, b->address, b->address + b->size_bytes))
		return;
	struct ledger_bytes there = {0};
	ledger_pages_measure(to->pages, b->address, b->address + b->size_bytes, &there);
	const uint64_t touched = there.resident + there.swapped;
	if (touched < b->size_bytes) {
		site->untouched_blocks++;
		site->untouched_bytes += b->size_bytes - touched;
	}
}

int ledger_touched_rows(const struct ledger_touched *from, struct heap_look *out,
			struct heft_error *err)
{
	bool fine = !from->failed;
	for (size_t i = 0; i < from->count && out->count < HEAP_LOOK_ROWS && fine; i++) {
		const struct ledger_touched_site *s = &from->items[i];
		const struct heap_site row = {.site = (uint32_t)i,
					      .blocks = s->blocks,
					      .bytes = s->bytes,
					      .untouched_blocks = s->untouched_blocks,
					      .untouched_bytes = s->untouched_bytes};
		if (s->untouched_blocks)
			fine = vector_push(out, row);
	}
	if (!fine)
		return heft_fail(err, HEFT_ENOMEM, "no memory for the blocks of a ledger");
	out->parts = HEAP_TOUCHED;
	out->blocks = from->blocks;
	out->bytes = from->bytes;
	return 0;
}
