/* glibc's malloc as it stands in the memory of another process: where its structures are, and what they say. No
 * symbol is needed. Known are the layouts of glibc 2.35 to 2.41 on 64-bit machines, which are the same. */
#ifndef HEFT_ATTACH_GLIBC_HEAP_H
#define HEFT_ATTACH_GLIBC_HEAP_H

#include "attach/target_image.h"

struct heft_error;

enum {
	GLIBC_FAST_BINS = 10,
	GLIBC_BINS = 127,
	GLIBC_CACHE_BINS = 64,
	GLIBC_CHUNK_HEADER = 16,
	GLIBC_CHUNK_LEAST = 32,
	GLIBC_PREVIOUS_USED = 1, /* bits of a chunk's size word */
	GLIBC_MAPPED = 2,
	GLIBC_CACHE_CHUNK = 0x290, /* size of the chunk that holds a struct glibc_cache */
	GLIBC_ARENAS_MOST = 4096,
	GLIBC_THREADS_MOST = 4096,
};
#define GLIBC_HEAP_SPAN (UINT64_C(64) << 20) /* an arena's heap begins at a multiple of it */

/* struct malloc_chunk; next and key are the program's own while the block is in use */
struct glibc_chunk {
	uint64_t previous_bytes, size, next, key;
};
/* struct malloc_state */
struct glibc_arena {
	uint32_t lock, flags, has_fast, padding;
	uint64_t fast[GLIBC_FAST_BINS];
	uint64_t top, last_remainder;
	uint64_t bins[GLIBC_BINS][2];
	uint32_t map[4];
	uint64_t next, next_free, threads, system_bytes, system_most;
};
/* struct _heap_info: what an arena's heap begins with, but for the main arena's */
struct glibc_heap_info {
	uint64_t arena, previous, bytes, accessible_bytes, page_bytes, padding;
};
/* struct malloc_par */
struct glibc_parameters {
	uint64_t trim_threshold, top_pad, mmap_threshold, arena_test, arena_most;
	uint64_t thp_page, huge_page;
	uint32_t huge_flags, mapped_now, mapped_limit, mapped_most, fixed_threshold, padding;
	uint64_t mapped_bytes, mapped_bytes_most;
	uint64_t brk_base;
	uint64_t cache_bins, cache_bytes_most, cache_count, cache_unsorted;
};
/* struct tcache_perthread_struct */
struct glibc_cache {
	uint16_t counts[GLIBC_CACHE_BINS];
	uint64_t entries[GLIBC_CACHE_BINS];
};

struct glibc_heap {
	struct target_memory memory;
	unsigned minor;         /* of its version: 36 of 2.36 */
	uint64_t main_at;       /* the main arena */
	uint64_t parameters_at; /* 0: not found */
	uint64_t
		cache_offset; /* of the pointer to a thread's cache, below its thread pointer; 0: not known yet */
};

/* HEFT_EREFUSED, with words, if the module is no glibc, or one of another layout. */
int glibc_heap_find(struct glibc_heap *g, const struct target_memory *memory,
		    const struct target_image *libc, struct heft_error *err);
/* False: there is no memory, or none that can be the arena. */
bool glibc_arena_read(const struct glibc_heap *g, uint64_t at, struct glibc_arena *arena);
bool glibc_parameters_read(const struct glibc_heap *g, struct glibc_parameters *p);
/* Whether the block at an address is a thread's cache. Nobody can tell an empty one from a block of zeros: then
 * the result is `empty`. */
bool glibc_cache_read(const struct glibc_heap *g, uint64_t at, bool empty, struct glibc_cache *c);
/* The caches of these threads, 0 where a thread has none. False: not all could be found. */
bool glibc_caches(struct glibc_heap *g, const uint64_t *thread_pointers, size_t count,
		  uint64_t *caches);
/* What marks a block that lies in a cache, by a cache that has some; 0: it has none. */
uint64_t glibc_cache_key(const struct glibc_heap *g, const struct glibc_cache *c);
/* A pointer as fast bins have it, that stands at `at`. */
static inline uint64_t glibc_plain_pointer(uint64_t at, uint64_t mangled)
{
	return at >> 12 ^ mangled;
}
static inline uint64_t glibc_chunk_bytes(const struct glibc_chunk *c)
{
	return c->size & ~UINT64_C(7);
}
bool glibc_read(const struct glibc_heap *g, uint64_t at, void *to, size_t bytes);

#endif
