/* A look at the heap: reachability, untouched pages, equal blocks and fragmentation, on memory made up here. */
#include "unit_test.h"

#include "hosted/error.h"
#include "hosted/monotonic.h"
#include "ledger/heap_scan.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { P = LEDGER_PAGE, PAGES = 1024, SITES = 8 };
#define HEAP UINT64_C(0x555500000000)
#define DATA UINT64_C(0x400000)

/* One stretch of memory for the heap, one for roots */
struct world {
	uint8_t heap[PAGES * P], data[P];
	struct heap_block blocks[256];
	struct heap_range roots[4];
	struct heap_free free[16];
	uint64_t registers[2];
	struct ledger_pages pages;
	struct heap_input in;
	struct heap_look look;
	bool read_untouched; /* what must not happen */
};
static struct world w;

static bool is_there(uint64_t at)
{
	for (size_t i = 0; i < w.pages.count; i++)
		if (at >= w.pages.items[i].start && at < w.pages.items[i].end)
			return true;
	return false;
}

static bool read_world(void *ctx, uint64_t at, void *to, size_t bytes)
{
	(void)ctx;
	for (uint64_t page = at / P * P; page < at + bytes; page += P)
		w.read_untouched |= !is_there(page);
	if (at >= HEAP && at + bytes <= HEAP + sizeof w.heap)
		memcpy(to, w.heap + (at - HEAP), bytes);
	else if (at >= DATA && at + bytes <= DATA + sizeof w.data)
		memcpy(to, w.data + (at - DATA), bytes);
	else
		return false;
	return true;
}

static void add_pages(uint64_t start, uint64_t pages, uint32_t flags)
{
	assert_true(vector_push(&w.pages, (struct ledger_run){start, start + pages * P, flags}));
}

static int begin(void **state)
{
	(void)state;
	memset(&w, 0, sizeof w);
	w.pages.fd = -1;
	w.in = (struct heap_input){.blocks = w.blocks,
				   .site_count = SITES,
				   .roots = w.roots,
				   .registers = w.registers,
				   .free = w.free,
				   .free_known = true,
				   .header_bytes = 8,
				   .pages = &w.pages,
				   .read = read_world,
				   .parts = HEAP_REACHABLE | HEAP_TOUCHED | HEAP_EQUAL |
					    HEAP_FRAGMENTED};
	add_pages(DATA, 1, LEDGER_IN_MEMORY | LEDGER_OF_FILE);
	w.roots[0] = (struct heap_range){DATA, DATA + P};
	w.in.root_count = 1;
	return 0;
}

static int end(void **state)
{
	(void)state;
	heap_look_fini(&w.look);
	vector_free(&w.pages);
	return 0;
}

/* Returns its number. */
static size_t add_block(uint64_t offset, uint64_t bytes, uint32_t site)
{
	w.blocks[w.in.block_count] = (struct heap_block){HEAP + offset, bytes, 0, site};
	return w.in.block_count++;
}

static void store(size_t block, uint64_t offset, uint64_t value)
{
	memcpy(w.heap + (w.blocks[block].at - HEAP) + offset, &value, sizeof value);
}
static void store_root(uint64_t offset, uint64_t value)
{
	memcpy(w.data + offset, &value, sizeof value);
}

static const struct heap_site *site(uint32_t number)
{
	static const struct heap_site none;
	for (size_t i = 0; i < w.look.count; i++)
		if (w.look.items[i].site == number)
			return &w.look.items[i];
	return &none;
}

static void scan(void)
{
	struct heft_error err = {0};
	if (w.pages.count == 1)
		add_pages(HEAP, PAGES, LEDGER_IN_MEMORY);
	assert_int_equal(heap_scan(&w.in, &w.look, &err), 0);
	assert_false(w.read_untouched);
}

static void expect_lost(uint32_t number, uint64_t direct, uint64_t indirect, uint64_t held)
{
	assert_int_equal(site(number)->direct_blocks, direct);
	assert_int_equal(site(number)->indirect_blocks, indirect);
	assert_int_equal(site(number)->held_blocks, held);
}

/* ---- reachability */

