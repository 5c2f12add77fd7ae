/* Shadows and the table behind them (see live_blocks.h).
 *
 * A shadow is aligned to its own size, so that an entry's address alone tells its
 * page's mark, which lies behind the shadow. It is never unmapped before its
 * process is done: a program that once had blocks there will have them again.
 * The addresses come from the program and may be garbage: then they spread over
 * more regions than get a shadow, and cost what the table costs.
 *
 * Invariant: near[] only holds what regions[] holds; regions[] is a hash table by
 * number, never more than half full. */
#include "record/live_blocks.h"

#include "hosted/error.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SLOTS = 2 * LIVE_REGIONS, PAGES = LIVE_SHADOW_BYTES >> LIVE_PAGE_BITS };
#define NO_NUMBER UINT64_MAX

int live_blocks_init(struct live_blocks *l)
{
	memset(l, 0, sizeof *l);
	l->regions = malloc(SLOTS * sizeof *l->regions);
	if (!l->regions)
		return HEFT_ENOMEM;
	for (unsigned i = 0; i < SLOTS; i++)
		l->regions[i] = (struct live_region){.number = NO_NUMBER};
	for (unsigned i = 0; i < LIVE_NEAR; i++)
		l->near[i] = l->regions[0];
	int rc = live_table_init(&l->table);
	if (rc)
		free(l->regions);
	return rc;
}

void live_blocks_fini(struct live_blocks *l)
{
	for (unsigned i = 0; l->regions && i < SLOTS; i++)
		if (l->regions[i].shadow)
			munmap(l->regions[i].shadow, LIVE_SHADOW_BYTES + PAGES);
	free(l->regions);
	live_table_fini(&l->table);
	memset(l, 0, sizeof *l);
}

