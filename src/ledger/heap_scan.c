/* Looks at the heap of a process that stands still (heap_scan.h): one pass over roots, then one over live blocks in order
 * of address, a window of memory at a time. Only requested bytes are looked at: what lies behind them is left over from
 * earlier blocks. Free memory is not read at all.
 *
 * Pages that were never touched are not read, as reading would make them; they hold zeros. Swapped pages are read: a
 * pointer in them counts. */
#include "ledger/heap_parts.h"

#include "hosted/error.h"
#include "hosted/monotonic.h"
#include "hosted/sorted.h"

enum {
	SMALL_MOST = HEAP_WINDOW / 2, /* larger blocks are read alone */
	GAP_MOST = 16 << 10,          /* between blocks of one window */
	STEP_EVERY = 16,              /* windows: some milliseconds */
};

/* ---- pages and memory */

uint64_t heap_bytes_with(struct heap_cursor *c, uint64_t start, uint64_t end, uint32_t flags)
{
	const struct ledger_pages *p = c->pages;
	uint64_t sum = 0;
	if (c->next >= p->count || p->items[c->next].end <= start ||
	    (c->next && p->items[c->next - 1].end > start)) {
		/* Usually it is one of the next. */
		size_t i = c->next;
		for (unsigned step = 0; step < 4 && i < p->count && p->items[i].end <= start;
		     step++)
			i++;
		if (i < p->count && p->items[i].end > start && (!i || p->items[i - 1].end <= start))
			c->next = i;
		else
			c->next = count_before(k, p->count, p->items[k].end <= start);
	}
	for (size_t i = c->next; i < p->count && p->items[i].start < end; i++) {
		uint64_t from = p->items[i].start > start ? p->items[i].start : start;
		uint64_t to = p->items[i].end < end ? p->items[i].end : end;
		if ((p->items[i].flags & flags) && from < to)
			sum += to - from;
	}
	return sum;
}

/* Reads [start, end), at most HEAP_WINDOW bytes; what was never touched is zeros. `empty`: all of it. */
static int load_window(struct heap_window *w, uint64_t start, uint64_t end, bool *empty,
		       struct heft_error *err)
{
	const struct ledger_pages *p = w->in->pages;
	uint64_t at = start;
	if (w->in->step && w->loads++ % STEP_EVERY == 0)
		w->in->step(w->in->ctx);
	*empty = true;
	(void)heap_bytes_with(&w->cursor, start, start + 1, 0); /* moves the cursor */
	for (size_t i = w->cursor.next; i < p->count && p->items[i].start < end;) {
		uint64_t from = p->items[i].start > start ? p->items[i].start : start;
		uint64_t to = p->items[i].end;
		/* Runs of other flags may follow without a gap: one read has them. */
		for (i++; i < p->count && p->items[i].start == to; i++)
			to = p->items[i].end;
		to = to < end ? to : end;
		if (from >= to)
			continue;
		memset(w->bytes + (at - start), 0, (size_t)(from - at));
		if (!w->in->read(w->in->ctx, from, w->bytes + (from - start), (size_t)(to - from)))
			return heft_fail(err, HEFT_ENOTFOUND,
					 "the program's memory cannot be read");
		at = to;
		*empty = false;
	}
	memset(w->bytes + (at - start), 0, (size_t)(end - at));
	return 0;
}

/* The first place from `at` on that is there */
static uint64_t next_touched(struct heap_cursor *c, uint64_t at)
{
	(void)heap_bytes_with(c, at, at + 1, 0); /* moves the cursor */
	if (c->next >= c->pages->count)
		return UINT64_MAX;
	uint64_t next = c->pages->items[c->next].start;
	return next > at ? next : at;
}

/* ---- the two passes */

struct scan {
	const struct heap_input *in;
	struct heap_window window;
	struct heap_cursor touched;
	struct heap_reach *reach; /* NULL: not wanted */
	struct heap_equal *equal; /* the same */
	struct heap_site *sites;  /* by number */
};