TEST_WITH(a_block_is_reached_over_others, begin, end)
{
	size_t a = add_block(0x10, 64, 1), b = add_block(0x100, 64, 2), c = add_block(0x400, 24, 3);
	size_t lost = add_block(0x1000, 100, 4);
	store_root(24, w.blocks[c].at);
	store(c, 16, w.blocks[a].at + 63); /* inside, and back to lower memory */
	store(a, 0, w.blocks[b].at);
	store(lost, 8, w.blocks[a].at);
	scan();
	expect_lost(1, 0, 0, 0);
	expect_lost(2, 0, 0, 0);
	expect_lost(3, 0, 0, 0);
	expect_lost(4, 1, 0, 0);
	assert_int_equal(site(4)->direct_bytes, 100);
	assert_int_equal(w.look.blocks, 4);
	assert_int_equal(w.look.bytes, 64 + 64 + 24 + 100);
}

TEST_WITH(what_a_lost_block_leads_to_is_indirect, begin, end)
{
	/* 1 leads to 2 and 3, 3 leads to 2; 4 is another one that leads to nothing. */
	size_t list = add_block(0x10, 32, 1), x = add_block(0x40, 48, 2),
	       y = add_block(0x80, 80, 3);
	add_block(0x100, 16, 4);
	store(list, 0, w.blocks[x].at);
	store(list, 8, w.blocks[y].at + 40);
	store(y, 0, w.blocks[x].at);
	scan();
	expect_lost(1, 1, 0, 2);
	expect_lost(2, 0, 1, 0);
	expect_lost(3, 0, 1, 0);
	expect_lost(4, 1, 0, 0);
	assert_int_equal(site(1)->direct_bytes, 32);
	assert_int_equal(site(1)->held_bytes, 48 + 80);
	assert_int_equal(site(3)->indirect_bytes, 80);
}

TEST_WITH(one_block_of_a_ring_is_direct, begin, end)
{
	/* a leads to b and b to a; c leads into the ring d, e, which comes before it */
	size_t a = add_block(0x10, 32, 1), b = add_block(0x40, 32, 2);
	size_t d = add_block(0x80, 32, 3), e = add_block(0xc0, 32, 4), c = add_block(0x100, 32, 5);
	size_t self = add_block(0x140, 32, 6);
	store(a, 0, w.blocks[b].at);
	store(b, 0, w.blocks[a].at);
	store(d, 0, w.blocks[e].at);
	store(e, 0, w.blocks[d].at);
	store(c, 0, w.blocks[e].at);
	store(self, 8, w.blocks[self].at);
	scan();
	expect_lost(1, 1, 0, 1);
	expect_lost(2, 0, 1, 0);
	expect_lost(3, 0, 1, 0);
	expect_lost(4, 0, 1, 0);
	expect_lost(5, 1, 0, 2);
	expect_lost(6, 1, 0, 0);
}

TEST_WITH(a_ring_that_another_leads_to_is_no_longer_direct, begin, end)
{
	/* Two rings: c, d lead to a, b. a, b are found first. */
	size_t a = add_block(0x10, 32, 1), b = add_block(0x40, 32, 2);
	size_t c = add_block(0x80, 32, 3), d = add_block(0xc0, 32, 4);
	store(a, 0, w.blocks[b].at);
	store(b, 0, w.blocks[a].at);
	store(c, 0, w.blocks[d].at);
	store(d, 0, w.blocks[c].at);
	store(d, 8, w.blocks[a].at);
	scan();
	expect_lost(1, 0, 1, 0);
	expect_lost(2, 0, 1, 0);
	expect_lost(3, 1, 0, 3);
	expect_lost(4, 0, 1, 0);
}

