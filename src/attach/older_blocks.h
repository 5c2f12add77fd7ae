/* What a program had allocated before heft came: its heap, read from outside. Blocks are those of glibc's malloc that
 * are in use; bytes are usable bytes, since nobody knows what was asked for. */
#ifndef HEFT_ATTACH_OLDER_BLOCKS_H
#define HEFT_ATTACH_OLDER_BLOCKS_H

#include "attach/glibc_heap.h"
#include "attach/target_maps.h"
#include "hosted/ledger.h"

enum {
	OLDER_CLASSES = 16, /* up to 32, 64, 128 ... bytes; the last one has all that is larger */
	OLDER_ARENAS = 16,  /* whose own sums are kept: the largest ones */
};

/* A block in use, in a list of them */
struct older_block {
	uint64_t at, bytes;
};

struct older_sum {
	uint64_t blocks, bytes;
};
/* What the memory of arenas is, to the byte; what is left is arenas' own: their heads and fences. */
enum older_kind {
	OLDER_IN_USE,  /* usable bytes of blocks */
	OLDER_HEADERS, /* the word before each block in use */
	OLDER_IN_BINS, /* free chunks with their headers, as all that follows */
	OLDER_IN_FAST_BINS,
	OLDER_IN_CACHES,    /* of threads */
	OLDER_CACHE_TABLES, /* the caches themselves */
	OLDER_TOP,          /* not given out yet */
	OLDER_KINDS,
};
struct older_arena {
	uint64_t at;
	struct older_sum used, unused; /* unused: in bins and threads' caches */
	uint64_t top_bytes;            /* not given out yet */
	uint64_t system_bytes;         /* what the arena has from the system */
};
struct older_totals {
	struct older_sum used;   /* all that is in use */
	struct older_sum mapped; /* of that: blocks with mappings of their own */
	struct older_sum unused; /* in bins and threads' caches */
	uint64_t top_bytes, system_bytes;
	struct older_sum classes[OLDER_CLASSES];
	struct older_arena arenas[OLDER_ARENAS]; /* the one that has most first */
	uint32_t arena_count;                    /* of all */
	bool incomplete; /* damaged, changed all the time, or out of time: there is more */
	bool exact;      /* nothing ran meanwhile, and no thread was in the allocator */
	struct ledger_bytes kinds[OLDER_KINDS]; /* if the reading had `measure` */
	uint64_t took_ns;
};

struct older_heap;

/* How blocks are to be read. */
struct older_reading {
	bool still;                      /* nothing runs: what is wrong now stays wrong */
	const uint64_t *thread_pointers; /* of all threads, 0: of one that did not stop; or NULL */
	size_t thread_count;
	uint64_t limit_ns;
	bool only_extents; /* where arenas and large blocks are, and no more: chunks are not looked at */
	/* Blocks that may have mappings of their own, in order of address: others are not looked for. NULL: they are. */
	const struct older_block *large;
	size_t large_count;
	/* Called for each block in use, in no order; or NULL. Then `still` must be true. */
	void (*each)(void *ctx, uint64_t at, uint64_t bytes);
	/* Called for what is free in arenas, from the size word of a chunk to that of the next; or NULL. main: of the main
	 * arena. Most calls are in order of address. */
	void (*each_free)(void *ctx, uint64_t at, uint64_t bytes, enum older_kind kind, bool main);
	/* Adds up how much of [start, end) is in memory; or NULL. Most calls are in order of address. */
	void (*measure)(void *ctx, uint64_t start, uint64_t end, struct ledger_bytes *sum);
	void *ctx; /* of all three */
};

/* libc: the module that has malloc. pages_fd: /proc/PID/pagemap, or -1; it is closed by older_close. HEFT_EREFUSED: it is not one that heft knows, in words. */
int older_open(struct older_heap **out, const struct target_memory *memory,
	       const struct target_image *libc, const struct target_maps *maps, int pages_fd,
	       struct heft_error *err);
/* NULL is allowed. */
void older_close(struct older_heap *h);
/* Allocates nothing if r->still and neither r->each nor r->measure is there, but for what was found to be in fast bins. */
void older_read(struct older_heap *h, const struct older_reading *r, struct older_totals *t);
/* The main arena itself, in libc's data */
struct older_block older_main_arena(const struct older_heap *h);
/* The memory of arenas, after a reading that had `measure`; false: there are no more. */
bool older_extent(const struct older_heap *h, size_t i, struct older_block *extent);
/* The mappings of large blocks that the last reading found; false: there are no more. */
bool older_large(const struct older_heap *h, size_t i, struct older_block *mapping);
/* "before: about 35.1 MiB in 40,164 blocks in 9 arenas (12 % free)" */
void older_words(const struct older_totals *t, char *text, size_t size);
/* The same by size class and by arena; 800 bytes hold all of it. "": nothing is known. */
void older_details(const struct older_totals *t, char *text, size_t size);

#endif
