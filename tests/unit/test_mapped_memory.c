/* What calls that map memory come to: pieces that are cut, mapped over, moved and given back, compared with a map of
 * pages; and the calls through a block of a recording. */
#include "unit_test.h"

#include "hosted/error.h"
#include "tally/mapped_memory.h"
#include "trace/mappings_block.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, SITES = 4, PAGES = 64 };

struct sums {
	int64_t bytes[SITES], pieces[SITES];
};

static int count(void *ctx, const struct mapped_piece *piece, bool added)
{
	struct sums *s = ctx;
	int64_t sign = added ? 1 : -1;
	assert_true(piece->start < piece->end);
	s->bytes[piece->site] += sign * (int64_t)(piece->end - piece->start);
	s->pieces[piece->site] += sign;
	return 0;
}

static struct trace_mapping call(enum trace_map_call which, uint64_t page, uint64_t pages,
				 uint32_t site)
{
	return (struct trace_mapping){.call = (uint8_t)which,
				      .address = page * PAGE,
				      .bytes = pages * PAGE,
				      .site = site};
}

static void apply(struct mapped_memory *m, struct sums *s, struct trace_mapping c)
{
	assert_int_equal(mapped_memory_apply(m, &c, count, s), 0);
}

static void is(const struct sums *s, uint32_t site, int64_t pages, int64_t pieces)
{
	assert_int_equal(s->bytes[site], pages * PAGE);
	assert_int_equal(s->pieces[site], pieces);
}

static void pieces_are_cut(void **state)
{
	(void)state;
	struct mapped_memory *m = mapped_memory_new();
	struct sums s = {0};
	apply(m, &s, call(TRACE_MAP_MMAP, 10, 10, 1));
	apply(m, &s, call(TRACE_MAP_MUNMAP, 12, 3, 2)); /* from the middle */
	is(&s, 1, 7, 2);
	apply(m, &s, call(TRACE_MAP_MMAP, 18, 4, 2)); /* over the end */
	is(&s, 1, 5, 2);
	is(&s, 2, 4, 1);
	struct trace_mapping moved = call(TRACE_MAP_MREMAP, 40, 6, 3);
	moved.old_address = 18 * PAGE;
	moved.old_bytes = 4 * PAGE;
	apply(m, &s, moved);
	is(&s, 2, 0, 0);
	is(&s, 3, 6, 1);
	moved = call(TRACE_MAP_MREMAP, 50, 6, 2); /* the old memory stays */
	moved.old_address = 40 * PAGE;
	apply(m, &s, moved);
	is(&s, 3, 6, 1);
	is(&s, 2, 6, 1);
	apply(m, &s, call(TRACE_MAP_MUNMAP, 0, 64, 0));
	for (uint32_t i = 0; i < SITES; i++)
		is(&s, i, 0, 0);
	apply(m, &s, call(TRACE_MAP_MUNMAP, 0, 64, 0)); /* nothing is there */
	mapped_memory_free(m);
}

static void break_and_shared_memory(void **state)
{
	(void)state;
	struct mapped_memory *m = mapped_memory_new();
	struct sums s = {0};
	apply(m, &s, call(TRACE_MAP_BRK, 10, 8, 1));
	struct trace_mapping down = call(TRACE_MAP_BRK, 15, 3, 1);
	down.detail = 1;
	apply(m, &s, down);
	is(&s, 1, 5, 1);
	apply(m, &s, call(TRACE_MAP_SHMAT, 30, 5, 2));
	apply(m, &s, call(TRACE_MAP_SHMDT, 10, 0, 2)); /* not attached */
	is(&s, 1, 5, 1);
	apply(m, &s, call(TRACE_MAP_SHMDT, 30, 0, 2));
	is(&s, 2, 0, 0);
	apply(m, &s, call(TRACE_MAP_MADVISE, 10, 5, 2));
	is(&s, 1, 5, 1);
	struct trace_mapping block = call(TRACE_MAP_MMAP, 0, 5, 3);
	block.origin = TRACE_MAP_DERIVED; /* has no address */
	apply(m, &s, block);
	is(&s, 3, 0, 0);
	mapped_memory_free(m);
}

