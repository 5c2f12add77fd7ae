/* Walks the heaps of a process from outside (older_blocks.h; glibc_heap.h has the structures).
 *
 * A heap is a row of chunks; each says how long it is, and whether the one before it is in use. Two kinds of free
 * chunks look as if they were in use: those in fast bins, whose lists are followed, and those in threads' caches,
 * which carry a mark that is the same in the whole process. The caches themselves are glibc's own, not the program's.
 *
 * Usually the program runs meanwhile. Memory is read a window at a time, and a chunk at the end of one may have been
 * merged or split before the next is read. Then what follows makes no sense, and the walk goes back to where it was a
 * few windows ago. After so many times it gives up that heap, and says that there is more than it has seen.
 *
 * All of it is the program's to write. A size is used only after it was compared with the end of the heap; every
 * chunk leads forward, lists have limits, and there is a limit of time. Large chunks are stepped over: their
 * memory is not touched. */
#include "attach/older_blocks.h"

#include "attach/older_parts.h"
#include "hosted/error.h"
#include "hosted/monotonic.h"
#include "hosted/sorted.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	WINDOW_LEAST = 4096,
	MARKS = 8,      /* windows to go back */
	SETBACKS = 100, /* of one heap */
	FAST_MOST = 4 << 20,
	FAST_CHUNK_MOST = 0xb0,
	FENCE = 16, /* size of a chunk that only marks an end */
	CHECK_EVERY = 256,
};

/* The class of a block */
static unsigned older_class(uint64_t bytes)
{
	unsigned class = 0;
	while (class + 1 < OLDER_CLASSES && bytes > UINT64_C(32) << class)
		class ++;
	return class;
}

static void add(struct older_sum *sum, uint64_t bytes)
{
	sum->blocks++;
	sum->bytes += bytes;
}

void older_count(struct older_heap *h, uint64_t at, uint64_t bytes)
{
	add(&h->sums.used, bytes);
	add(&h->sums.classes[older_class(bytes)], bytes);
	if (h->reading->each)
		h->reading->each(h->reading->ctx, at, bytes);
}

bool older_late(struct older_heap *h)
{
	h->late = h->late || monotonic_ns() >= h->until_ns;
	return h->late;
}

/* ---- the window */

/* The chunk at an address, as far as it is before `end`; false: it is not there. */
static bool chunk_at(struct older_heap *h, uint64_t at, uint64_t end, struct glibc_chunk *c)
{
	if (end - at < GLIBC_CHUNK_HEADER)
		return false;
	size_t wanted = end - at < sizeof *c ? (size_t)(end - at) : sizeof *c;
	if (at < h->window_at || at - h->window_at + wanted > h->window_filled) {
		if (older_late(h))
			return false;
		/* Dense memory is read in larger and larger pieces; behind a large chunk it begins anew. */
		bool dense = at >= h->window_at &&
			     at - h->window_at < h->window_filled + WINDOW_LEAST;
		h->window_bytes = !dense                           ? WINDOW_LEAST
				  : h->window_bytes < OLDER_WINDOW ? h->window_bytes * 2
								   : OLDER_WINDOW;
		size_t n = end - at < h->window_bytes ? (size_t)(end - at) : h->window_bytes;
		if (!glibc_read(&h->glibc, at, h->window, n)) {
			/* A part of it may not be mapped */
			n = WINDOW_LEAST - (size_t)(at % WINDOW_LEAST);
			n = end - at < n ? (size_t)(end - at) : n;
			n = n < wanted ? wanted : n;
			if (!glibc_read(&h->glibc, at, h->window, n)) {
				h->window_filled = 0;
				return false;
			}
		}
		h->window_at = at;
		h->window_filled = n;
		h->refills++;
	}
	memset(c, 0, sizeof *c);
	memcpy(c, h->window + (at - h->window_at), wanted);
	return true;
}

struct fast_page {
	uint64_t at;
	uint8_t bytes[4096];
};

/* ---- what only looks as if it were in use */

/* Caches of threads that were not shown are known by their looks. Nobody can tell an empty one from a block of zeros:
 * then it is one if it is the first chunk of an arena, which is the cache of the thread that made the arena. */
