/* From an address to the live block that it is in, in one or two memory accesses. */
#ifndef HEFT_LEDGER_HEAP_INDEX_H
#define HEFT_LEDGER_HEAP_INDEX_H

#include "ledger/heap_scan.h"

enum {
	HEAP_CELL_BITS = 9,    /* a cell has a bit for every 8 bytes */
	HEAP_REGION_BITS = 26, /* 64 MiB */
	HEAP_ADDRESS_BITS = 47,
};
#define HEAP_NO_BLOCK UINT32_MAX

struct heap_cell {
	uint64_t starts;  /* a block begins here */
	uint64_t covered; /* a block is here */
	uint32_t before;  /* blocks that begin before the cell */
};

struct heap_region {
	struct heap_cell *cells;            /* NULL: only large blocks are here */
	uint32_t first_large, beyond_large; /* those that may be here */
};

struct heap_index {
	const struct heap_block *blocks;
	uint64_t low, span;          /* all blocks are in [low, low + span) */
	uint32_t *region_of;         /* by address; 0: none */
	struct heap_region *regions; /* the first is not used */
	size_t region_count, region_capacity;
	uint32_t *large; /* blocks that have no cells: too many would be needed */
	size_t large_count, large_capacity;
};

int heap_index_init(struct heap_index *x, const struct heap_block *blocks, size_t count,
		    struct heft_error *err);
void heap_index_fini(struct heap_index *x);
/* The rare way. */
uint32_t heap_index_large(const struct heap_index *x, const struct heap_region *r, uint64_t at);

/* Whether it can be in a block at all */
static inline bool heap_index_may(const struct heap_index *x, uint64_t at)
{
	return at - x->low < x->span;
}
static inline const struct heap_region *heap_index_region(const struct heap_index *x, uint64_t at)
{
	return &x->regions[x->region_of[at >> HEAP_REGION_BITS]];
}
static inline const struct heap_cell *heap_index_cell(const struct heap_region *r, uint64_t at)
{
	return r->cells +
	       (at >> HEAP_CELL_BITS & ((1u << (HEAP_REGION_BITS - HEAP_CELL_BITS)) - 1));
}
/* The block that an address is in, if heap_index_may. */
static inline uint32_t heap_index_find(const struct heap_index *x, uint64_t at)
{
	const struct heap_region *r = heap_index_region(x, at);
	if (r->cells) {
		const struct heap_cell *c = heap_index_cell(r, at);
		unsigned bit = at >> 3 & 63;
		if (c->covered >> bit & 1)
			return c->before + (uint32_t)__builtin_popcountll(c->starts << (63 - bit)) -
			       1;
	}
	return r->first_large < r->beyond_large ? heap_index_large(x, r, at) : HEAP_NO_BLOCK;
}

#endif
