/* Shared by the files that read older blocks: what is known of the heap between and during readings. */
#ifndef HEFT_ATTACH_OLDER_PARTS_H
#define HEFT_ATTACH_OLDER_PARTS_H

#include "attach/older_blocks.h"

enum {
	OLDER_WINDOW = 256 << 10,
	OLDER_MAPPED_MOST = 1 << 20,
	OLDER_HEAPS_MOST = 4096, /* of one arena: 256 GiB */
};

struct older_mapped {
	uint64_t at, bytes;   /* the chunk, and from there to the end of its mapping */
	uint64_t start, span; /* its mapping, which begins earlier if it is aligned */
};

/* What a part of the walk has found; it can be taken back. */
struct older_sums {
	struct older_sum used, unused, classes[OLDER_CLASSES];
	uint64_t top_bytes;
	struct ledger_bytes kinds[OLDER_KINDS];
};

struct older_heap {
	struct glibc_heap glibc;
	const struct target_maps *maps;
	int pages_fd;                       /* /proc/PID/pagemap, or -1 */
	VECTOR(struct older_mapped) mapped; /* found by the last reading that looked for them */
	VECTOR(struct older_block) extents; /* of arenas, if the reading measures */
	VECTOR(uint64_t) fast; /* chunks in fast bins of the arena, in order of address */
	/* Of the reading that goes on */
	const struct older_reading *reading;
	struct older_sums sums;
	uint64_t until_ns;
	bool late, searched;
	bool in_main;    /* the arena that is read is the main one */
	bool all_caches; /* the caches are those of all threads */
	bool guessed;    /* something could be a cache or a block of zeros */
	size_t cache_count;
	uint64_t key; /* marks chunks in caches; 0: not known */
	uint64_t caches[GLIBC_THREADS_MOST];
	uint64_t arenas[GLIBC_ARENAS_MOST]; /* those that were read: a list may lead back */
	uint64_t heaps[OLDER_HEAPS_MOST];   /* the same of one arena */
	uint64_t window_at;
	size_t window_filled, window_bytes;
	unsigned refills;
	uint8_t window[OLDER_WINDOW];
};

void older_count(struct older_heap *h, uint64_t at, uint64_t bytes);
bool older_late(struct older_heap *h);
/* Counts blocks that have mappings of their own. False: not all of them were found. */
bool older_read_mapped(struct older_heap *h, struct older_totals *t);

#endif
