/* A look at the heap of a process (heap_look_take.h), while it stands still: gathers its live blocks, those that
 * glibc has and nobody recorded, its free memory, its roots and registers, and hands them to heap_scan. Of a process that
 * nobody records, all blocks are of the second kind.
 *
 * Reading all of a heap takes about a second for a GiB. So it is estimated first how long it will take: unless
 * somebody asked for it, it must stay below 100 ms, or 1 % of the time that the process has run. Pages that were never
 * touched need no contents; they are counted in any case.
 *
 * The list of blocks comes from what the process itself wrote: blocks that overlap, or that are where nothing can be, are
 * left out. The same holds for free memory: a damaged heap may have one arena inside another. */
#include "ledger/heap_look_take.h"

#include "hosted/error.h"
#include "hosted/number_words.h"
#include "hosted/sorted.h"
#include "ledger/heap_roots.h"
#include "ledger/ledger_parts.h"
#include "ledger/ledger_view.h"

#include <stdio.h>

enum {
	REGISTERS_MOST = 32,   /* of one thread */
	LATE_MS = 20,          /* until threads say where they are */
	FREE_LIMIT_MS = 10000, /* to read chunks of glibc's heap */
	LEAST_MS = 100,        /* so long is always all right */
	SHARE_OF_RUN = 100,    /* or a hundredth of the run */
	PS_A_BYTE = 900,       /* of a heap with its contents: picoseconds */
	NS_A_BLOCK = 60,
};
#define MS UINT64_C(1000000)
#define ADDRESS_MOST (UINT64_C(1) << 47)

struct gathered {
	struct ledger_view *view;
	struct ledger_taking *t;
	VECTOR(struct heap_block) blocks;
	VECTOR(struct heap_block) unknown; /* in use, but not recorded */
	VECTOR(struct heap_free) free;
	VECTOR(uint64_t) registers;
	struct heap_ranges roots;
	size_t cursor; /* in the recorded blocks */
	uint32_t site_count;
	bool no_memory;
};

static void gathered_fini(struct gathered *g)
{
	vector_free(&g->blocks);
	vector_free(&g->unknown);
	vector_free(&g->free);
	vector_free(&g->registers);
	vector_free(&g->roots);
}

/* ---- blocks */

static bool is_possible(const struct ledger_block *b)
{
	return b->address >= LEDGER_PAGE && b->address < ADDRESS_MOST &&
	       b->size_bytes < ADDRESS_MOST - b->address && b->usable_bytes >= b->size_bytes &&
	       b->usable_bytes - b->size_bytes < UINT32_MAX &&
	       b->usable_bytes < ADDRESS_MOST - b->address;
}

static void add_block(struct gathered *g, uint64_t at, uint64_t bytes, uint64_t slack,
		      uint32_t site)
{
	struct heap_block *last = g->blocks.count ? &g->blocks.items[g->blocks.count - 1] : NULL;
	/* Of two that overlap the first one was freed: its free was not seen yet. */
	if (last && last->at + last->bytes + last->slack > at) {
		if (last->at == at || last->at + last->bytes > at)
			g->blocks.count--;
		else
			last->slack = (uint32_t)(at - last->at - last->bytes);
	}
	if (site != HEAP_NO_SITE && site >= g->site_count)
		g->site_count = site + 1;
	if (!vector_push(&g->blocks, (struct heap_block){at, bytes, (uint32_t)slack, site}))
		g->no_memory = true;
}

static void add_unknown(struct gathered *g, const struct heap_block *b)
{
	add_block(g, b->at, b->bytes, 0, b->site);
}

/* Both lists are in order. */
static void merge_blocks(struct gathered *g)
{
	const struct ledger_blocks *known = g->view->blocks;
	size_t k = 0;
	if (!vector_reserve(&g->blocks, known->count + g->unknown.count + 1)) {
		g->no_memory = true;
		return;
	}
	for (size_t i = 0; i < known->count && !g->no_memory; i++) {
		const struct ledger_block *b = &known->items[i];
		for (; k < g->unknown.count && g->unknown.items[k].at < b->address; k++)
			add_unknown(g, &g->unknown.items[k]);
		if (is_possible(b))
			add_block(g, b->address, b->size_bytes, b->usable_bytes - b->size_bytes,
				  b->site);
	}
	for (; k < g->unknown.count && !g->no_memory; k++)
		add_unknown(g, &g->unknown.items[k]);
}

/* ---- chunks of glibc's heap */