static bool is_cache(struct older_heap *h, uint64_t block, bool first)
{
	struct glibc_cache c;
	for (size_t i = 0; i < h->cache_count; i++)
		if (h->caches[i] == block)
			return true;
	if (h->all_caches || !glibc_cache_read(&h->glibc, block, true, &c))
		return false;
	if (!glibc_cache_read(&h->glibc, block, false, &c)) {
		h->guessed = true;
		return first;
	}
	if (!h->key) { /* what lies in a cache was counted as used so far */
		h->key = glibc_cache_key(&h->glibc, &c);
		h->guessed |= h->sums.used.blocks != 0;
	}
	return true;
}

static bool is_fast(const struct older_heap *h, uint64_t at)
{
	size_t i = count_before(k, h->fast.count, h->fast.items[k] < at);
	return i < h->fast.count && h->fast.items[i] == at;
}

static int by_address(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/* The next of a list: 0 at its end, or if it leads nowhere. Neighbours in a list tend to be neighbours in memory, so
 * a page is kept. */
static uint64_t next_fast(struct older_heap *h, uint64_t at, unsigned bin, struct fast_page *page)
{
	struct glibc_chunk c;
	uint64_t page_at = at / sizeof page->bytes * sizeof page->bytes;
	if (at - page_at > sizeof page->bytes - sizeof c) {
		if (!glibc_read(&h->glibc, at, &c, sizeof c))
			return 0;
	} else {
		if (page->at != page_at &&
		    !glibc_read(&h->glibc, page_at, page->bytes, sizeof page->bytes)) {
			page->at = 0;
			return 0;
		}
		page->at = page_at;
		memcpy(&c, page->bytes + (at - page_at), sizeof c);
	}
	if (glibc_chunk_bytes(&c) != (bin + 2) * 16 || !vector_push(&h->fast, at))
		return 0;
	return glibc_plain_pointer(at + offsetof(struct glibc_chunk, next), c.next);
}

static void read_fast_bins(struct older_heap *h, const struct glibc_arena *a)
{
	struct fast_page page = {0};
	/* More do not fit into the arena: then a list leads back into itself. */
	uint64_t most = a->system_bytes / GLIBC_CHUNK_LEAST;
	most = most < FAST_MOST ? most : FAST_MOST;
	h->fast.count = 0;
	for (unsigned bin = 0; bin < GLIBC_FAST_BINS; bin++) {
		uint64_t at = a->fast[bin];
		while (at && !(at & 15) && h->fast.count < most) {
			if (h->fast.count % CHECK_EVERY == CHECK_EVERY - 1 && older_late(h))
				break;
			at = next_fast(h, at, bin, &page);
		}
	}
	if (h->fast.count)
		qsort(h->fast.items, h->fast.count, sizeof *h->fast.items, by_address);
}

/* ---- one heap */

/* Where the walk can go back to */
struct marks {
	struct {
		uint64_t at;
		struct older_sums sums;
	} items[MARKS];
	unsigned count, setbacks, row;
	uint64_t worst; /* how far it had come when something was wrong */
};

static void set_mark(struct older_heap *h, struct marks *m, uint64_t at)
{
	if (m->count == MARKS)
		memmove(m->items, m->items + 1, --m->count * sizeof *m->items);
	m->items[m->count].at = at;
	m->items[m->count++].sums = h->sums;
}

/* Something is wrong at `at`: returns where to go on from; 0: nowhere. */
static uint64_t go_back(struct older_heap *h, struct marks *m, uint64_t at)
{
	if (h->reading->still || h->late || !m->count || m->setbacks++ == SETBACKS)
		return 0;
	/* At the same place again: further back */
	m->row = at > m->worst ? 1 : m->row + 1;
	m->worst = at > m->worst ? at : m->worst;
	unsigned steps = m->row < m->count ? m->row : m->count;
	m->count -= steps;
	h->sums = m->items[m->count].sums;
	h->window_filled = 0;
	return m->items[m->count].at;
}

/* A block reaches into the chunk behind it. So chunks as they are measured, from their size words on, follow each
 * other without a gap. */
static void measure(struct older_heap *h, enum older_kind kind, uint64_t at, uint64_t bytes)
{
	const struct older_reading *r = h->reading;
	uint64_t start = at + GLIBC_CHUNK_HEADER - 8, end = start + bytes;
	if (r->each_free && kind >= OLDER_IN_BINS && kind != OLDER_CACHE_TABLES)
		r->each_free(r->ctx, start, bytes, kind, h->in_main);
	if (!r->measure)
		return;
	if (kind == OLDER_IN_USE) {
		r->measure(r->ctx, start, start + 8, &h->sums.kinds[OLDER_HEADERS]);
		start += 8;
	}
	r->measure(r->ctx, start, end, &h->sums.kinds[kind]);
}

static void count_chunk(struct older_heap *h, uint64_t at, const struct glibc_chunk *c, bool used,
			bool first)
{
	uint64_t bytes = glibc_chunk_bytes(c);
	uint64_t usable = bytes - 8;
	enum older_kind kind = OLDER_IN_USE;
	if (!used)
		kind = OLDER_IN_BINS;
	else if (bytes == GLIBC_CACHE_CHUNK && is_cache(h, at + GLIBC_CHUNK_HEADER, first))
		kind = OLDER_CACHE_TABLES;
	else if (h->key && c->key == h->key)
		kind = OLDER_IN_CACHES;
	else if (h->fast.count && bytes <= FAST_CHUNK_MOST && is_fast(h, at))
		kind = OLDER_IN_FAST_BINS;
	measure(h, kind, at, bytes);
	if (kind == OLDER_IN_USE)
		older_count(h, at + GLIBC_CHUNK_HEADER, usable);
	else if (kind != OLDER_CACHE_TABLES)
		add(&h->sums.unused, usable);
}

/* Whether a chunk that is no chunk ends the heap: behind the last one stand two fences. */
static bool is_fence(uint64_t at, uint64_t end, const struct glibc_chunk *c)
{
	return glibc_chunk_bytes(c) <= FENCE && end - at <= 3 * FENCE;
}

/* Whether a chunk can be one, and what follows it. */
static bool step(struct older_heap *h, uint64_t at, uint64_t end, const struct glibc_chunk *c,
		 struct glibc_chunk *next)
{
	uint64_t bytes = glibc_chunk_bytes(c);
	return bytes >= GLIBC_CHUNK_LEAST && !(bytes & 15) && !(c->size & GLIBC_MAPPED) &&
	       bytes < end - at && chunk_at(h, at + bytes, end, next);
}

/* Walks the chunks from `at` up to the top chunk, if that is here, or to the fences before `end`. False: it did not
 * come so far, and the rest is not known. */
static bool walk(struct older_heap *h, uint64_t at, uint64_t end, uint64_t top)
{
	struct marks marks = {0};
	struct glibc_chunk c, next;
	const uint64_t first = at;
	bool here = top >= at && top < end;
	if (h->reading->only_extents)
		return true;
	h->window_filled = 0;
	if (at >= end || !chunk_at(h, at, end, &c))
		return false;
	set_mark(h, &marks, at);
	for (unsigned refills = h->refills;;) {
		if (at == top && glibc_chunk_bytes(&c) <= end - at) {
			h->sums.top_bytes += glibc_chunk_bytes(&c);
			measure(h, OLDER_TOP, at, glibc_chunk_bytes(&c) - 8);
			return true;
		}
		if (!here && is_fence(at, end, &c))
			return true;
		if (!step(h, at, end, &c, &next)) {
			do
				at = go_back(h, &marks, at);
			while (at && !chunk_at(h, at, end, &c));
			if (!at)
				return false;
			continue;
		}
		if (h->refills != refills) {
			set_mark(h, &marks, at);
			refills = h->refills;
		}
		count_chunk(h, at, &c, next.size & GLIBC_PREVIOUS_USED, at == first);
		at += glibc_chunk_bytes(&c);
		c = next;
	}
}

/* ---- arenas */

static uint64_t after_arena(uint64_t at)
{
	return (at + sizeof(struct glibc_arena) + 15) & ~UINT64_C(15);
}

static void keep_extent(struct older_heap *h, uint64_t at, uint64_t bytes)
{
	if (h->reading->measure)
		(void)vector_push(&h->extents, (struct older_block){at, bytes});
}

/* Where the break cannot grow, the main arena goes on in a mapping. Chunks that only mark an end stand at the end of the first
 * piece, and the top chunk is in the last one. If there are more pieces, or if the last one was merged with its
 * neighbour, the walk does not come to the top. */
static bool walk_pieces(struct older_heap *h, uint64_t bytes, uint64_t from,
			const struct target_mapping *last, uint64_t end, uint64_t top)
{
	keep_extent(h, from, bytes);
	bool fine = walk(h, from, from + bytes, top);
	struct older_sums before = h->sums;
	if (walk(h, last->start, end, top)) {
		keep_extent(h, last->start, end - last->start);
		return fine;
	}
	h->sums = before;
	return false;
}

/* The main arena: from where the program's break began to the top chunk. */
static bool walk_main(struct older_heap *h, const struct glibc_arena *a)
{
	struct glibc_parameters p;
	struct glibc_chunk top;
	uint64_t from = 0;
	if (glibc_parameters_read(&h->glibc, &p))
		from = p.brk_base;
	for (size_t i = 0; !from && i < h->maps->count; i++)
		if (!strcmp(h->maps->items[i].name, "[heap]"))
			from = h->maps->items[i].start;
	from = (from + 15) & ~UINT64_C(15);
	if (!a->top || a->top < from || !from ||
	    !glibc_read(&h->glibc, a->top, &top, GLIBC_CHUNK_HEADER) ||
	    glibc_chunk_bytes(&top) > UINT64_C(1) << 48)
		return !a->top || !a->system_bytes; /* nothing was allocated yet */
	const struct target_mapping *first = target_maps_find(h->maps, from);
	const struct target_mapping *last = target_maps_find(h->maps, a->top);
	uint64_t end = a->top + glibc_chunk_bytes(&top);
	if (first && last && first != last && end <= last->end && from < first->end)
		return walk_pieces(h, first->end - from, from, last, end, a->top);
	if (first && first == last)
		keep_extent(h, from, end - from);
	return walk(h, from, end, a->top);
}

/* Whether a list that is followed leads back to where it was. */
static bool was_seen(const uint64_t *seen, unsigned count, uint64_t at)
{
	for (unsigned i = 0; i < count; i++)
		if (seen[i] == at)
			return true;
	return false;
}

static bool walk_heaps(struct older_heap *h, uint64_t arena_at, const struct glibc_arena *a)
{
	uint64_t at = a->top & ~(GLIBC_HEAP_SPAN - 1);
	for (unsigned i = 0; at && i < OLDER_HEAPS_MOST; i++) {
		struct glibc_heap_info info;
		if (was_seen(h->heaps, i, at) || !glibc_read(&h->glibc, at, &info, sizeof info) ||
		    info.arena != arena_at || info.bytes > GLIBC_HEAP_SPAN ||
		    (info.previous & (GLIBC_HEAP_SPAN - 1)))
			return false;
		uint64_t from = at + sizeof info;
		h->heaps[i] = at;
		keep_extent(h, at, info.bytes);
		bool with_arena = arena_at == from;
		if (with_arena)
			from = after_arena(from);
		if (!walk(h, from, at + info.bytes, a->top) || with_arena == (info.previous != 0))
			return false;
		at = info.previous;
	}
	return !at;
}

static void keep_arena(struct older_totals *t, const struct older_arena *a)
{
	unsigned i = t->arena_count < OLDER_ARENAS ? t->arena_count : OLDER_ARENAS;
	for (; i > 0 && t->arenas[i - 1].used.bytes < a->used.bytes; i--)
		if (i < OLDER_ARENAS)
			t->arenas[i] = t->arenas[i - 1];
	if (i < OLDER_ARENAS)
		t->arenas[i] = *a;
	t->arena_count++;
	t->system_bytes += a->system_bytes;
}

static void read_arena(struct older_heap *h, uint64_t at, const struct glibc_arena *a,
		       struct older_totals *t)
{
	struct older_sums before = h->sums;
	h->in_main = at == h->glibc.main_at;
	if (!h->reading->only_extents)
		read_fast_bins(h, a);
	bool fine = at == h->glibc.main_at ? walk_main(h, a) : walk_heaps(h, at, a);
	t->incomplete |= !fine;
	t->exact &= fine && !a->lock;
	const struct older_arena one = {
		.at = at,
		.used = {h->sums.used.blocks - before.used.blocks,
			 h->sums.used.bytes - before.used.bytes},
		.unused = {h->sums.unused.blocks - before.unused.blocks,
			   h->sums.unused.bytes - before.unused.bytes},
		.top_bytes = h->sums.top_bytes - before.top_bytes,
		.system_bytes = a->system_bytes,
	};
	keep_arena(t, &one);
}

static void read_arenas(struct older_heap *h, struct older_totals *t)
{
	uint64_t at = h->glibc.main_at;
	for (unsigned i = 0; i < GLIBC_ARENAS_MOST; i++) {
		struct glibc_arena a;
		/* Others than the main one stand behind the head of a heap. */
		if ((i && at % GLIBC_HEAP_SPAN != sizeof(struct glibc_heap_info)) ||
		    was_seen(h->arenas, i, at) || older_late(h) ||
		    !glibc_arena_read(&h->glibc, at, &a))
			break;
		h->arenas[i] = at;
		read_arena(h, at, &a, t);
		at = a.next;
		if (at == h->glibc.main_at)
			return;
	}
	t->incomplete = true;
}

/* ---- all of it */

static void find_caches(struct older_heap *h)
{
	const struct older_reading *r = h->reading;
	struct glibc_cache c;
	size_t known = 0;
	for (size_t i = 0; i < r->thread_count && known < GLIBC_THREADS_MOST; i++)
		if (r->thread_pointers[i])
			h->caches[known++] = r->thread_pointers[i];
	h->key = 0;
	h->cache_count = glibc_caches(&h->glibc, h->caches, known, h->caches) ? known : 0;
	h->all_caches = h->cache_count && h->cache_count == r->thread_count;
	for (size_t i = 0; i < h->cache_count && !h->key; i++)
		if (glibc_cache_read(&h->glibc, h->caches[i], false, &c))
			h->key = glibc_cache_key(&h->glibc, &c);
}

void older_read(struct older_heap *h, const struct older_reading *r, struct older_totals *t)
{
	uint64_t began = monotonic_ns();
	memset(t, 0, sizeof *t);
	memset(&h->sums, 0, sizeof h->sums);
	h->reading = r;
	h->extents.count = 0;
	h->until_ns = began + r->limit_ns;
	h->late = h->guessed = false;
	find_caches(h);
	t->exact = r->still;
	read_arenas(h, t);
	bool all = older_read_mapped(h, t);
	t->incomplete |= h->late;
	t->exact &= all && !t->incomplete && !h->guessed;
	t->unused = h->sums.unused;
	t->top_bytes = h->sums.top_bytes;
	memcpy(t->classes, h->sums.classes, sizeof t->classes);
	memcpy(t->kinds, h->sums.kinds, sizeof t->kinds);
	t->used.blocks += h->sums.used.blocks;
	t->used.bytes += h->sums.used.bytes;
	t->took_ns = monotonic_ns() - began;
	h->reading = NULL;
}

struct older_block older_main_arena(const struct older_heap *h)
{
	return (struct older_block){h->glibc.main_at, sizeof(struct glibc_arena)};
}

bool older_extent(const struct older_heap *h, size_t i, struct older_block *extent)
{
	if (i < h->extents.count)
		*extent = h->extents.items[i];
	return i < h->extents.count;
}

bool older_large(const struct older_heap *h, size_t i, struct older_block *mapping)
{
	if (i < h->mapped.count)
		*mapping = (struct older_block){h->mapped.items[i].start, h->mapped.items[i].span};
	return i < h->mapped.count;
}

int older_open(struct older_heap **out, const struct target_memory *memory,
	       const struct target_image *libc, const struct target_maps *maps, int pages_fd,
	       struct heft_error *err)
{
	struct older_heap *h = calloc(1, sizeof *h);
	*out = NULL;
	if (!h) {
		if (pages_fd >= 0)
			close(pages_fd);
		return heft_fail(err, HEFT_ENOMEM, "out of memory");
	}
	h->maps = maps;
	h->pages_fd = pages_fd;
	int rc = glibc_heap_find(&h->glibc, memory, libc, err);
	if (rc)
		older_close(h);
	else
		*out = h;
	return rc;
}

void older_close(struct older_heap *h)
{
	if (!h)
		return;
	if (h->pages_fd >= 0)
		close(h->pages_fd);
	vector_free(&h->mapped);
	vector_free(&h->fast);
	vector_free(&h->extents);
	free(h);
}
