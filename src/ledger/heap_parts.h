/* Shared by the files of a look at the heap (heap_scan.h). */
#ifndef HEFT_LEDGER_HEAP_PARTS_H
#define HEFT_LEDGER_HEAP_PARTS_H

#include "ledger/heap_index.h"
#include "ledger/heap_scan.h"

/* ---- pages: which bytes are there. Fast if places ascend. */
struct heap_cursor {
	const struct ledger_pages *pages;
	size_t next;
};
/* How many bytes of [start, end) are in pages that have one of these flags. */
uint64_t heap_bytes_with(struct heap_cursor *c, uint64_t start, uint64_t end, uint32_t flags);

/* ---- memory */
enum { HEAP_WINDOW = 1 << 20 };
struct heap_window {
	const struct heap_input *in;
	struct heap_cursor cursor;
	uint8_t *bytes; /* HEAP_WINDOW of them */
	unsigned loads;
};

/* ---- what leads to what (heap_reach.c) */
struct heap_reach;
int heap_reach_new(struct heap_reach **out, const struct heap_input *in, struct heft_error *err);
void heap_reach_free(struct heap_reach *r);
/* Words that stand in a block, or in a root (HEAP_ROOT). Blocks come in order, after all roots. */
#define HEAP_ROOT UINT32_MAX
void heap_reach_words(struct heap_reach *r, uint32_t source, const uint8_t *words, size_t count);
/* Adds what is not reached to the sites, which are by number. */
int heap_reach_end(struct heap_reach *r, struct heap_site *sites, struct heft_error *err);

/* ---- which blocks are equal (heap_equal.c) */
struct heap_equal;
int heap_equal_new(struct heap_equal **out, const struct heap_input *in, struct heft_error *err);
void heap_equal_free(struct heap_equal *e);
/* The next piece of the block that goes on. A piece but the last has a multiple of 32 bytes. Pieces may be left out
 * if they were never touched. */
void heap_equal_piece(struct heap_equal *e, uint64_t offset, const uint8_t *bytes, size_t count);
/* The block is complete. */
void heap_equal_block(struct heap_equal *e, const struct heap_block *b, uint64_t resident,
		      struct heap_site *sites);
void heap_equal_end(struct heap_equal *e, struct heap_site *sites);

/* ---- free memory (heap_fragments.c) */
int heap_fragments(const struct heap_input *in, struct heap_site *sites, struct heap_look *out,
		   struct heft_error *err);

#endif
