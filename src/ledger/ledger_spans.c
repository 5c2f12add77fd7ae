/* Claims on an address space (ledger_spans.h): two lists that are sorted by address are merged, and what is taken
 * already is cut out of the new one. A program may have 100,000 mappings, so each rule makes its claims in one go. */
#include "ledger/ledger_spans.h"

#include "hosted/error.h"
#include "ledger/ledger_pages.h"

bool ledger_spans_add(struct ledger_spans *wanted, const struct ledger_span *span)
{
	struct ledger_span s = *span;
	s.start &= ~(uint64_t)(LEDGER_PAGE - 1);
	s.end = (s.end + LEDGER_PAGE - 1) & ~(uint64_t)(LEDGER_PAGE - 1);
	return s.start >= s.end || vector_push(wanted, s);
}

static int by_start(const void *a, const void *b)
{
	uint64_t x = ((const struct ledger_span *)a)->start;
	uint64_t y = ((const struct ledger_span *)b)->start;
	return (x > y) - (x < y);
}

/* Appends the parts of a span that are neither taken nor behind `from`. *next: the first taken one that may be in its
 * way. */
static bool add_free_parts(struct ledger_spans *to, const struct ledger_spans *taken, size_t *next,
			   const struct ledger_span *span)
{
	uint64_t from = span->start;
	while (*next < taken->count && taken->items[*next].end <= from)
		++*next;
	for (size_t i = *next; from < span->end; i++) {
		bool more = i < taken->count && taken->items[i].start < span->end;
		uint64_t until = more ? taken->items[i].start : span->end;
		struct ledger_span part = *span;
		part.start = from;
		part.end = until;
		if (from < until && !vector_push(to, part))
			return false;
		if (!more)
			break;
		from = taken->items[i].end > from ? taken->items[i].end : from;
	}
	return true;
}

int ledger_spans_claim(struct ledger_spans *taken, struct ledger_spans *wanted,
		       struct heft_error *err)
{
	struct ledger_spans free_parts = {0};
	bool fine = true;
	size_t next = 0;
	uint64_t end = 0;
	if (wanted->count)
		qsort(wanted->items, wanted->count, sizeof *wanted->items, by_start);
	for (size_t i = 0; i < wanted->count && fine; i++) {
		struct ledger_span s = wanted->items[i];
		s.start = s.start < end ? end : s.start; /* claims of one rule may overlap */
		if (s.start >= s.end)
			continue;
		end = s.end;
		fine = add_free_parts(&free_parts, taken, &next, &s);
	}
	if (fine)
		fine = vector_reserve(taken, free_parts.count + 1);
	for (size_t i = 0; i < free_parts.count && fine; i++)
		taken->items[taken->count++] = free_parts.items[i];
	if (fine && taken->count)
		qsort(taken->items, taken->count, sizeof *taken->items, by_start);
	vector_free(&free_parts);
	wanted->count = 0;
	return fine ? 0 : heft_fail(err, HEFT_ENOMEM, "no memory for a ledger");
}
