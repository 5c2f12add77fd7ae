/* The live blocks against a plain array: random additions, look-ups and removals
 * of blocks of every kind, those that lie in a shadow and those that do not. */
#include "record/live_blocks.h"
#include "unit_test.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES = 4000 };
static const uint64_t base_tsc = 1ull << 40;

static uint64_t rng = 7;
static uint64_t random_below(uint64_t n)
{
	rng = rng * 6364136223846793005ull + 1442695040888963407ull;
	return (rng >> 33) % n;
}

/* A heap, an arena far away, addresses that only divide by 8, and one block a region. */
static uint64_t place(unsigned i)
{
	switch (i % 4) {
	case 0: return 0x555555559000ull + i / 4 * 16ull; /* two in 32 bytes */
	case 1: return 0x7ffff0000000ull + i * 48ull;
	case 2: return 0x555555759008ull + i * 16ull;
	default: return 0x100000000000ull + ((uint64_t)i << LIVE_REGION_BITS);
	}
}

static struct live_block random_block(uint64_t addr)
{
	struct live_block b = {
		.addr = addr,
		.birth_tsc = base_tsc + (random_below(1u << 30) << LIVE_BIRTH_SHIFT),
		.size = random_below(100000) & 0xfffff,
		.slack = random_below(4000) & 0xffff,
		.site = (uint32_t)random_below(1u << 24),
		.thread = (uint32_t)random_below(300),
		.grown = random_below(2) & 1,
	};
	switch (random_below(12)) { /* what an entry does not hold */
	case 0: b.size = 1ull << BLOCK_SIZE_BITS | (random_below(1000) & 0xfff); break;
	case 1: b.slack = 0xffff; break;
	case 2: b.site = 1u << BLOCK_SITE_BITS; break;
	case 3: b.thread = LIVE_THREADS + (uint32_t)random_below(10); break;
	case 4: b.birth_tsc = base_tsc + LIVE_AGE_LIMIT + random_below(1000); break;
	case 5: b.birth_tsc = base_tsc - 1; break;
	default: break;
	}
	return b;
}

static void assert_same(const struct live_block *a, const struct live_block *b)
{
	assert_int_equal(a->addr, b->addr);
	assert_int_equal(a->birth_tsc, b->birth_tsc);
	assert_int_equal(a->size, b->size);
	assert_int_equal(a->slack, b->slack);
	assert_int_equal(a->site, b->site);
	assert_int_equal(a->thread, b->thread);
	assert_int_equal(a->grown, b->grown);
}

struct seen {
	const struct live_block *want; /* by place; addr 0: none */
	unsigned count;
};

static void see(void *ctx, const struct live_block *b)
{
	struct seen *s = ctx;
	s->count++;
	for (unsigned i = 0; i < PLACES; i++)
		if (s->want[i].addr == b->addr) {
			assert_same(b, &s->want[i]);
			return;
		}
	fail_msg("a block that is not there");
}

struct large {
	unsigned count;
	uint64_t last;
};

static void see_large(void *ctx, const struct live_block *b)
{
	struct large *large = ctx;
	assert_true(b->size >= LIVE_LARGE && b->addr > large->last);
	large->last = b->addr;
	large->count++;
}

static void count_large(void *ctx, const struct live_block *b)
{
	*(unsigned *)ctx += b->size >= LIVE_LARGE;
}

/* Those that are found by their pages' marks are those that are among all of them. */
static void assert_large_ones(struct live_blocks *l)
{
	struct large found = {0};
	unsigned want = 0;
	live_blocks_shadowed_large(l, see_large, &found);
	live_blocks_shadowed(l, count_large, &want);
	assert_int_equal(found.count, want);
}

