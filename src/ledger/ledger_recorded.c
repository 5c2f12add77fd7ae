/* The heap of a recorded process: its live blocks are known, with what was asked for. Each resident byte of the heap
 * was requested, is rounding (usable, not requested), a header, or free.
 *
 * Where glibc's heap was read chunk by chunk, what is in use but in no list shows too: blocks that nobody recorded.
 * Where it was not (a large heap takes too long), the headers are the words before the blocks, and the rest is free.
 * Of another allocator only pages with live blocks are known to be its own. */
#include "ledger/ledger_parts.h"

#include "hosted/error.h"
#include "ledger/ledger_touched.h"
#include "session/session_own.h"

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

static bool claim_own(struct ledger_taking *t, uint64_t at, uint64_t bytes)
{
	return !at || at >= UINT64_MAX - bytes ||
	       ledger_claim_anonymous(t, at, at + bytes, LEDGER_HEFT,
				      "heft's tables in the program");
}

static bool read_memory(void *ctx, uint64_t at, void *to, size_t bytes)
{
	return ledger_read(ctx, at, to, bytes);
}

/* Of a process that another heft records, or its agent */
static bool claim_own_of_session(struct ledger_taking *t, const struct target_mapping *m)
{
	struct session_own own[SESSION_OWNS];
	bool fine = true;
	if (!ledger_is_session(m) || m->offset || !m->read ||
	    !session_own_read(own, m->start, read_memory, t))
		return true;
	for (size_t i = 0; i < SESSION_OWNS && fine; i++)
		fine = claim_own(t, own[i].at, own[i].bytes);
	return fine;
}

int ledger_own_claim(struct ledger_taking *t, struct heft_error *err)
{
	bool fine = true;
	for (size_t i = 0; i < t->blocks.own_count && fine; i++)
		fine = claim_own(t, t->blocks.own[i].at, t->blocks.own[i].bytes);
	for (size_t i = 0; i < t->maps.count && fine && !t->request; i++)
		fine = claim_own_of_session(t, &t->maps.items[i]);
	return fine ? 0 : heft_fail(err, HEFT_ENOMEM, "no memory for a ledger");
}

struct listing {
	struct ledger_taking *t;
	bool failed;
};

static void list_block(void *ctx, const struct ledger_block *b)
{
	struct listing *l = ctx;
	l->failed = l->failed || !vector_push(&l->t->blocks, *b);
}

int ledger_recorded_list(struct ledger_taking *t, struct heft_error *err)
{
	struct listing l = {.t = t};
	t->request->each_block(t->request->ctx, list_block, &l);
	return l.failed ? heft_fail(err, HEFT_ENOMEM, "no memory for the blocks of a ledger") : 0;
}

/* Pages with live blocks that follow each other */
struct claiming {
	struct ledger_taking *t;
	uint64_t start, end;
	bool failed;
};

static void claim_pages(struct claiming *c)
{
	if (c->end && !c->failed)
		c->failed = !ledger_claim_anonymous(c->t, c->start, c->end, LEDGER_ALLOCATOR,
						    ledger_pages_of_blocks);
}

static void claim_block(void *ctx, const struct ledger_block *b)
{
	struct claiming *c = ctx;
	uint64_t from = page_of(b->address), to = page_of(block_end(b) - 1) + LEDGER_PAGE;
	if (from <= c->end && c->end) {
		c->end = to > c->end ? to : c->end;
		return;
	}
	claim_pages(c);
	c->start = from;
	c->end = to;
}

int ledger_recorded_claim(struct ledger_taking *t, struct heft_error *err)
{
	struct claiming c = {.t = t};
	if (t->request)
		t->request->each_block(t->request->ctx, claim_block, &c);
	claim_pages(&c);
	bool fine = !c.failed;
	return fine ? 0 : heft_fail(err, HEFT_ENOMEM, "no memory for a ledger");
}

/* ---- blocks */

/* What the blocks of one heap add up to */
struct block_sums {
	struct ledger_bytes requested, rounding, headers;
	uint64_t blocks;
};