static int scan_root(struct scan *s, const struct heap_range *root, uint64_t *sum,
		     struct heft_error *err)
{
	uint64_t at = (root->start + 7) & ~UINT64_C(7), end = root->end & ~UINT64_C(7);
	int rc = 0;
	while (at < end && !rc) {
		bool empty;
		at = next_touched(&s->window.cursor, at);
		if (at >= end)
			break;
		uint64_t to = end - at < HEAP_WINDOW ? end : at + HEAP_WINDOW;
		rc = load_window(&s->window, at, to, &empty, err);
		if (!rc && !empty) {
			heap_reach_words(s->reach, HEAP_ROOT, s->window.bytes,
					 (size_t)(to - at) / 8);
			*sum += to - at;
		}
		at = to;
	}
	return rc;
}

static void scan_words(struct scan *s, uint32_t number, uint64_t at, const uint8_t *bytes,
		       size_t count)
{
	size_t skip = (size_t)(-at & 7);
	if (s->reach && count >= skip + 8)
		heap_reach_words(s->reach, number, bytes + skip, (count - skip) / 8);
}

/* A block that is larger than half a window */
static int scan_large(struct scan *s, uint32_t number, uint64_t resident, struct heft_error *err)
{
	const struct heap_block *b = &s->in->blocks[number];
	int rc = 0;
	for (uint64_t offset = 0; offset < b->bytes && !rc; offset += HEAP_WINDOW) {
		/* Reservations are large: go on with the piece that has something. */
		uint64_t next = next_touched(&s->window.cursor, b->at + offset) - b->at;
		if (next >= b->bytes)
			break;
		offset = next / HEAP_WINDOW * HEAP_WINDOW;
		uint64_t left = b->bytes - offset;
		size_t count = left < HEAP_WINDOW ? (size_t)left : HEAP_WINDOW;
		bool empty;
		rc = load_window(&s->window, b->at + offset, b->at + offset + count, &empty, err);
		if (rc || empty)
			continue;
		scan_words(s, number, b->at + offset, s->window.bytes, count);
		if (s->equal)
			heap_equal_piece(s->equal, offset, s->window.bytes, count);
	}
	if (s->equal && !rc)
		heap_equal_block(s->equal, b, resident, s->sites);
	return rc;
}

/* How many blocks from `first` on are in one window. */
static size_t window_blocks(const struct heap_input *in, size_t first)
{
	const struct heap_block *b = in->blocks;
	uint64_t last_end = b[first].at + b[first].bytes;
	size_t i = first + 1;
	for (; i < in->block_count; i++) {
		uint64_t end = b[i].at + b[i].bytes;
		if (b[i].bytes > SMALL_MOST || end - b[first].at > HEAP_WINDOW ||
		    b[i].at - last_end > GAP_MOST)
			break;
		last_end = end;
	}
	return i - first;
}

/* Counts what was never touched; returns what is resident. */
static uint64_t look_at_pages(struct scan *s, const struct heap_block *b)
{
	uint64_t end = b->at + b->bytes;
	uint64_t touched = heap_bytes_with(&s->touched, b->at, end,
					   LEDGER_IN_MEMORY | LEDGER_SWAPPED);
	if (b->site != HEAP_NO_SITE) {
		struct heap_site *site = &s->sites[b->site];
		site->blocks++;
		site->bytes += b->bytes;
		if (touched < b->bytes && (s->in->parts & HEAP_TOUCHED)) {
			site->untouched_blocks++;
			site->untouched_bytes += b->bytes - touched;
		}
	}
	return heap_bytes_with(&s->touched, b->at, end, LEDGER_IN_MEMORY);
}

static int scan_blocks(struct scan *s, struct heft_error *err)
{
	const struct heap_input *in = s->in;
	int rc = 0;
	for (size_t first = 0, count; first < in->block_count && !rc; first += count) {
		const struct heap_block *b = &in->blocks[first];
		bool contents = s->reach || s->equal, empty;
		count = 1;
		if (b->bytes > SMALL_MOST) {
			uint64_t resident = look_at_pages(s, b);
			rc = contents ? scan_large(s, (uint32_t)first, resident, err) : 0;
			continue;
		}
		count = window_blocks(in, first);
		if (contents)
			rc = load_window(&s->window, b->at, b[count - 1].at + b[count - 1].bytes,
					 &empty, err);
		for (size_t i = 0; i < count && !rc; i++) {
			const uint8_t *bytes = s->window.bytes + (b[i].at - b->at);
			uint64_t resident = look_at_pages(s, &b[i]);
			scan_words(s, (uint32_t)(first + i), b[i].at, bytes, (size_t)b[i].bytes);
			if (s->equal) {
				heap_equal_piece(s->equal, 0, bytes, (size_t)b[i].bytes);
				heap_equal_block(s->equal, &b[i], resident, s->sites);
			}
		}
	}
	return rc;
}

