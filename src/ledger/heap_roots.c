/* Where pointers to live blocks are looked for beside the blocks themselves (heap_scan.h): the ledger's claims say whose
 * each page is, so roots are what is left when the heap, heft's own memory, files and pages that nobody wrote to are taken
 * away.
 *
 * - Of modules and of private mappings of files: pages that the process wrote to.
 * - .bss, anonymous memory, shared memory, heaps of interpreters: all of it.
 * - Stacks of threads: from 128 bytes below the stack pointer on (the red zone). What lies below is left over from calls
 *   that have returned. If nobody knows where a thread is, all of its stack. Stacks that ended threads have left: the
 *   descriptor, which glibc uses again.
 *
 * The main arena stands in libc's data. Its lists lead to free chunks, whose first words are the last ones of the block
 * before: it is left out. So is the memory of other allocators, which holds addresses of live blocks: pages near
 * blocks, their libraries' data, and jemalloc's own blocks, which begin with their length. */
#include "ledger/heap_roots.h"

#include "hosted/error.h"
#include "hosted/program_name.h"
#include "hosted/sorted.h"
#include "ledger/ledger_parts.h"

enum {
	RED_ZONE = 128,
	TOP_BYTES = 32 << 10 /* of a stack: descriptor and thread-local variables */
};
#define NEAR_BLOCKS (UINT64_C(2) << 20) /* an extent of jemalloc's begins at a multiple of less */
#define MIMALLOC_SEGMENT (UINT64_C(32) << 20)

struct gathering {
	struct ledger_taking *t;
	struct heap_ranges *out;
	uint64_t near_bytes; /* of other allocators: what is as near to a block is theirs */
	bool jemalloc;
};

static bool add_range(struct gathering *g, uint64_t start, uint64_t end)
{
	struct heap_ranges *out = g->out;
	if (start >= end)
		return true;
	if (out->count && out->items[out->count - 1].end == start) {
		out->items[out->count - 1].end = end;
		return true;
	}
	return vector_push(out, (struct heap_range){start, end});
}

/* Without the main arena */
static bool add_without_arena(struct gathering *g, uint64_t start, uint64_t end)
{
	struct older_block arena = {0};
	if (g->t->heap)
		arena = older_main_arena(g->t->heap);
	uint64_t low = arena.at, high = arena.at + arena.bytes;
	if (!arena.bytes || high <= start || low >= end)
		return add_range(g, start, end);
	return add_range(g, start, low > start ? low : start) &&
	       add_range(g, high < end ? high : end, end);
}

/* Pages of [start, end) that are there; of files only those that the process wrote to. */
static bool add_pages(struct gathering *g, uint64_t start, uint64_t end, bool own)
{
	const struct ledger_pages *p = &g->t->pages;
	bool fine = true;
	for (size_t i = count_before(k, p->count, p->items[k].end <= start);
	     i < p->count && p->items[i].start < end && fine; i++) {
		const struct ledger_run *r = &p->items[i];
		if (own && (r->flags & LEDGER_OF_FILE))
			continue;
		fine = add_without_arena(g, r->start > start ? r->start : start,
					 r->end < end ? r->end : end);
	}
	return fine;
}

/* ---- stacks */

static bool add_stack(struct gathering *g, const struct ledger_span *s)
{
	uint64_t lowest = UINT64_MAX;
	for (size_t i = 0; i < g->t->threads.count; i++) {
		const struct stop_thread *thread = &g->t->threads.items[i];
		if (thread->stopped && thread->sp >= s->start && thread->sp < s->end &&
		    thread->sp < lowest)
			lowest = thread->sp;
	}
	uint64_t from = lowest == UINT64_MAX           ? s->start
			: lowest - s->start > RED_ZONE ? lowest - RED_ZONE
						       : s->start;
	return add_pages(g, from & ~UINT64_C(7), s->end, false);
}

/* A stack that an ended thread has left: its descriptor, which glibc uses again, leads to the list of the thread's
 * variables in libraries. It begins with its own address, which also stands in its third word. */
