/* Finds glibc's structures in the memory of a process (glibc_heap.h).
 *
 * - The version stands in the banner that libc prints when it is run: "GNU C Library ... release version 2.36".
 * - The main arena is in libc's data. An empty bin points to itself, and of the 127 bins most are empty: nothing else
 *   looks like that.
 * - The parameters are there too. Their fields are bound to each other in several ways.
 * - A thread's cache hangs on a thread-local pointer. It is at the same distance from the thread pointer in all
 *   threads, so it is the one place where every thread has a pointer to a cache, or NULL.
 *
 * The program can have written anything there. Every address is checked before it is used, and every loop has a
 * limit that does not depend on what was read. */
#include "attach/glibc_heap.h"

#include "hosted/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MINOR_LEAST = 35, /* struct _heap_info got its fifth field */
	MINOR_MOST = 41,  /* 2.42 has caches of another shape */
	SEGMENT_MOST = 8 << 20,
	PIECE = 64 << 10,
	BANNER_MOST = 256,
	EMPTY_LEAST = 48,             /* so many of the bins point to themselves */
	THREAD_LOCAL_MOST = 64 << 10, /* how far below the thread pointer libc's variables may be */
	THREADS_TRIED = 4,            /* for where the pointer stands */
};
#define ADDRESS_END (UINT64_C(1) << 56)

bool glibc_read(const struct glibc_heap *g, uint64_t at, void *to, size_t bytes)
{
	return at >= 4096 && at < ADDRESS_END && g->memory.read(g->memory.context, at, to, bytes);
}

static bool is_block(uint64_t at)
{
	return at >= 4096 && at < ADDRESS_END && !(at & 15);
}

/* ---- the version */

/* text: from "GNU C Library (" on, ended by a NUL. 0: it is something else. */
static unsigned banner_minor(const char *text)
{
	unsigned minor;
	const char *release = strstr(text, " release version 2.");
	const char *line = strchr(text, '\n');
	if (!release || (line && line < release) ||
	    sscanf(release, " release version 2.%3u", &minor) != 1)
		return 0;
	return minor;
}

static unsigned find_banner(const struct glibc_heap *g, uint64_t at, uint64_t bytes)
{
	static const char start[] = "GNU C Library (";
	char *piece = malloc(PIECE + 1);
	unsigned minor = 0;
	for (uint64_t done = 0; piece && !minor && done < bytes; done += PIECE - BANNER_MOST) {
		size_t n = bytes - done < PIECE ? (size_t)(bytes - done) : PIECE;
		if (!glibc_read(g, at + done, piece, n))
			break;
		piece[n] = 0;
		const char *found = memmem(piece, n, start, sizeof start - 1);
		for (; found && !minor; found = memmem(found + 1, n - (size_t)(found + 1 - piece),
						       start, sizeof start - 1)) {
			char text[BANNER_MOST + 1];
			snprintf(text, sizeof text, "%s", found);
			minor = banner_minor(text);
		}
	}
	free(piece);
	return minor;
}

static unsigned find_minor(const struct glibc_heap *g, const struct target_image *libc)
{
	unsigned minor = 0;
	for (uint32_t i = 0; i < libc->segment_count && !minor; i++) {
		const struct target_segment *s = &libc->segments[i];
		if (!s->write && !s->execute && s->bytes <= SEGMENT_MOST)
			minor = find_banner(g, libc->bias + s->address, s->bytes);
	}
	return minor;
}

/* ---- libc's data */

static bool is_main_arena(const struct glibc_arena *a, uint64_t at)
{
	unsigned empty = 0;
	for (unsigned i = 0; i < GLIBC_BINS; i++) {
		/* A bin is as if the two pointers were in a chunk */
		uint64_t bin = at + offsetof(struct glibc_arena, bins) + i * 16 -
			       GLIBC_CHUNK_HEADER;
		if (a->bins[i][0] == bin && a->bins[i][1] == bin)
			empty++;
		else if (!is_block(a->bins[i][0]) || !is_block(a->bins[i][1]) ||
			 i + 1 - empty > GLIBC_BINS - EMPTY_LEAST)
			return false;
	}
	return empty >= EMPTY_LEAST && is_block(a->next) && (a->top == 0 || is_block(a->top));
}

