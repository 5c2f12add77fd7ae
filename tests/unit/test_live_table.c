/* The live table against a plain array: random additions, look-ups and removals
 * over few addresses, so that probe sequences overlap and wrap. */
#include "record/live_table.h"
#include "unit_test.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

TEST(test_random_history)
{
	enum { ADDRESSES = 5000 };
	static uint64_t value[ADDRESSES]; /* 0: not there */
	struct live_table t;
	uint64_t rng = 42, count = 0;
	assert_int_equal(live_table_init(&t), 0);
	for (int step = 0; step < 400000; step++) {
		rng = rng * 6364136223846793005ull + 1442695040888963407ull;
		uint32_t i = (uint32_t)(rng >> 33) % ADDRESSES;
		uint64_t addr = 0x7f0000000000ull + i * 16ull;
		struct live_block *b = live_table_find(&t, addr);
		assert_int_equal(b != NULL, value[i] != 0);
		if (b) {
			assert_int_equal(b->birth_tsc, value[i]);
			live_table_remove(&t, b);
			value[i] = 0;
			count--;
		} else {
			value[i] = (uint64_t)step + 1;
			assert_int_equal(live_table_reserve(&t, 1), 0);
			live_table_add(&t,
				       &(struct live_block){.addr = addr, .birth_tsc = value[i]});
			count++;
		}
		assert_int_equal(t.count, count);
	}
	uint64_t seen = 0;
	for (uint64_t i = 0; i < 1ull << t.bits; i++)
		seen += t.slots[i].addr != 0;
	assert_int_equal(seen, count);
	live_table_fini(&t);
}

TEST(test_grows_with_its_contents)
{
	struct live_table t;
	assert_int_equal(live_table_init(&t), 0);
	for (uint64_t i = 1; i <= 100000; i++) {
		assert_int_equal(live_table_reserve(&t, 1), 0);
		live_table_add(&t, &(struct live_block){.addr = i * 32, .size = i & 0xffffffff});
	}
	for (uint64_t i = 1; i <= 100000; i++) {
		struct live_block *b = live_table_find(&t, i * 32);
		assert_non_null(b);
		assert_int_equal(b->size, i);
		assert_null(live_table_find(&t, i * 32 + 8));
	}
	live_table_fini(&t);
}

UNIT_TESTS(NULL, NULL)
