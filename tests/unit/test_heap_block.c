/* What a look at a heap told, in a recording: what is written is read, and what contradicts itself is refused. */
#include "unit_test.h"

#include "trace/heap_block.h"

#include <stdbool.h>
#include <string.h>

static struct heap_look made(void)
{
	struct heap_look l = {.parts = HEAP_REACHABLE | HEAP_FRAGMENTED,
			      .time_ns = 5,
			      .took_ns = 6,
			      .blocks = 100,
			      .bytes = 10000,
			      .root_bytes = 77,
			      .heap_bytes = 20480,
			      .pinned_bytes = 400,
			      .releasable_bytes = 4096,
			      .trim_bytes = 4096,
			      .note = "a note"};
	const struct heap_site one = {.site = 3,
				      .blocks = 10,
				      .bytes = 1000,
				      .direct_blocks = 1,
				      .direct_bytes = 100,
				      .indirect_blocks = 2,
				      .indirect_bytes = 200,
				      .held_blocks = 5,
				      .held_bytes = 900,
				      .untouched_blocks = 1,
				      .untouched_bytes = 50,
				      .duplicate_blocks = 4,
				      .duplicate_bytes = 300,
				      .zero_blocks = 2,
				      .zero_bytes = 10,
				      .pinned_bytes = 399};
	const struct heap_site other = {
		.site = 9, .blocks = 1, .bytes = 8, .direct_blocks = 1, .direct_bytes = 8};
	assert_true(vector_push(&l, one));
	assert_true(vector_push(&l, other));
	return l;
}

/* What the reader says of it; NULL: it takes it. */
static const char *read_back(const struct heap_look *l, uint32_t site_count, struct heap_look *got)
{
	struct byte_buffer b = {0};
	uint32_t process = 0;
	heap_block_put(&b, l, 2);
	assert_true(buffer_reserve(&b, 64)); /* a cursor may look behind the end */
	struct byte_cursor c = {b.data, b.data + b.len, false};
	memset(got, 0, sizeof *got);
	const char *wrong = heap_block_get(got, &process, site_count, &c);
	if (!wrong)
		assert_int_equal(process, 2);
	buffer_fini(&b);
	return wrong;
}

TEST(what_is_written_is_read)
{
	struct heap_look l = made(), got;
	assert_null(read_back(&l, 10, &got));
	assert_int_equal(got.count, 2);
	for (size_t i = 0; i < 2; i++) { /* behind the padding */
		assert_int_equal(got.items[i].site, l.items[i].site);
		assert_memory_equal(&got.items[i].blocks, &l.items[i].blocks,
				    sizeof *l.items - offsetof(struct heap_site, blocks));
	}
	assert_int_equal(got.parts, l.parts);
	assert_int_equal(got.trim_bytes, 4096);
	assert_int_equal(got.root_bytes, 77);
	assert_string_equal(got.note, "a note");
	heap_look_fini(&got);
	heap_look_fini(&l);
}

static void expect_refused(struct heap_look *l, uint32_t site_count)
{
	struct heap_look got;
	assert_non_null(read_back(l, site_count, &got));
	heap_look_fini(&got);
	heap_look_fini(l);
}

TEST(what_contradicts_itself_is_refused)
{
	struct heap_look l = made();
	expect_refused(&l, 9); /* there is no site 9 */
	l = made();
	l.items[0].direct_blocks = 9; /* with the indirect ones more than there are */
	expect_refused(&l, 10);
	l = made();
	l.items[0].untouched_bytes = 1001;
	expect_refused(&l, 10);
	l = made();
	l.items[0].duplicate_bytes = 995;
	expect_refused(&l, 10);
	l = made();
	l.items[1].site = 3; /* twice */
	expect_refused(&l, 10);
	l = made();
	l.blocks = 10;
	expect_refused(&l, 10);
	l = made();
	l.items[0].held_bytes = UINT64_MAX;
	expect_refused(&l, 10);
	l = made();
	l.trim_bytes = l.heap_bytes + 1;
	expect_refused(&l, 10);
}

TEST(a_cut_block_is_refused)
{
	struct heap_look l = made();
	struct byte_buffer b = {0};
	heap_block_put(&b, &l, 2);
	size_t whole = b.len;
	assert_true(buffer_reserve(&b, 64));
	for (size_t length = 0; length < whole; length++) {
		struct heap_look got = {0};
		uint32_t process;
		struct byte_cursor c = {b.data, b.data + length, false};
		assert_non_null(heap_block_get(&got, &process, 10, &c));
		heap_look_fini(&got);
	}
	buffer_fini(&b);
	heap_look_fini(&l);
}

UNIT_TESTS(NULL, NULL)