/* In pages of the process's own that are in memory */
static void add_own(struct ledger_bytes *sum, uint64_t bytes)
{
	sum->resident += bytes;
	sum->own += bytes;
	sum->mapped += bytes;
}

static void measure_block(struct ledger_taking *t, const struct ledger_block *b,
			  struct block_sums *s)
{
	uint64_t end = b->address + b->size_bytes;
	if (ledger_pages_are_own(&t->pages, b->address - 8, b->address + b->usable_bytes)) {
		add_own(&s->headers, 8);
		add_own(&s->requested, b->size_bytes);
		add_own(&s->rounding, b->usable_bytes - b->size_bytes);
		s->blocks++;
		return;
	}
	ledger_pages_measure(&t->pages, b->address - 8, b->address, &s->headers);
	ledger_pages_measure(&t->pages, b->address, end, &s->requested);
	ledger_pages_measure(&t->pages, end, b->address + b->usable_bytes, &s->rounding);
	s->blocks++;
}

struct measuring {
	struct ledger_taking *t;
	struct block_sums arenas, others;
	uint64_t large; /* how many */
	struct ledger_touched touched;
	size_t done;
	size_t span; /* the next one */
};

/* Blocks and spans are in order of address. */
static void measure_in_span(void *ctx, const struct ledger_block *b)
{
	enum { STEP_EVERY = 1 << 18 };
	struct measuring *m = ctx;
	struct ledger_taking *t = m->t;
	if (m->done++ % STEP_EVERY == 0)
		t->request->step(t->request->ctx);
	if (t->request->touched)
		ledger_touched_add(&m->touched, b);
	while (m->span < t->taken.count && t->taken.items[m->span].end <= b->address)
		m->span++;
	if (m->span == t->taken.count || t->taken.items[m->span].start > b->address)
		return;
	const struct ledger_span *s = &t->taken.items[m->span];
	if (s->name == ledger_heap_name)
		measure_block(t, b, &m->arenas);
	else if (s->name == ledger_pages_of_blocks)
		measure_block(t, b, &m->others);
	else if (s->kind == LEDGER_LARGE_MAPPINGS)
		m->large++;
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
		rc = add_line(l, LEDGER_IN_USE,
			      t->request->all_known ? LEDGER_MISSED
						    : "blocks in use that were not recorded",
			      &in_use, all - s->blocks, err);
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
	static const char *const names[2][2] = {
		{"between blocks: free, or older blocks",
		 "between blocks: free, or the allocator's own"},
		{"free, or in use since before it was recorded",
		 "free, in bins, caches and at the top"},
	};
	const char *name = names[has_headers][t->request->all_known];
	return rc ? rc : add_line(l, LEDGER_HELD_FREE, name, &rest, 0, err);
}

int ledger_recorded_lines(struct ledger_taking *t, const struct ledger_bytes *arenas,
			  const struct ledger_bytes *others, struct ledger *l,
			  struct heft_error *err)
{
	struct measuring m = {.t = t, .touched.pages = &t->pages};
	t->request->each_block(t->request->ctx, measure_in_span, &m);
	int rc = t->request->touched ? ledger_touched_rows(&m.touched, t->request->touched, err)
				     : 0;
	vector_free(&m.touched);
	if (rc)
		return rc;
	rc = t->heap && t->heap_was_still ? lines_of_chunks(t, arenas, &m.arenas, l, err) : 1;
	if (rc == 1)
		rc = lines_of_blocks(t, arenas, &m.arenas, t->heap != NULL, l, err);
	if (!rc)
		rc = lines_of_blocks(t, others, &m.others, false, l, err);
	for (size_t i = 0; i < l->count; i++)
		if (l->items[i].kind == LEDGER_LARGE_MAPPINGS)
			l->items[i].blocks = m.large;
	if (t->blocks.about && !l->note[0])
		snprintf(l->note, sizeof l->note,
			 "Threads were in the middle of calls: what is requested and what is free "
			 "may be wrong by a few blocks.");
	return rc;
}