TEST_WITH(words_beside_a_block_are_no_pointers, begin, end)
{
	size_t a = add_block(0x10, 24, 1), b = add_block(0x40, 20, 2), c = add_block(0x60, 0, 3);
	size_t d = add_block(0x80, 64, 4), e = add_block(0xc8, 16, 5);
	store_root(0, w.blocks[a].at + 24); /* one past the end */
	store_root(8, w.blocks[b].at - 8);
	store_root(16, w.blocks[c].at); /* a block of no bytes has an address */
	store_root(28, w.blocks[d].at); /* not aligned */
	store_root(40, w.blocks[e].at + 8);
	store(e, 16, w.blocks[a].at); /* behind what was requested */
	scan();
	expect_lost(1, 1, 0, 0);
	expect_lost(2, 1, 0, 0);
	expect_lost(3, 0, 0, 0);
	expect_lost(4, 1, 0, 0);
	expect_lost(5, 0, 0, 0);
}

TEST_WITH(registers_are_roots_and_large_blocks_are_found, begin, end)
{
	/* 2 MiB: read in pieces; the pointer is in the last one */
	size_t large = add_block(0x1000, 2 << 20, 1);
	size_t small = add_block(0x202000, 16, 2), other = add_block(0x203000, 16, 3);
	w.registers[1] = w.blocks[large].at + 12345;
	w.in.register_count = 2;
	store(large, (2 << 20) - 8, w.blocks[small].at);
	(void)other;
	scan();
	expect_lost(1, 0, 0, 0);
	expect_lost(2, 0, 0, 0);
	expect_lost(3, 1, 0, 0);
}

TEST_WITH(a_reserved_block_of_a_terabyte_costs_nothing, begin, end)
{
	size_t small = add_block(0x1000, 64, 1), huge = add_block(0x400000, UINT64_C(1) << 40, 2);
	size_t behind = w.in.block_count++;
	w.blocks[behind] = (struct heap_block){HEAP + 0x500000 + (UINT64_C(1) << 40), 64, 0, 3};
	store_root(0, w.blocks[huge].at + (UINT64_C(1) << 39));
	add_pages(HEAP, 2, LEDGER_IN_MEMORY);
	uint64_t began = monotonic_ns();
	scan();
	assert_true(monotonic_ns() - began < UINT64_C(5000000000));
	(void)small;
	expect_lost(1, 1, 0, 0);
	expect_lost(2, 0, 0, 0);
	expect_lost(3, 1, 0, 0);
	assert_int_equal(site(2)->untouched_bytes, UINT64_C(1) << 40);
}

/* Ten thousand blocks in a chain whose order is mixed, so that it is followed up and down. */
TEST_WITH(a_long_chain_is_followed, begin, end)
{
	enum { COUNT = 10000, STEP = 64 };
	struct heap_block *blocks = calloc(COUNT, sizeof *blocks);
	w.in.blocks = blocks;
	w.in.block_count = COUNT;
	for (size_t i = 0; i < COUNT; i++)
		blocks[i] = (struct heap_block){HEAP + 16 + i * STEP, 56, 0,
						i == COUNT / 2 ? 2 : 1};
	for (size_t i = 0; i + 1 < COUNT; i++) { /* 7919 and 10000 have no common divisor */
		size_t from = i * 7919 % COUNT, to = (i + 1) * 7919 % COUNT;
		memcpy(w.heap + 16 + from * STEP + 8, &blocks[to].at, 8);
	}
	store_root(0, blocks[0].at);
	scan();
	expect_lost(1, 0, 0, 0);
	heap_look_fini(&w.look);
	/* Cut: what follows is lost, through the block behind the cut. */
	memset(w.heap + 16 + (size_t)4999 * 7919 % COUNT * STEP + 8, 0, 8);
	scan();
	assert_int_equal(site(1)->direct_blocks + site(2)->direct_blocks, 1);
	assert_int_equal(site(1)->indirect_blocks + site(2)->indirect_blocks, 4999);
	assert_int_equal(site(1)->held_blocks + site(2)->held_blocks, 4999);
	free(blocks);
}

/* ---- pages */

