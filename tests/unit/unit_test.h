/* A unit test: TEST(name) { ... } defines one, TEST_WITH(name, setup, teardown) one with functions before and
 * after it. UNIT_TESTS(setup, teardown) at the end of the file makes the main() that runs all of them, in the
 * order in which they stand there; its functions run once, before and after all tests. NULL: there is
 * none. */
#ifndef HEFT_TESTS_UNIT_TEST_H
#define HEFT_TESTS_UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MOST_UNIT_TESTS = 64 };
static struct CMUnitTest unit_tests[MOST_UNIT_TESTS];
static size_t unit_test_count;

static inline void unit_test_add(struct CMUnitTest test)
{
	if (unit_test_count == MOST_UNIT_TESTS)
		__builtin_trap();
	unit_tests[unit_test_count++] = test;
}

/* cmocka's own macro takes arrays, whose size it asks the compiler for. */
static inline int unit_tests_run(CMFixtureFunction setup, CMFixtureFunction teardown)
{
	return _cmocka_run_group_tests("tests", unit_tests, unit_test_count, setup, teardown);
}

/* The constructors of one file run in the order in which they stand there. */
#define TEST_WITH(name, setup, teardown)                                                           \
	static void name(void **state);                                                            \
	__attribute__((constructor)) static void name##_is_a_test(void)                            \
	{                                                                                          \
		unit_test_add((struct CMUnitTest){#name, name, setup, teardown, NULL});            \
	}                                                                                          \
	static void name(void **state __attribute__((unused)))

#define TEST(name) TEST_WITH(name, NULL, NULL)

#define UNIT_TESTS(setup, teardown)                                                                \
	int main(void)                                                                             \
	{                                                                                          \
		return unit_tests_run(setup, teardown);                                            \
	}

#endif