static uint32_t site_of_size(uint64_t bytes)
{
	uint64_t class = bytes / 16;
	return class < HEAP_SIZES ? (uint32_t)class
				  : HEAP_SIZES + 63 - (uint32_t)__builtin_clzll(bytes);
}

static void see_block(void *ctx, uint64_t at, uint64_t bytes)
{
	struct gathered *g = ctx;
	const struct ledger_blocks *b = g->view->blocks;
	if (g->cursor >= b->count || b->items[g->cursor].address != at)
		g->cursor = count_before(k, b->count, b->items[k].address < at);
	if (g->cursor < b->count && b->items[g->cursor].address == at) {
		g->cursor++;
		return;
	}
	uint32_t site = g->view->request ? HEAP_NO_SITE : site_of_size(bytes);
	if (at < ADDRESS_MOST && bytes < ADDRESS_MOST - at &&
	    !vector_push(&g->unknown, (struct heap_block){at, bytes, 0, site}))
		g->no_memory = true;
}

static void see_free(void *ctx, uint64_t at, uint64_t bytes, enum older_kind kind, bool main)
{
	struct gathered *g = ctx;
	enum heap_free_kind as = kind == OLDER_TOP         ? main ? HEAP_FREE_TOP : HEAP_FREE_END
				 : kind == OLDER_IN_CACHES ? HEAP_FREE_CACHED
							   : HEAP_FREE;
	if (!vector_push(&g->free, (struct heap_free){at, bytes, as}))
		g->no_memory = true;
}

static int by_free_address(const void *a, const void *b)
{
	uint64_t x = ((const struct heap_free *)a)->at, y = ((const struct heap_free *)b)->at;
	return (x > y) - (x < y);
}
static int by_block_address(const void *a, const void *b)
{
	uint64_t x = ((const struct heap_block *)a)->at, y = ((const struct heap_block *)b)->at;
	return (x > y) - (x < y);
}

/* Free memory is in order of address; afterwards it does not overlap. */
static void cut_overlaps(struct gathered *g)
{
	size_t kept = 0;
	uint64_t end = 0;
	for (size_t i = 0; i < g->free.count; i++) {
		struct heap_free f = g->free.items[i];
		if (f.at >= ADDRESS_MOST || f.bytes > ADDRESS_MOST - f.at || f.at + f.bytes <= end)
			continue;
		uint64_t start = f.at > end ? f.at : end;
		end = f.at + f.bytes;
		g->free.items[kept++] = (struct heap_free){start, end - start, f.kind};
	}
	g->free.count = kept;
}

/* False: what is free is not known. */
static bool read_chunks(struct gathered *g)
{
	struct ledger_taking *t = g->t;
	struct older_totals totals;
	struct older_reading reading = {.still = true,
					.limit_ns = FREE_LIMIT_MS * MS,
					.each = see_block,
					.each_free = see_free,
					.ctx = g,
					.large = t->large.items,
					.large_count = t->large.count};
	if (!t->heap)
		return false;
	if (t->thread_pointers && t->threads.count <= GLIBC_THREADS_MOST) {
		reading.thread_pointers = t->thread_pointers;
		reading.thread_count = t->threads.count;
	}
	older_read(t->heap, &reading, &totals);
	/* Most arenas come in order of address, but need not. */
	if (g->free.count)
		qsort(g->free.items, g->free.count, sizeof *g->free.items, by_free_address);
	cut_overlaps(g);
	if (g->unknown.count)
		qsort(g->unknown.items, g->unknown.count, sizeof *g->unknown.items,
		      by_block_address);
	return !totals.incomplete && !g->no_memory;
}

/* Of a process that nobody records glibc knows which blocks are in use. */
static int read_unrecorded(struct gathered *g, struct heft_error *err)
{
	const int pid = (int)g->t->pid;
	if (!g->t->heap)
		return heft_fail(
			err, HEFT_EREFUSED,
			"heft knows the blocks of a running process only from glibc's heap, "
			"and cannot read that of process %d (%.*s)\n'heft attach --leaks %d' "
			"records what it allocates from now on, and looks when it leaves",
			pid, (int)strcspn(g->t->no_heap.message, "\n"), g->t->no_heap.message, pid);
	if (!read_chunks(g) && !g->no_memory)
		return heft_fail(
			err, HEFT_EREFUSED,
			"heft could not follow the heap of process %d to its end: it is "
			"damaged, or one of its threads is in the middle of malloc\nTry again",
			pid);
	return 0;
}

/* ---- how long it would take */