/* Before the first malloc: zeros, one thread, and an arena that follows itself. */
static bool is_unused_arena(const struct glibc_arena *a, uint64_t at)
{
	struct glibc_arena wanted;
	memset(&wanted, 0, sizeof wanted);
	wanted.next = at;
	wanted.threads = 1;
	return memcmp(a, &wanted, sizeof wanted) == 0;
}

static bool is_power(uint64_t n)
{
	return (n & (n - 1)) == 0;
}

static bool are_parameters(const struct glibc_parameters *p)
{
	return p->cache_bins >= 1 && p->cache_bins <= GLIBC_CACHE_BINS &&
	       p->cache_bytes_most >= (p->cache_bins - 1) * 16 &&
	       p->cache_bytes_most <= p->cache_bins * 16 + 8 && p->cache_count <= UINT16_MAX &&
	       p->mapped_now <= p->mapped_most && p->mapped_bytes <= p->mapped_bytes_most &&
	       p->mapped_bytes % 4096 == 0 && p->mapped_bytes_most % 4096 == 0 &&
	       p->mapped_bytes_most < ADDRESS_END && p->fixed_threshold <= 1 &&
	       p->brk_base < ADDRESS_END && is_power(p->thp_page) && is_power(p->huge_page) &&
	       p->arena_test >= 1 && p->arena_test < 1 << 20;
}

/* What nearly all programs have, since few set them otherwise. */
static bool are_usual(const struct glibc_parameters *p)
{
	return p->cache_bins == GLIBC_CACHE_BINS && p->arena_test == 8 &&
	       p->mapped_limit == 65536 && p->mmap_threshold >= 128 << 10 &&
	       p->mmap_threshold <= 32 << 20;
}

static void find_in_data(struct glibc_heap *g, uint64_t at, const uint8_t *data, size_t bytes)
{
	for (size_t i = 0; i + sizeof(struct glibc_arena) <= bytes && !g->main_at; i += 8) {
		struct glibc_arena a;
		uint64_t next;
		/* Most places are given up here. */
		memcpy(&next, data + i + offsetof(struct glibc_arena, next), 8);
		if (!is_block(next))
			continue;
		memcpy(&a, data + i, sizeof a);
		if (is_main_arena(&a, at + i) || is_unused_arena(&a, at + i))
			g->main_at = at + i;
	}
	for (unsigned usual = 2; usual-- > 0;)
		for (size_t i = 0;
		     i + sizeof(struct glibc_parameters) <= bytes && !g->parameters_at; i += 8) {
			struct glibc_parameters p;
			memcpy(&p, data + i, sizeof p);
			if (are_parameters(&p) && (!usual || are_usual(&p)))
				g->parameters_at = at + i;
		}
}

static int read_data(struct glibc_heap *g, const struct target_image *libc, struct heft_error *err)
{
	for (uint32_t i = 0; i < libc->segment_count; i++) {
		const struct target_segment *s = &libc->segments[i];
		uint64_t at = (libc->bias + s->address + 7) & ~UINT64_C(7);
		if (!s->write || s->bytes > SEGMENT_MOST)
			continue;
		uint8_t *data = malloc((size_t)s->bytes);
		if (!data)
			return heft_fail(err, HEFT_ENOMEM, "out of memory");
		size_t bytes = s->bytes < 8 ? 0 : (size_t)s->bytes - 8;
		if (glibc_read(g, at, data, bytes))
			find_in_data(g, at, data, bytes);
		free(data);
	}
	return 0;
}

int glibc_heap_find(struct glibc_heap *g, const struct target_memory *memory,
		    const struct target_image *libc, struct heft_error *err)
{
	*g = (struct glibc_heap){.memory = *memory};
	g->minor = find_minor(g, libc);
	if (!g->minor)
		return heft_fail(err, HEFT_EREFUSED, "its allocator is not glibc's");
	if (g->minor < MINOR_LEAST || g->minor > MINOR_MOST)
		return heft_fail(err, HEFT_EREFUSED,
				 "heft knows the heaps of glibc 2.%d to 2.%d, not those of 2.%u",
				 MINOR_LEAST, MINOR_MOST, g->minor);
	int rc = read_data(g, libc, err);
	if (!rc && !g->main_at)
		rc = heft_fail(err, HEFT_EREFUSED, "its heap is not where glibc 2.%u has it",
			       g->minor);
	return rc;
}