TEST_WITH(untouched_pages_are_counted_and_not_read, begin, end)
{
	add_block(0x100, 3 * P, 1);      /* pages 0 to 3: 2 is not there */
	add_block(4 * P + 16, 5 * P, 2); /* pages 4 to 9: 4 is there, 5 is swapped out */
	add_block(12 * P, 2 * P, 3);     /* nothing of it */
	store_root(0, HEAP);
	store_root(8, w.blocks[1].at);
	add_pages(HEAP, 2, LEDGER_IN_MEMORY);
	add_pages(HEAP + 3 * P, 2, LEDGER_IN_MEMORY);
	add_pages(HEAP + 5 * P, 1, LEDGER_SWAPPED);
	store(1, P, w.blocks[2].at); /* in the swapped page */
	scan();
	assert_int_equal(site(1)->untouched_bytes, P);
	assert_int_equal(site(2)->untouched_bytes, 3 * P + 16);
	assert_int_equal(site(3)->untouched_bytes, 2 * P);
	assert_int_equal(site(3)->untouched_blocks, 1);
	expect_lost(3, 0, 0, 0);
	/* Nothing but zeros; resident bytes count */
	assert_int_equal(site(3)->zero_blocks, 1);
	assert_int_equal(site(3)->zero_bytes, 0);
}

/* ---- equal blocks */

TEST_WITH(equal_blocks_are_counted_from_the_second_on, begin, end)
{
	for (size_t i = 0; i < 4; i++)
		memset(w.heap + add_block(i * 0x80, 100, 1) * 0x80, 'x', 100);
	memset(w.heap + 0x400, 'x', 100);
	add_block(0x400, 100, 2);
	memset(w.heap + 0x480, 'x', 99); /* shorter */
	add_block(0x480, 99, 3);
	memset(w.heap + 0x500, 'x', 63); /* too small */
	add_block(0x500, 63, 4);
	add_block(0x580, 63, 4);
	add_block(0x600, 64, 5); /* zeros */
	add_block(0x680, 65, 5);
	scan();
	assert_int_equal(site(1)->duplicate_blocks, 3);
	assert_int_equal(site(1)->duplicate_bytes, 300);
	assert_int_equal(site(2)->duplicate_blocks, 1);
	assert_int_equal(site(3)->duplicate_blocks, 0);
	assert_int_equal(site(4)->duplicate_blocks, 0);
	assert_int_equal(site(5)->duplicate_blocks, 0);
	assert_int_equal(site(5)->zero_blocks, 2);
	assert_int_equal(site(5)->zero_bytes, 129);
}

TEST_WITH(a_byte_makes_a_difference_anywhere, begin, end)
{
	/* Ten blocks of 208 bytes; each but the first differs from it in one bit, and so in another place from all. */
	static const size_t places[] = {0, 7, 8, 31, 32, 100, 199, 200, 207};
	for (size_t i = 0; i < 10; i++) {
		size_t at = 0x100 * i;
		add_block(at, 208, 1);
		memset(w.heap + at, 0x5a, 208);
		if (i)
			w.heap[at + places[i - 1]] ^= 0x80;
	}
	/* Two signs that change in one lane */
	for (size_t i = 0; i < 2; i++) {
		size_t at = 0x100 * (10 + i);
		add_block(at, 64, 2);
		memset(w.heap + at, 1, 64);
		w.heap[at + 7] ^= (uint8_t)(i << 7);
		w.heap[at + 39] ^= (uint8_t)(i << 7);
	}
	scan();
	assert_int_equal(site(1)->duplicate_blocks, 0);
	assert_int_equal(site(2)->duplicate_blocks, 0);
}

TEST_WITH(equal_blocks_larger_than_a_window, begin, end)
{
	/* 1.5 MB each; the second has a page that was never touched and is zeros in the first. */
	enum { LARGE = 1500000 };
	memset(w.heap, 'y', LARGE);
	memset(w.heap + 512 * P, 'y', LARGE);
	memset(w.heap + 10 * P, 0, P);
	memset(w.heap + 522 * P, 0, P);
	add_block(0, LARGE, 1);
	add_block(512 * P, LARGE, 2);
	add_pages(HEAP, 522, LEDGER_IN_MEMORY);
	add_pages(HEAP + 523 * P, PAGES - 523, LEDGER_IN_MEMORY);
	scan();
	assert_int_equal(site(1)->duplicate_blocks, 0);
	assert_int_equal(site(2)->duplicate_blocks, 1);
	assert_int_equal(site(2)->duplicate_bytes, LARGE - P);
}

