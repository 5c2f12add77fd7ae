/* Fuzzes reading a program's heap. There is a small heap that is right (fuzz_heap.h). The input changes words of it, 11 bytes each: which part, where, what. Whatever it
 * makes of it, reading ends, and sums are those of the blocks. */
#include "attach/older_blocks.h"
#include "fuzz_heap.h"
#include "hosted/error.h"

#include <stdlib.h>
#include <string.h>

static bool read_memory(void *context, uint64_t at, void *to, size_t bytes)
{
	(void)context;
	for (unsigned i = 0; i < PARTS; i++)
		if (at >= fuzz_heap_starts[i] && at - fuzz_heap_starts[i] <= PART_BYTES &&
		    bytes <= PART_BYTES - (at - fuzz_heap_starts[i])) {
			memcpy(to, fuzz_heap_parts[i] + (at - fuzz_heap_starts[i]), bytes);
			return true;
		}
	return false;
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
	const uint64_t pointers[] = {fuzz_heap_starts[THREAD] + PART_BYTES - 64,
				     fuzz_heap_starts[THREAD] + PART_BYTES / 2};
	static char no_name[] = "";
	struct target_mapping mappings[] = {
		{.start = fuzz_heap_starts[MAPPED],
		 .end = fuzz_heap_starts[MAPPED] + PART_BYTES,
		 .write = true,
		 .name = no_name},
		{.start = fuzz_heap_starts[HEAP],
		 .end = fuzz_heap_starts[HEAP] + PART_BYTES,
		 .write = true,
		 .name = no_name},
	};
	const struct target_maps maps = {.items = mappings, .count = 2, .capacity = 2};
	static struct target_image libc;
	struct older_heap *h;
	struct older_totals t;
	struct heft_error err;
	fuzz_heap_libc(&libc);
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
	fuzz_heap_make();
	if (size < RECORD)
		read_heap(true);
	for (; size >= RECORD; data += RECORD, size -= RECORD) {
		uint16_t at;
		uint64_t value;
		memcpy(&at, data + 1, sizeof at);
		memcpy(&value, data + 3, sizeof value);
		fuzz_heap_put(data[0] % PARTS, at % (PART_BYTES - 8), value);
	}
	read_heap(false);
	return 0;
}

#include "fuzz_corpus.h"