bool glibc_arena_read(const struct glibc_heap *g, uint64_t at, struct glibc_arena *arena)
{
	return !(at & 7) && glibc_read(g, at, arena, sizeof *arena) &&
	       (arena->top == 0 || is_block(arena->top)) && arena->next && !(arena->next & 7);
}

bool glibc_parameters_read(const struct glibc_heap *g, struct glibc_parameters *p)
{
	return g->parameters_at && glibc_read(g, g->parameters_at, p, sizeof *p) &&
	       are_parameters(p);
}

/* ---- caches */

bool glibc_cache_read(const struct glibc_heap *g, uint64_t at, bool empty, struct glibc_cache *c)
{
	uint64_t size;
	unsigned filled = 0;
	if (!is_block(at) || !glibc_read(g, at - 8, &size, sizeof size) ||
	    (size & ~UINT64_C(7)) != GLIBC_CACHE_CHUNK || !glibc_read(g, at, c, sizeof *c))
		return false;
	for (unsigned i = 0; i < GLIBC_CACHE_BINS; i++) {
		if (!c->counts[i] != !c->entries[i] || (c->entries[i] && !is_block(c->entries[i])))
			return false;
		filled += c->counts[i] != 0;
	}
	return filled || empty;
}

uint64_t glibc_cache_key(const struct glibc_heap *g, const struct glibc_cache *c)
{
	uint64_t key = 0;
	for (unsigned i = 0; i < GLIBC_CACHE_BINS && !key; i++)
		if (c->entries[i] && !glibc_read(g, c->entries[i] + 8, &key, sizeof key))
			key = 0;
	return key;
}

/* Whether all threads have a cache, or NULL, at this distance below their thread pointers. */
static bool fits_all(const struct glibc_heap *g, uint64_t offset, const uint64_t *thread_pointers,
		     size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct glibc_cache c;
		uint64_t at;
		if (!glibc_read(g, thread_pointers[i] - offset, &at, sizeof at) ||
		    (at && !glibc_cache_read(g, at, true, &c)))
			return false;
	}
	return true;
}

static uint64_t find_offset(const struct glibc_heap *g, const uint64_t *thread_pointers,
			    size_t count, size_t thread, bool empty)
{
	enum { WORDS = 512 };
	uint64_t words[WORDS];
	for (uint64_t below = sizeof words; below <= THREAD_LOCAL_MOST; below += sizeof words) {
		if (!glibc_read(g, thread_pointers[thread] - below, words, sizeof words))
			return 0;
		for (unsigned i = WORDS; i-- > 0;) {
			struct glibc_cache c;
			uint64_t offset = below - i * 8;
			if (is_block(words[i]) && glibc_cache_read(g, words[i], empty, &c) &&
			    fits_all(g, offset, thread_pointers, count))
				return offset;
		}
	}
	return 0;
}

bool glibc_caches(struct glibc_heap *g, const uint64_t *thread_pointers, size_t count,
		  uint64_t *caches)
{
	for (size_t i = 0; i < count; i++)
		if (thread_pointers[i] < THREAD_LOCAL_MOST || (thread_pointers[i] & 7))
			return false;
	/* A cache that has something is surer than one that is empty. */
	for (unsigned empty = 0; empty < 2; empty++)
		for (size_t i = 0; i < count && i < THREADS_TRIED && !g->cache_offset; i++)
			g->cache_offset = find_offset(g, thread_pointers, count, i, empty);
	if (!count || !g->cache_offset)
		return false;
	for (size_t i = 0; i < count; i++)
		if (!glibc_read(g, thread_pointers[i] - g->cache_offset, &caches[i],
				sizeof caches[i]))
			return false;
	return true;
}