static int scan_all(struct scan *s, struct heap_look *out, struct heft_error *err)
{
	const struct heap_input *in = s->in;
	int rc = 0;
	if (in->parts & HEAP_REACHABLE)
		rc = heap_reach_new(&s->reach, in, err);
	if (!rc && (in->parts & HEAP_EQUAL))
		rc = heap_equal_new(&s->equal, in, err);
	for (size_t i = 0; i < in->root_count && !rc && s->reach; i++)
		rc = scan_root(s, &in->roots[i], &out->root_bytes, err);
	if (!rc && s->reach)
		heap_reach_words(s->reach, HEAP_ROOT, (const uint8_t *)in->registers,
				 in->register_count);
	if (!rc)
		rc = scan_blocks(s, err);
	if (!rc && s->reach)
		rc = heap_reach_end(s->reach, s->sites, err);
	if (!rc && s->equal)
		heap_equal_end(s->equal, s->sites);
	if (!rc && (in->parts & HEAP_FRAGMENTED))
		rc = heap_fragments(in, s->sites, out, err);
	return rc;
}

/* How much a row has to tell */
static uint64_t weight(const struct heap_site *s)
{
	return s->direct_bytes + s->indirect_bytes + s->held_bytes + s->direct_blocks +
	       s->indirect_blocks + s->held_blocks + s->untouched_bytes + s->duplicate_bytes +
	       s->zero_bytes + s->pinned_bytes;
}

static int by_weight(const void *a, const void *b)
{
	uint64_t x = weight(a), y = weight(b);
	return (x < y) - (x > y);
}
static int by_site(const void *a, const void *b)
{
	uint32_t x = ((const struct heap_site *)a)->site, y = ((const struct heap_site *)b)->site;
	return (x > y) - (x < y);
}

static int keep_rows(const struct heap_site *sites, uint32_t count, struct heap_look *out,
		     struct heft_error *err)
{
	for (uint32_t i = 0; i < count; i++) {
		struct heap_site row = sites[i];
		row.site = i;
		out->blocks += row.blocks;
		out->bytes += row.bytes;
		if (weight(&row) && !vector_push(out, row))
			return heft_fail(err, HEFT_ENOMEM, "no memory for a look at the heap");
	}
	if (out->count > HEAP_LOOK_ROWS) {
		qsort(out->items, out->count, sizeof *out->items, by_weight);
		out->count = HEAP_LOOK_ROWS;
		qsort(out->items, out->count, sizeof *out->items, by_site);
	}
	return 0;
}

int heap_scan(const struct heap_input *in, struct heap_look *out, struct heft_error *err)
{
	struct scan s = {.in = in, .touched = {.pages = in->pages}};
	uint64_t began = monotonic_ns();
	memset(out, 0, sizeof *out);
	out->parts = in->parts;
	s.window = (struct heap_window){.in = in, .cursor = {.pages = in->pages}};
	s.window.bytes = malloc(HEAP_WINDOW);
	s.sites = calloc((size_t)in->site_count + 1, sizeof *s.sites);
	int rc = s.window.bytes && s.sites
			 ? scan_all(&s, out, err)
			 : heft_fail(err, HEFT_ENOMEM, "no memory for a look at the heap");
	if (!rc)
		rc = keep_rows(s.sites, in->site_count, out, err);
	heap_reach_free(s.reach);
	heap_equal_free(s.equal);
	free(s.window.bytes);
	free(s.sites);
	out->took_ns = monotonic_ns() - began;
	if (rc)
		heap_look_fini(out);
	return rc;
}