static bool add_kept_stack(struct gathering *g, const struct ledger_span *s)
{
	uint64_t words[LEDGER_PAGE / 8];
	uint64_t from = s->end - s->start > TOP_BYTES ? s->end - TOP_BYTES : s->start;
	for (uint64_t at = from; at < s->end; at += LEDGER_PAGE) {
		if (!ledger_pages_have(&g->t->pages, at) ||
		    !ledger_read(g->t, at, words, sizeof words))
			continue;
		for (size_t i = 0; i + 2 < LEDGER_PAGE / 8; i++)
			if (words[i] == at + i * 8 && words[i + 2] == words[i])
				return add_pages(g, words[i], s->end, false);
	}
	return true;
}

/* ---- other allocators */

/* Whether the window of an address has a live block. */
static bool has_block(const struct gathering *g, uint64_t at)
{
	const struct ledger_blocks *b = &g->t->blocks;
	uint64_t end = at + g->near_bytes;
	size_t i = count_before(k, b->count, b->items[k].address < end);
	return i && b->items[i - 1].address + b->items[i - 1].usable_bytes > at;
}

/* jemalloc keeps what it knows about extents in blocks that begin at a multiple of 2 MiB with their length, which is one
 * too, and the address of the next such block. Returns that length; 0: it is none. */
static uint64_t base_block(const struct gathering *g, uint64_t at, uint64_t end)
{
	uint64_t head[2];
	if (!g->jemalloc || at % NEAR_BLOCKS || !ledger_pages_have(&g->t->pages, at) ||
	    !ledger_read(g->t, at, head, sizeof head))
		return 0;
	return head[0] && head[0] % NEAR_BLOCKS == 0 && head[0] <= end - at &&
			       head[1] % NEAR_BLOCKS == 0
		       ? head[0]
		       : 0;
}

static bool add_beside_allocator(struct gathering *g, const struct ledger_span *s)
{
	bool fine = true;
	const uint32_t there = LEDGER_IN_MEMORY | LEDGER_SWAPPED;
	for (uint64_t at = s->start;
	     (at = ledger_pages_next(&g->t->pages, at, there)) < s->end && fine;) {
		uint64_t window = at & ~(g->near_bytes - 1), next = window + g->near_bytes;
		uint64_t own = base_block(g, at, s->end);
		next = next < s->end ? next : s->end;
		if (own)
			next = at + own;
		else if (!has_block(g, window))
			fine = add_pages(g, at, next, false);
		at = next;
	}
	return fine;
}

static bool is_of_allocator(const struct gathering *g, const struct ledger_span *s)
{
	return g->t->allocator && s->name && !strcmp(path_file(s->name), g->t->allocator);
}

/* ---- all of it */

static bool add_span(struct gathering *g, const struct ledger_span *s)
{
	switch (s->kind) {
	case LEDGER_MODULES_PRIVATE:
	case LEDGER_MODULES_SHARED:
	case LEDGER_FILES: return is_of_allocator(g, s) || add_pages(g, s->start, s->end, true);
	case LEDGER_BSS: return is_of_allocator(g, s) || add_pages(g, s->start, s->end, false);
	case LEDGER_STACKS: return ledger_is_kept_stack(s) ? add_kept_stack(g, s) : add_stack(g, s);
	case LEDGER_ALLOCATOR:
		if (s->name == ledger_pages_of_blocks || s->name == ledger_break_name)
			return true;
		return add_pages(g, s->start, s->end, false);
	case LEDGER_ANONYMOUS:
		return g->t->allocator ? add_beside_allocator(g, s)
				       : add_pages(g, s->start, s->end, false);
	case LEDGER_SHARED_MEMORY:
	case LEDGER_UNEXPLAINED: return add_pages(g, s->start, s->end, false);
	default: return true; /* the heap, and heft's own */
	}
}

int heap_roots(struct ledger_taking *t, struct heap_ranges *out, struct heft_error *err)
{
	struct gathering g = {.t = t, .out = out, .near_bytes = NEAR_BLOCKS};
	bool fine = true;
	if (t->allocator) {
		g.jemalloc = strstr(t->allocator, "jemalloc") != NULL;
		if (strstr(t->allocator, "mimalloc"))
			g.near_bytes = MIMALLOC_SEGMENT;
	}
	for (size_t i = 0; i < t->taken.count && fine; i++)
		fine = add_span(&g, &t->taken.items[i]);
	return fine ? 0 : heft_fail(err, HEFT_ENOMEM, "no memory for a look at the heap");
}
