/* Fuzzes reading a program's heap. There is a small heap that is right: two arenas, fast bins, a thread's cache, a
 * block with a mapping of its own. The input changes words of it, 11 bytes each: which part, where, what. Whatever it
 * makes of it, reading ends, and sums are those of the blocks. */
#include "attach/older_blocks.h"
#include "hosted/error.h"

#include <stdlib.h>
#include <string.h>

enum { PART_BYTES = 16 << 10, ARENA_AT = 0x200, PARAMETERS_AT = 0x40, CACHE_BELOW = 72 };
enum part { BANNER, DATA, MAIN, HEAP, MAPPED, THREAD, PARTS };

static const uint64_t starts[PARTS] = {
	0x7f0000000000, 0x7f0000100000, 0x555500000000,
	0x7f4000000000, 0x7f2000000000, 0x7f6000000000,
};
static uint8_t parts[PARTS][PART_BYTES];

static bool read_memory(void *context, uint64_t at, void *to, size_t bytes)
{
	(void)context;
	for (unsigned i = 0; i < PARTS; i++)
		if (at >= starts[i] && at - starts[i] <= PART_BYTES &&
		    bytes <= PART_BYTES - (at - starts[i])) {
			memcpy(to, parts[i] + (at - starts[i]), bytes);
			return true;
		}
	return false;
}

static void put(enum part part, size_t at, uint64_t value)
{
	memcpy(parts[part] + at, &value, sizeof value);
}

static void make_arena(enum part part, size_t at, uint64_t top, uint64_t fast, uint64_t next)
{
	struct glibc_arena a = {.top = top, .next = next, .system_bytes = PART_BYTES};
	uint64_t here = starts[part] + at;
	a.fast[0] = fast;
	for (unsigned i = 0; i < GLIBC_BINS; i++)
		a.bins[i][0] = a.bins[i][1] = here + offsetof(struct glibc_arena, bins) + i * 16 -
					      16;
	memcpy(parts[part] + at, &a, sizeof a);
}

/* A cache, then blocks of 32 bytes up to the top chunk; the fourth is in a fast bin, the sixth in the cache, the
 * eighth is free. Returns where the fast one is. */
static uint64_t make_chunks(enum part part, size_t at, uint64_t *top)
{
	enum { COUNT = 12, KEY = 0x4b4b };
	size_t cache = at + 16;
	put(part, at + 8, GLIBC_CACHE_CHUNK | 1);
	at += GLIBC_CACHE_CHUNK;
	uint64_t first = starts[part] + at;
	for (unsigned i = 0; i < COUNT; i++, at += 32) {
		put(part, at + 8, 32 | (i != 8));
		put(part, at + 24, i == 5 ? KEY : 0);
		if (i == 3) /* the last one of its list */
			put(part, at + 16, (starts[part] + at + 16) >> 12);
	}
	parts[part][cache] = 1;
	put(part, cache + offsetof(struct glibc_cache, entries), first + 5 * 32 + 16);
	*top = starts[part] + at;
	put(part, at + 8, (PART_BYTES - at) | 1);
	return first + 3 * 32;
}

static void make_all(void)
{
	static const char banner[] = "GNU C Library (X) stable release version 2.36.\n";
	const uint64_t heap_arena = starts[HEAP] + sizeof(struct glibc_heap_info);
	const struct glibc_heap_info info = {heap_arena, 0, PART_BYTES, PART_BYTES, 4096, 0};
	const struct glibc_parameters p = {.arena_test = 8,
					   .mapped_limit = 65536,
					   .mmap_threshold = 128 << 10,
					   .mapped_now = 1,
					   .mapped_most = 1,
					   .mapped_bytes = 8192,
					   .mapped_bytes_most = 8192,
					   .brk_base = starts[MAIN],
					   .cache_bins = 64,
					   .cache_bytes_most = 1032,
					   .cache_count = 7};
	uint64_t top, fast;
	memset(parts, 0, sizeof parts);
	memcpy(parts[BANNER] + 100, banner, sizeof banner);
	memcpy(parts[DATA] + PARAMETERS_AT, &p, sizeof p);
	fast = make_chunks(MAIN, 0, &top);
	make_arena(DATA, ARENA_AT, top, fast, heap_arena);
	memcpy(parts[HEAP], &info, sizeof info);
	fast = make_chunks(HEAP, 0x8d0, &top);
	make_arena(HEAP, sizeof info, top, fast, starts[DATA] + ARENA_AT);
	put(MAPPED, 8, 8192 | GLIBC_MAPPED);
	put(THREAD, PART_BYTES - 64 - CACHE_BELOW, starts[MAIN] + 16);
	put(THREAD, PART_BYTES / 2 - CACHE_BELOW, starts[HEAP] + 0x8d0 + 16);
}

