/* Looks at the live blocks of a process and at what they hold, while the process stands still (hosted/heap_look.h has
 * the results). Where blocks, roots and pages come from is the caller's matter. */
#ifndef HEFT_LEDGER_HEAP_SCAN_H
#define HEFT_LEDGER_HEAP_SCAN_H

#include "hosted/heap_look.h"
#include "ledger/ledger_pages.h"

struct heft_error;

#define HEAP_NO_SITE UINT32_MAX

struct heap_block {
	uint64_t at, bytes; /* bytes: as requested */
	uint32_t slack;     /* usable bytes beyond them */
	uint32_t site;      /* HEAP_NO_SITE: in use, but it is not known where it was made */
};
struct heap_range {
	uint64_t start, end;
};

/* What the allocator holds without a block in it. Of glibc: from the size word of a chunk to that of the next. */
enum heap_free_kind {
	HEAP_FREE,        /* it would merge with free neighbours: in bins, also fast ones */
	HEAP_FREE_CACHED, /* it would not: in a thread's cache */
	HEAP_FREE_TOP,    /* the end of the main arena, which malloc_trim shortens */
	HEAP_FREE_END,    /* the end of another arena, which it does not */
};
struct heap_free {
	uint64_t at, bytes;
	enum heap_free_kind kind;
};

struct heap_input {
	const struct heap_block *blocks; /* in order of address; they do not overlap */
	size_t block_count;
	uint32_t site_count;            /* sites of blocks are below it */
	const struct heap_range *roots; /* where pointers are looked for beside blocks */
	size_t root_count;
	const uint64_t *registers; /* the same: words, not places */
	size_t register_count;
	const struct ledger_pages *pages;
	/* Memory of the process. Asked for what is in memory or swapped out, and for nothing else: reading a page that
	 * was never touched would make one. False: it cannot be read. */
	bool (*read)(void *ctx, uint64_t at, void *to, size_t bytes);
	void (*step)(void *ctx);      /* called now and then; or NULL */
	void *ctx;                    /* of both */
	const struct heap_free *free; /* in order of address */
	size_t free_count;
	bool free_known;       /* false: what is in a page beside live blocks counts as free */
	uint32_t header_bytes; /* that stand before each block: 8 with glibc */
	uint32_t parts;        /* what to look at: enum heap_look_part */
};

/* Fills in everything but pid and time. HEFT_ENOTFOUND: memory could not be read, the process is gone. */
int heap_scan(const struct heap_input *in, struct heap_look *out, struct heft_error *err);

#endif