/* Maps twice as much and gives back what lies outside of the aligned part. */
static unsigned char *new_shadow(void)
{
	size_t want = LIVE_SHADOW_BYTES + PAGES, all = want + LIVE_SHADOW_BYTES;
	unsigned char *p = mmap(NULL, all, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	unsigned char *at = (unsigned char *)(((uintptr_t)p + LIVE_SHADOW_BYTES - 1) &
					      ~(LIVE_SHADOW_BYTES - 1));
	if (at > p)
		munmap(p, (size_t)(at - p));
	if (at + want < p + all)
		munmap(at + want, (size_t)(p + all - at) - want);
	madvise(at, want, MADV_NOHUGEPAGE); /* sparse */
	return at;
}

unsigned char *live_blocks_shadow(struct live_blocks *l, uint64_t addr, bool make)
{
	uint64_t number = addr >> LIVE_REGION_BITS;
	uint32_t i = (uint32_t)(number * 0x9e3779b97f4a7c15ull >> 40) % SLOTS;
	while (l->regions[i].number != NO_NUMBER && l->regions[i].number != number)
		i = (i + 1) % SLOTS;
	struct live_region *r = &l->regions[i];
	if (r->number == NO_NUMBER) {
		if (!make || l->region_count == LIVE_REGIONS)
			return NULL;
		*r = (struct live_region){.number = number, .shadow = new_shadow()};
		l->region_count++;
	}
	if (r->shadow)
		l->near[number % LIVE_NEAR] = *r;
	return r->shadow;
}

/* lower: the address of the entry's 32 bytes */
static struct live_block unpacked(const struct live_blocks *l, uint64_t lower,
				  const struct live_entry *e)
{
	uint64_t b = e->block;
	return (struct live_block){
		.addr = lower + (e->birth & LIVE_UPPER ? 16 : 0),
		.birth_tsc = l->base_tsc + live_entry_birth(e->birth),
		.size = block_size(b),
		.grown = e->birth & LIVE_SPECIAL,
		.slack = (uint16_t)block_slack(b),
		.site = block_site(b),
		.thread = live_entry_thread(e->birth),
	};
}

static bool fits_entry(const struct live_blocks *l, const struct live_block *b)
{
	return block_fits(b->site, b->size, b->slack) && b->thread < LIVE_THREADS &&
	       b->birth_tsc - l->base_tsc < LIVE_AGE_LIMIT;
}

/* Whether this entry, if there is one, leaves it to the table to say what is at addr. */
static bool in_table(const struct live_entry *e)
{
	return !e || e->birth == LIVE_IN_TABLE;
}

static bool has_block(const struct live_entry *e, uint64_t addr)
{
	return e->birth && ((e->birth ^ live_upper(addr >> 3)) & LIVE_UPPER) == 0;
}

bool live_blocks_find(struct live_blocks *l, uint64_t addr, struct live_block *block)
{
	const struct live_entry *e = live_entry_at(l, addr, false);
	if (!in_table(e)) {
		if (!has_block(e, addr))
			return false;
		*block = unpacked(l, addr & ~31ull, e);
		return true;
	}
	const struct live_block *b = l->table.count ? live_table_find(&l->table, addr) : NULL;
	if (b)
		*block = *b;
	return b;
}

void live_blocks_remove(struct live_blocks *l, uint64_t addr)
{
	struct live_entry *e = live_entry_at(l, addr, false);
	if (!in_table(e)) {
		e->birth = 0;
		return;
	}
	live_table_remove(&l->table, live_table_find(&l->table, addr));
	if (e && --e->block == 0)
		e->birth = 0;
}

static bool add_to_table(struct live_blocks *l, struct live_entry *e, const struct live_block *b)
{
	if (live_table_reserve(&l->table, 2))
		return false;
	if (e && e->birth != LIVE_IN_TABLE) {
		/* The block in the other half moves there too. */
		if (e->birth) {
			struct live_block other = unpacked(l, b->addr & ~31ull, e);
			live_table_add(&l->table, &other);
		}
		live_entry_touched(e, LIVE_HAD_BLOCK);
		e->block = e->birth != 0;
		e->birth = LIVE_IN_TABLE;
	}
	if (e)
		e->block++;
	live_table_add(&l->table, b);
	return true;
}

bool live_blocks_add(struct live_blocks *l, const struct live_block *b)
{
	struct live_entry *e = live_entry_at(l, b->addr, true);
	if (!e || e->birth || !fits_entry(l, b))
		return add_to_table(l, e, b);
	uint64_t block = block_word(b->site, b->size, b->slack);
	live_entry_set(e, live_upper(b->addr >> 3), b->birth_tsc - l->base_tsc, b->thread, block);
	e->birth |= b->grown;
	return true;
}

static void all_of_page(struct live_blocks *l, const struct live_region *r, unsigned page,
			live_block_fn *each, void *ctx)
{
	unsigned per_page = (1u << LIVE_PAGE_BITS) / sizeof(struct live_entry);
	const struct live_entry *e = (const struct live_entry *)(const void *)(r->shadow) +
				     (size_t)page * per_page;
	uint64_t addr = r->number << LIVE_REGION_BITS | (uint64_t)page << (LIVE_PAGE_BITS + 1);
	for (unsigned i = 0; i < per_page; i++)
		if (e[i].birth && e[i].birth != LIVE_IN_TABLE) {
			struct live_block b = unpacked(l, addr + i * 32ull, &e[i]);
			each(ctx, &b);
		}
}

static int by_number(const void *a, const void *b)
{
	const struct live_region *x = a, *y = b;
	return (x->number > y->number) - (x->number < y->number);
}

/* Calls `each` for the blocks in pages that have the mark, in order of address. */
static void all_of_marked(struct live_blocks *l, unsigned char mark, live_block_fn *each, void *ctx)
{
	struct live_region in_order[LIVE_REGIONS];
	unsigned count = 0;
	for (unsigned i = 0; l->regions && i < SLOTS && count < LIVE_REGIONS; i++)
		if (l->regions[i].number != NO_NUMBER && l->regions[i].shadow)
			in_order[count++] = l->regions[i];
	qsort(in_order, count, sizeof *in_order, by_number);
	for (unsigned i = 0; i < count; i++)
		for (unsigned page = 0; page < PAGES; page++)
			if (in_order[i].shadow[LIVE_SHADOW_BYTES + page] & mark)
				all_of_page(l, &in_order[i], page, each, ctx);
}

void live_blocks_shadowed(struct live_blocks *l, live_block_fn *each, void *ctx)
{
	all_of_marked(l, LIVE_HAD_BLOCK, each, ctx);
}

struct only_large {
	live_block_fn *each;
	void *ctx;
};

static void if_large(void *ctx, const struct live_block *b)
{
	const struct only_large *only = ctx;
	if (b->size >= LIVE_LARGE)
		only->each(only->ctx, b);
}

void live_blocks_shadowed_large(struct live_blocks *l, live_block_fn *each, void *ctx)
{
	all_of_marked(l, LIVE_HAD_LARGE, if_large, &(struct only_large){each, ctx});
}

void live_blocks_tabled(struct live_blocks *l, live_block_fn *each, void *ctx)
{
	for (uint64_t i = 0; l->table.slots && i < 1ull << l->table.bits; i++)
		if (l->table.slots[i].addr)
			each(ctx, &l->table.slots[i]);
}

void live_blocks_all(struct live_blocks *l, live_block_fn *each, void *ctx)
{
	live_blocks_shadowed(l, each, ctx);
	live_blocks_tabled(l, each, ctx);
}
