/* Growing arrays and the hash table of numbers: contents, limits, and what is left when memory runs
 * out. */
#include "hosted/hash_index.h"
#include "hosted/name_pool.h"
#include "hosted/vector.h"
#include "unit_test.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static bool no_memory;

void *__real_reallocarray(void *p, size_t count, size_t size);
void *__wrap_reallocarray(void *p, size_t count, size_t size);
void *__wrap_reallocarray(void *p, size_t count, size_t size)
{
	return no_memory ? NULL : __real_reallocarray(p, count, size);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
	return no_memory ? NULL : __real_calloc(count, size);
}

TEST(test_vector)
{
	VECTOR(uint64_t) v = {0};
	for (uint64_t i = 0; i < 1000; i++)
		assert_true(vector_push(&v, i * i));
	assert_int_equal(v.count, 1000);
	for (uint64_t i = 0; i < 1000; i++)
		assert_int_equal(v.items[i], i * i);
	uint64_t *added = vector_add(&v);
	assert_int_equal(*added, 0);
	v.count = v.capacity;
	no_memory = true;
	bool pushed = vector_push(&v, 7);
	added = vector_add(&v);
	assert_false(pushed);
	assert_null(added);
	no_memory = false;
	assert_int_equal(v.count, v.capacity);
	assert_int_equal(v.items[999], 999 * 999);
	vector_free(&v);
	assert_null(v.items);
}

TEST(test_array_of_narrow_counts)
{
	uint16_t *items = NULL;
	uint32_t count = 0, capacity = 0, none = 0;
	assert_true(
		array_reserve(items, count, capacity, none)); /* an empty array can be asked for */
	assert_non_null(items);
	assert_true(array_reserve(items, count, capacity, 1000));
	assert_in_range(capacity, 1000, 2000);
	/* The next one would not fit into what counts them. */
	assert_false(array_reserve(items, count, capacity, (size_t)UINT32_MAX + 1));
	size_t one = 1, wide = capacity;
	assert_false(array_reserve(items, one, wide, SIZE_MAX)); /* the sum overflows */
	free(items);
}

TEST(test_index_finds_every_number)
{
	enum { COUNT = 300000 }; /* some tables of 2 MiB on the way */
	struct hash_index x = {0};
	uint32_t at = 5;
	assert_int_equal(hash_index_step(&x, 5, &at), HASH_NONE); /* an empty one */
	for (uint32_t i = 0; i < COUNT; i++)
		assert_int_equal(hash_index_add(&x, hash_pair(i / 3, 7), i), 0); /* three of each */
	for (uint32_t i = 0; i < COUNT; i += 3) {
		uint32_t hash = hash_pair(i / 3, 7), number, seen = 0;
		for (at = hash; (number = hash_index_step(&x, hash, &at)) != HASH_NONE;)
			if (number / 3 == i / 3)
				seen |= 1u << number % 3;
		assert_int_equal(seen, 7);
	}
	assert_true((uint64_t)x.count * 2 <= (uint64_t)x.mask + 1);
	hash_index_clear(&x);
	at = hash_pair(0, 7);
	assert_int_equal(hash_index_step(&x, hash_pair(0, 7), &at), HASH_NONE);
	hash_index_fini(&x);
}

/* Looking for a key and adding it where the search ended, while the table grows: each key has one number,
 * also where many share a hash. */
TEST(test_index_adds_where_it_looked)
{
	enum { KEYS = 3000, HASHES = 700 };
	struct hash_index x = {0};
	uint32_t keys[KEYS], count = 0;
	for (unsigned i = 0; i < 3 * KEYS; i++) {
		uint32_t key = i % KEYS, hash = hash_number(key % HASHES), at = hash, number;
		while ((number = hash_index_step(&x, hash, &at)) != HASH_NONE &&
		       keys[number] != key)
			;
		assert_int_equal(number, i < KEYS ? HASH_NONE : key);
		if (number == HASH_NONE) {
			assert_int_equal(hash_index_add_at(&x, hash, at, count), 0);
			keys[count++] = key;
		}
	}
	assert_int_equal(count, KEYS);
	assert_int_equal(x.count, KEYS);
	hash_index_fini(&x);
}

TEST(test_index_without_memory)
{
	struct hash_index x = {0};
	no_memory = true;
	assert_int_not_equal(hash_index_add(&x, 1, 1), 0);
	no_memory = false;
	uint32_t filled = 0;
	assert_int_equal(hash_index_reserve(&x, 1), 0);
	uint32_t slots = x.mask + 1;
	no_memory = true;
	while (hash_index_add(&x, filled, filled) == 0)
		filled++;
	no_memory = false;
	assert_int_equal(filled, slots / 2);
	for (uint32_t i = 0; i < filled; i++) {
		uint32_t at = i;
		assert_int_equal(hash_index_step(&x, i, &at), i);
	}
	hash_index_fini(&x);
}

TEST(test_names)
{
	struct name_pool *pool = name_pool_new();
	const char *names[2000];
	char text[32];
	for (int i = 0; i < 2000; i++) {
		snprintf(text, sizeof text, "name %d", i);
		names[i] = name_pool_add(pool, text);
		assert_string_equal(names[i], text);
	}
	for (int i = 0; i < 2000; i++) {
		snprintf(text, sizeof text, "name %d", i);
		assert_ptr_equal(name_pool_add(pool, text), names[i]);
	}
	assert_string_equal(name_pool_add(pool, ""), "");
	assert_ptr_equal(name_pool_add_n(pool, "name 17xx", 7), names[17]);
	assert_ptr_not_equal(name_pool_add_n(pool, "a\0b", 3), name_pool_add(pool, "a"));
	name_pool_free(pool);
}

UNIT_TESTS(NULL, NULL)