static uint64_t resident_bytes(const struct gathered *g)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < g->t->taken.count; i++) {
		const struct ledger_span *s = &g->t->taken.items[i];
		struct ledger_bytes b = {0};
		if (s->kind == LEDGER_HEFT || s->kind == LEDGER_FILES ||
		    s->kind == LEDGER_MODULES_SHARED)
			continue;
		ledger_pages_measure(&g->t->pages, s->start, s->end, &b);
		sum += b.resident;
	}
	return sum;
}

static uint64_t estimate_ns(const struct gathered *g, uint64_t resident)
{
	return resident / 1000 * PS_A_BYTE + g->view->blocks->count * NS_A_BLOCK;
}

/* Which parts can be had; the note says why not all. */
static uint32_t choose_parts(const struct gathered *g, bool always, struct heap_look *look)
{
	const uint32_t all = HEAP_REACHABLE | HEAP_TOUCHED | HEAP_EQUAL | HEAP_FRAGMENTED;
	uint64_t resident = resident_bytes(g), needs = estimate_ns(g, resident);
	uint64_t most = ledger_age_ns(g->t->pid) / SHARE_OF_RUN;
	most = most > LEAST_MS * MS ? most : LEAST_MS * MS;
	if (always || needs <= most)
		return all;
	snprintf(look->note, sizeof look->note,
		 "heft did not look for leaks, equal blocks and fragmentation when process %d "
		 "ended: "
		 "reading %s would have taken about %s. heft run --leaks does it.",
		 (int)g->t->pid, words_size(resident).text, words_time((double)needs).text);
	return HEAP_TOUCHED;
}

/* ---- the look */

static void gather_registers(struct gathered *g)
{
	uint64_t words[REGISTERS_MOST];
	for (size_t i = 0; i < g->t->threads.count && !g->no_memory; i++) {
		size_t count = stop_registers(g->t->stop, g->t->threads.items[i].tid, words,
					      REGISTERS_MOST);
		for (size_t k = 0; k < count && !g->no_memory; k++)
			g->no_memory = !vector_push(&g->registers, words[k]);
	}
}

static bool read_memory(void *ctx, uint64_t at, void *to, size_t bytes)
{
	struct ledger_view *view = ctx;
	return view->read(view, at, to, bytes);
}

static void show_life(void *ctx)
{
	struct ledger_view *view = ctx;
	view->request->step(view->request->ctx);
}

static int look(struct gathered *g, bool always, struct heap_look *out, struct heft_error *err)
{
	char note[HEAP_LOOK_NOTE];
	const bool recorded = g->view->request != NULL;
	struct heap_input in = {.pages = &g->t->pages,
				.read = read_memory,
				.step = recorded ? show_life : NULL,
				.ctx = g->view};
	int rc = recorded ? 0 : read_unrecorded(g, err);
	if (rc)
		return rc;
	out->note[0] = 0;
	in.parts = recorded ? choose_parts(g, always, out) : HEAP_REACHABLE;
	memcpy(note, out->note, sizeof note);
	if (in.parts & HEAP_FRAGMENTED) {
		in.free_known = read_chunks(g);
		in.header_bytes = g->t->heap ? 8 : 0;
	}
	merge_blocks(g);
	if (in.parts & HEAP_REACHABLE)
		gather_registers(g);
	if (g->no_memory)
		rc = heft_fail(err, HEFT_ENOMEM, "no memory for a look at the heap");
	if (!rc && (in.parts & HEAP_REACHABLE))
		rc = heap_roots(g->t, &g->roots, err);
	if (rc)
		return rc;
	in.blocks = g->blocks.items;
	in.block_count = g->blocks.count;
	in.site_count = g->site_count;
	in.roots = g->roots.items;
	in.root_count = g->roots.count;
	in.registers = g->registers.items;
	in.register_count = g->registers.count;
	in.free = g->free.items;
	in.free_count = g->free.count;
	rc = heap_scan(&in, out, err);
	memcpy(out->note, note, sizeof note);
	return rc;
}

int heap_look_take(void *ctx, struct ledger_view *view)
{
	const struct heap_look_order *order = ctx;
	struct gathered g = {.view = view, .t = view->taking};
	struct heft_error err = {0};
	stop_wait_late(g.t->stop, LATE_MS * MS);
	int rc = look(&g, order->always, order->look, &err);
	gathered_fini(&g);
	if (rc) {
		heap_look_fini(order->look);
		memset(order->look, 0, sizeof *order->look);
		if (order->err)
			*order->err = err;
		snprintf(order->look->note, sizeof order->look->note,
			 "heft could not look at the heap of process %d: %.150s",
			 (int)view->taking->pid, err.message);
	}
	order->look->pid = (int32_t)view->taking->pid;
	return rc;
}
