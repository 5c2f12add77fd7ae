/* A small heap of glibc's that is right: two arenas, fast bins, a thread's cache, a block with a mapping of its own. Targets
 * change words of it. */
#ifndef HEFT_TESTS_FUZZ_HEAP_H
#define HEFT_TESTS_FUZZ_HEAP_H

#include "attach/older_blocks.h"

#include <string.h>

enum { PART_BYTES = 16 << 10, ARENA_AT = 0x200, PARAMETERS_AT = 0x40, CACHE_BELOW = 72 };
enum part { BANNER, DATA, MAIN, HEAP, MAPPED, THREAD, PARTS };

static const uint64_t fuzz_heap_starts[PARTS] = {
	0x7f0000000000, 0x7f0000100000, 0x555500000000,
	0x7f4000000000, 0x7f2000000000, 0x7f6000000000,
};
static uint8_t fuzz_heap_parts[PARTS][PART_BYTES];

static void fuzz_heap_put(enum part part, size_t at, uint64_t value)
{
	memcpy(fuzz_heap_parts[part] + at, &value, sizeof value);
}

static void fuzz_heap_arena(enum part part, size_t at, uint64_t top, uint64_t fast, uint64_t next)
{
	struct glibc_arena a = {.top = top, .next = next, .system_bytes = PART_BYTES};
	uint64_t here = fuzz_heap_starts[part] + at;
	a.fast[0] = fast;
	for (unsigned i = 0; i < GLIBC_BINS; i++)
		a.bins[i][0] = a.bins[i][1] = here + offsetof(struct glibc_arena, bins) + i * 16 -
					      16;
	memcpy(fuzz_heap_parts[part] + at, &a, sizeof a);
}

/* A cache, then blocks of 32 bytes up to the top chunk; the fourth is in a fast bin, the sixth in the cache, the
 * eighth is free. Returns where the fast one is. */
static uint64_t fuzz_heap_chunks(enum part part, size_t at, uint64_t *top)
{
	enum { COUNT = 12, KEY = 0x4b4b };
	size_t cache = at + 16;
	fuzz_heap_put(part, at + 8, GLIBC_CACHE_CHUNK | 1);
	at += GLIBC_CACHE_CHUNK;
	uint64_t first = fuzz_heap_starts[part] + at;
	for (unsigned i = 0; i < COUNT; i++, at += 32) {
		fuzz_heap_put(part, at + 8, 32 | (i != 8));
		fuzz_heap_put(part, at + 24, i == 5 ? KEY : 0);
		if (i == 3) /* the last one of its list */
			fuzz_heap_put(part, at + 16, (fuzz_heap_starts[part] + at + 16) >> 12);
	}
	fuzz_heap_parts[part][cache] = 1;
	fuzz_heap_put(part, cache + offsetof(struct glibc_cache, entries), first + 5 * 32 + 16);
	*top = fuzz_heap_starts[part] + at;
	fuzz_heap_put(part, at + 8, (PART_BYTES - at) | 1);
	return first + 3 * 32;
}

static void fuzz_heap_make(void)
{
	static const char banner[] = "GNU C Library (X) stable release version 2.36.\n";
	const uint64_t heap_arena = fuzz_heap_starts[HEAP] + sizeof(struct glibc_heap_info);
	const struct glibc_heap_info info = {heap_arena, 0, PART_BYTES, PART_BYTES, 4096, 0};
	const struct glibc_parameters p = {.arena_test = 8,
					   .mapped_limit = 65536,
					   .mmap_threshold = 128 << 10,
					   .mapped_now = 1,
					   .mapped_most = 1,
					   .mapped_bytes = 8192,
					   .mapped_bytes_most = 8192,
					   .brk_base = fuzz_heap_starts[MAIN],
					   .cache_bins = 64,
					   .cache_bytes_most = 1032,
					   .cache_count = 7};
	uint64_t top, fast;
	memset(fuzz_heap_parts, 0, sizeof fuzz_heap_parts);
	memcpy(fuzz_heap_parts[BANNER] + 100, banner, sizeof banner);
	memcpy(fuzz_heap_parts[DATA] + PARAMETERS_AT, &p, sizeof p);
	fast = fuzz_heap_chunks(MAIN, 0, &top);
	fuzz_heap_arena(DATA, ARENA_AT, top, fast, heap_arena);
	memcpy(fuzz_heap_parts[HEAP], &info, sizeof info);
	fast = fuzz_heap_chunks(HEAP, 0x8d0, &top);
	fuzz_heap_arena(HEAP, sizeof info, top, fast, fuzz_heap_starts[DATA] + ARENA_AT);
	fuzz_heap_put(MAPPED, 8, 8192 | GLIBC_MAPPED);
	fuzz_heap_put(THREAD, PART_BYTES - 64 - CACHE_BELOW, fuzz_heap_starts[MAIN] + 16);
	fuzz_heap_put(THREAD, PART_BYTES / 2 - CACHE_BELOW, fuzz_heap_starts[HEAP] + 0x8d0 + 16);
}

/* Where glibc's code and data are. */
static inline void fuzz_heap_libc(struct target_image *libc)
{
	libc->segment_count = 2;
	libc->segments[0] = (struct target_segment){fuzz_heap_starts[BANNER], PART_BYTES, false,
						    false};
	libc->segments[1] = (struct target_segment){fuzz_heap_starts[DATA], PART_BYTES, false,
						    true};
}

#endif
