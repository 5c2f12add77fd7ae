/* The blocks that are live in one process, by address.
 *
 * They lie in a shadow of the heap: an address has its entry at the same place
 * of its region's shadow, 16 bytes for 32 bytes, so finding one is a few
 * instructions without a hash or a probe, and neighbours in the heap, which
 * programs tend to use together, are neighbours here. Shadows are sparse
 * mappings: they cost memory where blocks begin (or once did), at most half as
 * much as the heap itself.
 *
 * What has no place there is in a table (live_table.h): addresses not divisible
 * by 16; sizes, threads and sites beyond what an entry holds; two blocks in the
 * same 32 bytes (glibc has none so small); and everything in regions beyond the
 * first LIVE_REGIONS. Where there is an entry it says so: an empty one always
 * means that no block begins in its 32 bytes. */
#ifndef HEFT_RECORD_LIVE_BLOCKS_H
#define HEFT_RECORD_LIVE_BLOCKS_H

#include "base/block_word.h"
#include "record/live_table.h"

enum {
	LIVE_REGION_BITS = 26, /* 64 MiB, glibc's largest arena */
	LIVE_REGIONS = 512,    /* with a shadow: 32 GiB */
	LIVE_NEAR = 64,        /* found at once */
	LIVE_THREADS = 0x7ffe,
	LIVE_BIRTH_SHIFT = 4, /* births are kept to 16 cycles */
	LIVE_UPPER = 2,
	LIVE_SPECIAL = 1,
	LIVE_LARGE = 64 << 10, /* bytes of a block that may have a mapping of its own */
};
/* What the mark of a page of a shadow says (live_entry_touched) */
enum { LIVE_HAD_BLOCK = 1, LIVE_HAD_LARGE = 2 };
#define LIVE_IN_TABLE ((uint64_t)LIVE_SPECIAL)
#define LIVE_AGE_LIMIT (1ull << (47 + LIVE_BIRTH_SHIFT)) /* cycles of recording: 10 days */

struct live_entry {
	/* birth >> LIVE_BIRTH_SHIFT : 47 | thread + 1 : 15 | LIVE_UPPER : 1 | LIVE_SPECIAL : 1. 0: no
	 * block. Births are in cycles since base_tsc; upper: it begins in the upper half of its 32
	 * bytes. Special: LIVE_IN_TABLE and nothing else, or a block last sized by a realloc. */
	uint64_t birth;
	/* As in a brief event (base/block_word.h). LIVE_IN_TABLE: how many. */
	uint64_t block;
};

struct live_region {
	uint64_t number;       /* address >> LIVE_REGION_BITS */
	unsigned char *shadow; /* NULL: none to be had */
};

struct live_blocks {
	struct live_region near[LIVE_NEAR]; /* with a shadow, by the low bits of its number */
	struct live_region *regions;        /* all of them */
	uint32_t region_count;
	uint64_t base_tsc;
	struct live_table table;
};

int live_blocks_init(struct live_blocks *l);
void live_blocks_fini(struct live_blocks *l);

/* The general way to them, for what is rare. */
bool live_blocks_find(struct live_blocks *l, uint64_t addr, struct live_block *block);
/* There is one at the address. */
void live_blocks_remove(struct live_blocks *l, uint64_t addr);
/* There is none at the address. false: no memory. */
bool live_blocks_add(struct live_blocks *l, const struct live_block *block);
typedef void live_block_fn(void *ctx, const struct live_block *block);
/* Calls `each` for the blocks in shadows, in order of address. */
void live_blocks_shadowed(struct live_blocks *l, live_block_fn *each, void *ctx);
/* The same for those of LIVE_LARGE and more, without a look at all the others. */
void live_blocks_shadowed_large(struct live_blocks *l, live_block_fn *each, void *ctx);
/* And for those of the table. */
void live_blocks_tabled(struct live_blocks *l, live_block_fn *each, void *ctx);
/* For all: first those, then these. */
void live_blocks_all(struct live_blocks *l, live_block_fn *each, void *ctx);

