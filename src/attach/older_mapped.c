/* Blocks that have mappings of their own: glibc maps large blocks one by one. It keeps their number and the sum of
 * their bytes, so these are known at once. Where they are it does not know itself: each begins a page, with its
 * length in the second word, somewhere in anonymous memory. Neighbours lie in one mapping, as the kernel merges them.
 *
 * First the start of each mapping is looked at, and what follows a block there; then, if blocks are missing, every
 * page that the kernel has in memory or has swapped out. Pages that were never written are not touched. Mappings of many
 * GiB come last: a word is read for each of their pages, and a program may have reserved terabytes. The search ends when
 * there are as many as glibc says. */
#include "attach/older_parts.h"

#include "hosted/sorted.h"

#include <string.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 512 };
#define LARGE_MAPPING (UINT64_C(16) << 30)

/* The block whose mapping begins at a page, and how long that is; false: none. */
static bool mapped_at(struct older_heap *h, uint64_t at, uint64_t end, struct older_mapped *m)
{
	struct glibc_chunk c;
	if (end - at < PAGE || !glibc_read(&h->glibc, at, &c, GLIBC_CHUNK_HEADER))
		return false;
	uint64_t bytes = glibc_chunk_bytes(&c);
	if (c.previous_bytes || (c.size & 7) != GLIBC_MAPPED || !bytes || bytes % PAGE ||
	    bytes > end - at)
		return false;
	*m = (struct older_mapped){at, bytes, at, bytes};
	/* An aligned block begins later; its own header stands right before it. */
	for (uint64_t alignment = 32; alignment < bytes; alignment *= 2) {
		uint64_t block = (at + 2 * GLIBC_CHUNK_HEADER + alignment - 1) & ~(alignment - 1);
		uint64_t moved = block - GLIBC_CHUNK_HEADER;
		if (moved - at < bytes - GLIBC_CHUNK_HEADER &&
		    glibc_read(&h->glibc, moved, &c, GLIBC_CHUNK_HEADER) &&
		    c.previous_bytes == moved - at && (c.size & 7) == GLIBC_MAPPED &&
		    glibc_chunk_bytes(&c) == bytes - (moved - at)) {
			m->at = moved;
			m->bytes = bytes - (moved - at);
			break;
		}
	}
	return true;
}

static bool may_have_blocks(const struct target_mapping *m)
{
	return m->write && !m->shared && !m->inode &&
	       (!m->name[0] || !strncmp(m->name, "[anon", 5));
}

/* Arenas have their own heaps, where blocks are counted already. */
static bool is_arena_heap(const struct older_heap *h, uint64_t at)
{
	struct glibc_heap_info info;
	return at % GLIBC_HEAP_SPAN == 0 && glibc_read(&h->glibc, at, &info, sizeof info) &&
	       info.arena % GLIBC_HEAP_SPAN == sizeof info && info.page_bytes == PAGE;
}

static void search_starts(struct older_heap *h, size_t count)
{
	for (size_t i = 0; i < h->maps->count && h->mapped.count < count; i++) {
		const struct target_mapping *m = &h->maps->items[i];
		struct older_mapped found;
		uint64_t at = m->start;
		while (may_have_blocks(m) && h->mapped.count < count && !older_late(h) &&
		       mapped_at(h, at, m->end, &found) && vector_push(&h->mapped, found))
			at = found.start + found.span;
	}
}

/* Which of the pages from `at` on were written; false: cannot be known. */
static bool read_pages(const struct older_heap *h, uint64_t at, uint64_t *pages, size_t count)
{
	size_t bytes = count * sizeof *pages;
	return h->pages_fd >= 0 && pread(h->pages_fd, pages, bytes,
					 (off_t)(at / PAGE * sizeof *pages)) == (ssize_t)bytes;
}

/* The block that begins at a page and was found already; NULL: none. */
static const struct older_mapped *known_at(const struct older_heap *h, size_t known, uint64_t at)
{
	size_t i = count_before(k, known, h->mapped.items[k].start < at);
	return i < known && h->mapped.items[i].start == at ? &h->mapped.items[i] : NULL;
}