/* One thread unmaps, another maps the same place, and the first call is recorded last. */
static void late_unmap_spares_newer_memory(void **state)
{
	(void)state;
	struct mapped_memory *m = mapped_memory_new();
	struct sums s = {0};
	struct trace_mapping first = call(TRACE_MAP_MMAP, 10, 4, 1);
	first.time_ns = 100;
	apply(m, &s, first);
	struct trace_mapping again = call(TRACE_MAP_MMAP, 10, 2, 2);
	again.time_ns = 210;
	again.thread = 1;
	apply(m, &s, again);
	struct trace_mapping gone = call(TRACE_MAP_MUNMAP, 10, 4, 1);
	gone.began_ns = 200;
	gone.time_ns = 220;
	apply(m, &s, gone);
	is(&s, 1, 0, 0);
	is(&s, 2, 2, 1);
	gone.began_ns = gone.time_ns = 300;
	apply(m, &s, gone);
	is(&s, 2, 0, 0);
	mapped_memory_free(m);
}

struct pages {
	uint8_t site[PAGES];
};

static int check_piece(void *ctx, const struct mapped_piece *piece, bool added)
{
	struct pages *p = ctx;
	assert_true(added);
	for (uint64_t i = piece->start / PAGE; i < piece->end / PAGE; i++) {
		assert_int_equal(p->site[i], piece->site + 1);
		p->site[i] = 0;
	}
	return 0;
}

static void random_calls_equal_a_map_of_pages(void **state)
{
	(void)state;
	struct mapped_memory *m = mapped_memory_new();
	struct sums s = {0};
	struct pages p = {0};
	srand(1);
	for (int i = 0; i < 20000; i++) {
		uint64_t page = (uint64_t)rand() % PAGES;
		uint64_t pages = 1 + (uint64_t)rand() % (PAGES - page);
		uint32_t site = (uint32_t)rand() % SITES;
		bool maps = rand() % 3;
		apply(m, &s, call(maps ? TRACE_MAP_MMAP : TRACE_MAP_MUNMAP, page, pages, site));
		memset(p.site + page, maps ? (int)site + 1 : 0, pages);
		for (uint32_t k = 0; k < SITES; k++) {
			int64_t want = 0;
			for (int j = 0; j < PAGES; j++)
				want += p.site[j] == k + 1;
			assert_int_equal(s.bytes[k], want * PAGE);
		}
	}
	assert_int_equal(mapped_memory_each(m, check_piece, &p), 0);
	for (int i = 0; i < PAGES; i++)
		assert_int_equal(p.site[i], 0);
	mapped_memory_free(m);
}

static void calls_through_a_block(void **state)
{
	(void)state;
	const struct trace_mapping calls[] = {
		{.time_ns = 500,
		 .began_ns = 500,
		 .address = 0x7f0000000000,
		 .bytes = 4096,
		 .site = 3,
		 .thread = 1,
		 .detail = 0x22,
		 .call = TRACE_MAP_MMAP},
		{.time_ns = 400,
		 .began_ns = 300,
		 .address = 0x1000,
		 .bytes = 1ull << 56,
		 .site = 0,
		 .call = TRACE_MAP_MREMAP,
		 .old_address = 0x7f0000000000,
		 .old_bytes = 8192},
		{.time_ns = 900,
		 .began_ns = 900,
		 .call = TRACE_MAP_BRK,
		 .origin = TRACE_MAP_DERIVED,
		 .detail = 1},
	};
	struct byte_buffer b = {0};
	struct mappings_base base = {0};
	struct trace_mapping m;
	for (size_t i = 0; i < 3; i++)
		mappings_put(&b, &base, &calls[i]);
	assert_false(b.failed);
	struct byte_cursor c = {b.data, b.data + b.len, false};
	base = (struct mappings_base){0};
	for (size_t i = 0; i < 3; i++) {
		assert_null(mappings_get(&c, &base, &m, 4, 2));
		assert_memory_equal(&m, &calls[i], sizeof m);
	}
	assert_int_equal(cursor_left(&c), 0);
	/* Sites and threads that are not defined */
	c = (struct byte_cursor){b.data, b.data + b.len, false};
	base = (struct mappings_base){0};
	assert_non_null(mappings_get(&c, &base, &m, 3, 2));
	c = (struct byte_cursor){b.data, b.data + b.len, false};
	base = (struct mappings_base){0};
	assert_non_null(mappings_get(&c, &base, &m, 4, 1));
	/* Cut anywhere in the first call */
	for (size_t cut = 1; cut < 8; cut++) {
		c = (struct byte_cursor){b.data, b.data + cut, false};
		base = (struct mappings_base){0};
		assert_non_null(mappings_get(&c, &base, &m, 4, 2));
	}
	buffer_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_are_cut),
		cmocka_unit_test(break_and_shared_memory),
		cmocka_unit_test(late_unmap_spares_newer_memory),
		cmocka_unit_test(random_calls_equal_a_map_of_pages),
		cmocka_unit_test(calls_through_a_block),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