/* Looks for the region among all; makes its shadow if `make`. NULL: there is none. */
unsigned char *live_blocks_shadow(struct live_blocks *l, uint64_t addr, bool make);

#define LIVE_SHADOW_BYTES ((uintptr_t)1 << (LIVE_REGION_BITS - 1))

static inline struct live_entry *live_entry_in(unsigned char *shadow, uint64_t sixteenths)
{
	return (struct live_entry *)(void *)(shadow +
					     ((sixteenths >> 1 << 4) & (LIVE_SHADOW_BYTES - 1)));
}

/* Its place in the shadow, or NULL: then it can only be in the table. */
static inline struct live_entry *live_entry_at(struct live_blocks *l, uint64_t addr, bool make)
{
	unsigned char *shadow = addr & 15 ? NULL : live_blocks_shadow(l, addr, make);
	return shadow ? live_entry_in(shadow, addr >> 4) : NULL;
}

/* From an address in eighths, as records have it. One that is not divisible by 16 leaves its odd bit on
 * top, so that its number is no region's, and no test is needed. */
static inline uint64_t live_sixteenths(uint64_t eighths)
{
	return eighths >> 1 | eighths << 63;
}
static inline uint64_t live_number(uint64_t sixteenths)
{
	return sixteenths >> (LIVE_REGION_BITS - 4);
}

/* Its region, if that is near; else NULL. */
static inline const struct live_region *live_region_near(const struct live_blocks *l,
							 uint64_t number)
{
	const struct live_region *near = &l->near[number % LIVE_NEAR];
	return __builtin_expect(near->number == number, 1) ? near : NULL;
}

enum { LIVE_PAGE_BITS = 12 };
/* Every page of a shadow that has had a block is marked, behind the shadow, and every one that has had a large one. */
static inline void live_entry_touched(struct live_entry *e, unsigned char mark)
{
	uintptr_t base = (uintptr_t)e & ~(LIVE_SHADOW_BYTES - 1);
	uintptr_t page = ((uintptr_t)e - base) >> LIVE_PAGE_BITS;
	((unsigned char *)base)[LIVE_SHADOW_BYTES + page] |= mark;
}
static inline bool live_is_large(uint64_t block)
{
	return block & block_word(0, BLOCK_SIZE_MAX & ~(uint64_t)(LIVE_LARGE - 1), 0);
}
/* LIVE_UPPER or 0 */
static inline uint64_t live_upper(uint64_t eighths)
{
	return eighths & LIVE_UPPER;
}
/* upper: live_upper; cycles: since base_tsc, below LIVE_AGE_LIMIT; thread < LIVE_THREADS */
static inline void live_entry_set(struct live_entry *e, uint64_t upper, uint64_t cycles,
				  uint32_t thread, uint64_t block)
{
	if (__builtin_expect(!e->block, 0)) /* what was there once leaves its block behind */
		live_entry_touched(e, LIVE_HAD_BLOCK);
	if (__builtin_expect(live_is_large(block), 0))
		live_entry_touched(e, LIVE_HAD_LARGE);
	e->birth = cycles >> LIVE_BIRTH_SHIFT << 17 | (uint64_t)(thread + 1) << 2 | upper;
	e->block = block;
}
/* Whether a birth that is not 0 is that of an ordinary block with this address. */
static inline bool live_entry_is(uint64_t birth, uint64_t upper)
{
	return ((birth ^ upper) & (LIVE_UPPER | LIVE_SPECIAL)) == 0;
}
static inline uint64_t live_entry_birth(uint64_t birth)
{
	return birth >> 17 << LIVE_BIRTH_SHIFT;
}
static inline uint32_t live_entry_thread(uint64_t birth)
{
	return (uint32_t)(birth >> 2 & 0x7fff) - 1;
}

#endif