TEST(test_random_history)
{
	static struct live_block want[PLACES];
	struct live_blocks l;
	struct live_block b;
	assert_int_equal(live_blocks_init(&l), 0);
	l.base_tsc = base_tsc;
	for (int step = 0; step < 200000; step++) {
		unsigned i = (unsigned)random_below(PLACES);
		uint64_t addr = place(i);
		memset(&b, 0, sizeof b);
		assert_int_equal(live_blocks_find(&l, addr, &b), want[i].addr != 0);
		if (want[i].addr) {
			assert_same(&b, &want[i]);
			live_blocks_remove(&l, addr);
			want[i].addr = 0;
			assert_false(live_blocks_find(&l, addr, &b));
		} else {
			want[i] = random_block(addr);
			assert_true(live_blocks_add(&l, &want[i]));
		}
		if (step % 10000 == 0)
			assert_large_ones(&l);
	}
	unsigned count = 0;
	for (unsigned i = 0; i < PLACES; i++)
		count += want[i].addr != 0;
	struct seen seen = {.want = want};
	live_blocks_all(&l, see, &seen);
	assert_int_equal(seen.count, count);
	assert_int_equal(l.region_count,
			 PLACES / 4 < LIVE_REGIONS - 2 ? PLACES / 4 + 2 : LIVE_REGIONS);
	live_blocks_fini(&l);
}

/* The smallest large block, the largest small one, and a small one where a large one was */
TEST(test_large_blocks)
{
	struct live_blocks l;
	struct large found = {0};
	struct live_block b = {.addr = 0x555555559000ull, .size = LIVE_LARGE - 1};
	assert_int_equal(live_blocks_init(&l), 0);
	assert_true(live_blocks_add(&l, &b));
	b = (struct live_block){.addr = 0x55555556a000ull, .size = LIVE_LARGE, .slack = 4000};
	assert_true(live_blocks_add(&l, &b));
	b = (struct live_block){.addr = 0x7f0000000010ull, .size = BLOCK_SIZE_MAX & 0xfffffff};
	assert_true(live_blocks_add(&l, &b));
	b = (struct live_block){.addr = 0x7f0000002000ull, .size = 16, .slack = 4000};
	assert_true(live_blocks_add(&l, &b));
	live_blocks_shadowed_large(&l, see_large, &found);
	assert_int_equal(found.count, 2);
	assert_int_equal(found.last, 0x7f0000000010ull);
	live_blocks_remove(&l, 0x55555556a000ull);
	b = (struct live_block){.addr = 0x55555556a000ull, .size = 16};
	assert_true(live_blocks_add(&l, &b));
	found = (struct large){0};
	live_blocks_shadowed_large(&l, see_large, &found);
	assert_int_equal(found.count, 1);
	live_blocks_fini(&l);
}

/* An empty entry says that there is no block, also where the table has it. */
TEST(test_an_entry_tells_of_the_table)
{
	struct live_blocks l;
	struct live_block huge = {.addr = 0x555555559010ull, .size = 1ull << 40}, b;
	assert_int_equal(live_blocks_init(&l), 0);
	assert_true(live_blocks_add(&l, &huge));
	uint64_t place = live_sixteenths(huge.addr >> 3);
	const struct live_region *region = live_region_near(&l, live_number(place));
	assert_non_null(region);
	struct live_entry *e = live_entry_in(region->shadow, place);
	assert_int_equal(e->birth, LIVE_IN_TABLE);
	assert_null(live_region_near(&l, live_number(live_sixteenths((huge.addr + 8) >> 3))));
	assert_true(live_blocks_find(&l, huge.addr, &b));
	assert_int_equal(b.size, 1ull << 40);
	live_blocks_remove(&l, huge.addr);
	assert_int_equal(e->birth, 0);
	assert_int_equal(l.table.count, 0);
	live_blocks_fini(&l);
}

/* More regions than get a shadow: garbage, or a very large program. */
TEST(test_more_regions_than_shadows)
{
	enum { REGIONS = LIVE_REGIONS + 500 };
	struct live_blocks l;
	struct live_block b;
	assert_int_equal(live_blocks_init(&l), 0);
	for (uint64_t i = 1; i <= REGIONS; i++)
		assert_true(live_blocks_add(&l, &(struct live_block){.addr = i << LIVE_REGION_BITS,
								     .size = i & 0xffff}));
	assert_int_equal(l.region_count, LIVE_REGIONS);
	assert_int_equal(l.table.count, 500);
	for (uint64_t i = 1; i <= REGIONS; i++) {
		assert_true(live_blocks_find(&l, i << LIVE_REGION_BITS, &b));
		assert_int_equal(b.size, i);
		live_blocks_remove(&l, i << LIVE_REGION_BITS);
		assert_false(live_blocks_find(&l, i << LIVE_REGION_BITS, &b));
	}
	live_blocks_fini(&l);
}

UNIT_TESTS(NULL, NULL)