static struct older_sum listed;
static void see(void *ctx, uint64_t at, uint64_t bytes)
{
	uint64_t word;
	if (!read_memory(ctx, at - 8, &word, sizeof word) || bytes < 24 - 16)
		abort();
	listed.blocks++;
	listed.bytes += bytes;
}

static void check(const struct older_totals *t)
{
	struct older_sum classes = {0};
	for (unsigned i = 0; i < OLDER_CLASSES; i++) {
		classes.blocks += t->classes[i].blocks;
		classes.bytes += t->classes[i].bytes;
	}
	if (classes.blocks > t->used.blocks || classes.bytes > t->used.bytes)
		abort();
	char text[1000];
	older_words(t, text, sizeof text);
	older_details(t, text, sizeof text);
}

static void read_heap(bool right)
{
	const struct target_memory memory = {read_memory, NULL};
	const uint64_t pointers[] = {starts[THREAD] + PART_BYTES - 64,
				     starts[THREAD] + PART_BYTES / 2};
	static char no_name[] = "";
	struct target_mapping mappings[] = {
		{.start = starts[MAPPED],
		 .end = starts[MAPPED] + PART_BYTES,
		 .write = true,
		 .name = no_name},
		{.start = starts[HEAP],
		 .end = starts[HEAP] + PART_BYTES,
		 .write = true,
		 .name = no_name},
	};
	const struct target_maps maps = {.items = mappings, .count = 2, .capacity = 2};
	static struct target_image libc;
	struct older_heap *h;
	struct older_totals t;
	struct heft_error err;
	libc.segment_count = 2;
	libc.segments[0] = (struct target_segment){starts[BANNER], PART_BYTES, false, false};
	libc.segments[1] = (struct target_segment){starts[DATA], PART_BYTES, false, true};
	if (older_open(&h, &memory, &libc, &maps, -1, &err)) {
		if (right)
			abort();
		return;
	}
	struct older_reading r = {.limit_ns = UINT64_C(10000000000)};
	older_read(h, &r, &t);
	check(&t);
	r = (struct older_reading){.still = true,
				   .thread_pointers = pointers,
				   .thread_count = 2,
				   .limit_ns = UINT64_C(10000000000),
				   .each = see};
	memset(&listed, 0, sizeof listed);
	older_read(h, &r, &t);
	check(&t);
	if (listed.blocks > t.used.blocks || listed.bytes > t.used.bytes)
		abort();
	/* 12 blocks in each of two arenas without three, and the mapping */
	if (right && (t.used.blocks != 2 * 9 + 1 || t.unused.blocks != 2 * 3 || t.incomplete ||
		      t.used.bytes != 2 * 9 * 24 + 8192 - 16))
		abort();
	older_close(h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { RECORD = 11 };
	make_all();
	if (size < RECORD)
		read_heap(true);
	for (; size >= RECORD; data += RECORD, size -= RECORD) {
		uint16_t at;
		uint64_t value;
		memcpy(&at, data + 1, sizeof at);
		memcpy(&value, data + 3, sizeof value);
		put(data[0] % PARTS, at % (PART_BYTES - 8), value);
	}
	read_heap(false);
	return 0;
}

#include "fuzz_corpus.h"