/* ---- free memory */

static void add_free(uint64_t offset, uint64_t bytes, enum heap_free_kind kind)
{
	w.free[w.in.free_count++] = (struct heap_free){HEAP + offset, bytes, kind};
}

TEST_WITH(free_bytes_of_a_page_are_shared_by_its_sites, begin, end)
{
	/* Page 0: 8 + 504 of site 1, 8 + 1528 of site 2, the rest of 2048 free. Page 1: free. Page 2: 1024 of site
	 * 1, 3072 free. Page 3 is not in memory. */
	add_block(8, 504, 1);
	add_block(512 + 8, 1500, 2);
	w.blocks[1].slack = 28;
	add_free(2048, 2048 + P, HEAP_FREE);
	add_block(2 * P + 8, 1016, 1);
	add_free(2 * P + 1024, 3072 + P, HEAP_FREE_TOP);
	add_pages(HEAP, 3, LEDGER_IN_MEMORY);
	scan();
	assert_int_equal(site(1)->pinned_bytes, 2048 * 512 / 2048 + 3072);
	assert_int_equal(site(2)->pinned_bytes, 2048 * 1536 / 2048);
	assert_int_equal(w.look.pinned_bytes, 2048 + 3072);
	assert_int_equal(w.look.releasable_bytes, P);
	assert_int_equal(w.look.heap_bytes, 3 * P);
	/* The free chunk ends 8 bytes before page 2, so that page 1 is not all its own. Of the top one page would go,
	 * the last, which is not in memory. */
	assert_int_equal(w.look.trim_bytes, 0);
}

TEST_WITH(malloc_trim_is_foretold, begin, end)
{
	/* Chunks begin 8 bytes before a range. */
	add_free(1 * P + 8 - 48, 48 + 2 * P, HEAP_FREE); /* pages 1, 2: the head ends with page 0 */
	add_block(3 * P + 64, 64, 1);
	add_free(4 * P + 8 - 47, 47 + 2 * P, HEAP_FREE); /* the head is one byte too long: page 5 */
	add_block(6 * P + 64, 64, 1);
	/* In two pieces that merge: pages 9 to 11 */
	add_free(8 * P + 8, 2 * P, HEAP_FREE);
	add_free(10 * P + 8, 2 * P, HEAP_FREE);
	/* In two pieces that do not: page 14, since pages 13 and 15 are parted, and nothing of the cache */
	add_free(13 * P + 8, 2 * P, HEAP_FREE);
	add_free(15 * P + 8, 2 * P, HEAP_FREE_CACHED);
	/* The end of another arena stays. */
	add_free(20 * P + 8, 4 * P - 8, HEAP_FREE_END);
	/* The top: 10 pages of which the last 9 go */
	add_free(30 * P + 8, 10 * P - 8, HEAP_FREE_TOP);
	scan();
	assert_int_equal(w.look.trim_bytes, (2 + 1 + 3 + 1 + 9) * P);
}

TEST_WITH(without_a_list_what_is_beside_blocks_is_free, begin, end)
{
	w.in.free_known = false;
	w.in.header_bytes = 0;
	add_block(0, 1024, 1);
	add_block(P + 3072, 2048, 2); /* 1024 each in pages 1 and 2 */
	scan();
	assert_int_equal(site(1)->pinned_bytes, 3072);
	assert_int_equal(site(2)->pinned_bytes, 2 * 3072);
	assert_int_equal(w.look.releasable_bytes, 0);
	assert_int_equal(w.look.trim_bytes, 0);
}

TEST_WITH(memory_that_cannot_be_read_is_an_error, begin, end)
{
	struct heft_error err = {0};
	add_block(0, 64, 1);
	w.blocks[0].at = HEAP - P; /* not in the world, but said to be in memory */
	add_pages(HEAP - P, 1, LEDGER_IN_MEMORY);
	assert_int_equal(heap_scan(&w.in, &w.look, &err), HEFT_ENOTFOUND);
	assert_int_equal(w.look.count, 0);
}

UNIT_TESTS(NULL, NULL)