/* Looks at every page that was written. The first `known` were found at the starts of mappings, in order. */
static void search_pages(struct older_heap *h, const struct target_mapping *m, size_t known,
			 size_t count)
{
	const uint64_t written = UINT64_C(3) << 62; /* in memory, or swapped out */
	uint64_t pages[PAGES], from = 0;
	size_t valid = 0;
	for (uint64_t at = m->start; at < m->end && h->mapped.count < count;) {
		const struct older_mapped *there = known_at(h, known, at);
		struct older_mapped found;
		if (there) {
			at += there->span;
			continue;
		}
		if (at < from || at - from >= valid * PAGE) {
			uint64_t left = (m->end - at) / PAGE;
			valid = left < PAGES ? (size_t)left : PAGES;
			from = at;
			if (older_late(h) || !read_pages(h, at, pages, valid))
				return;
		}
		uint64_t step = PAGE;
		if ((pages[(at - from) / PAGE] & written) && mapped_at(h, at, m->end, &found)) {
			if (!vector_push(&h->mapped, found))
				return;
			step = found.span;
		}
		at += step;
	}
}

static void search(struct older_heap *h, size_t count)
{
	h->mapped.count = 0;
	h->searched = true;
	search_starts(h, count);
	size_t known = h->mapped.count;
	for (unsigned pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < h->maps->count && h->mapped.count < count && !h->late; i++) {
			const struct target_mapping *m = &h->maps->items[i];
			if ((m->end - m->start > LARGE_MAPPING) == pass && may_have_blocks(m) &&
			    !is_arena_heap(h, m->start))
				search_pages(h, m, known, count);
		}
}

/* Those that were found once and are still there. */
static void look_again(struct older_heap *h)
{
	size_t kept = 0;
	for (size_t i = 0; i < h->mapped.count; i++) {
		struct older_mapped m = h->mapped.items[i];
		struct glibc_chunk c;
		if (glibc_read(&h->glibc, m.at, &c, GLIBC_CHUNK_HEADER) &&
		    c.size == (m.bytes | GLIBC_MAPPED))
			h->mapped.items[kept++] = m;
	}
	h->mapped.count = kept;
}

/* Those of a list. The word before a block says whether it has a mapping, the one before that where it begins. */
static void take_listed(struct older_heap *h)
{
	const struct older_reading *r = h->reading;
	h->mapped.count = 0;
	for (size_t i = 0; i < r->large_count; i++) {
		uint64_t at = r->large[i].at - GLIBC_CHUNK_HEADER;
		struct glibc_chunk c;
		if (!glibc_read(&h->glibc, at, &c, GLIBC_CHUNK_HEADER) ||
		    (c.size & 7) != GLIBC_MAPPED || c.previous_bytes > at)
			continue;
		uint64_t bytes = glibc_chunk_bytes(&c), start = at - c.previous_bytes;
		if (start % PAGE || (at + bytes) % PAGE ||
		    bytes - GLIBC_CHUNK_HEADER < r->large[i].bytes)
			continue;
		if (!vector_push(&h->mapped,
				 (struct older_mapped){at, bytes, start, bytes + c.previous_bytes}))
			return;
	}
}

bool older_read_mapped(struct older_heap *h, struct older_totals *t)
{
	struct glibc_parameters p;
	if (!glibc_parameters_read(&h->glibc, &p))
		return false;
	uint32_t count = p.mapped_now < OLDER_MAPPED_MOST ? p.mapped_now : OLDER_MAPPED_MOST;
	uint64_t seen = 0;
	if (h->reading->large)
		take_listed(h);
	else if (h->searched && h->reading->still && !h->reading->each)
		look_again(h);
	else
		search(h, count);
	for (size_t i = 0; i < h->mapped.count; i++) {
		const struct older_mapped *m = &h->mapped.items[i];
		uint64_t usable = m->bytes - GLIBC_CHUNK_HEADER;
		older_count(h, m->at + GLIBC_CHUNK_HEADER, usable);
		t->mapped.blocks++;
		t->mapped.bytes += usable;
		seen += m->span;
	}
	/* What was not found has no class. */
	if (h->mapped.count < count && p.mapped_bytes > seen) {
		uint64_t blocks = count - h->mapped.count;
		uint64_t bytes = p.mapped_bytes - seen;
		bytes -= bytes < blocks * GLIBC_CHUNK_HEADER ? bytes : blocks * GLIBC_CHUNK_HEADER;
		t->mapped.blocks += blocks;
		t->mapped.bytes += bytes;
		t->used.blocks += blocks;
		t->used.bytes += bytes;
	}
	return h->mapped.count == count && seen == p.mapped_bytes;
}
