/* pool-leak, and the stage in unbounded-queue, on profiles made by hand. */
#include "diagnosis_fixture.h"

static struct profile *with_pool(void)
{
	struct profile *p = new_profile(1 * SECOND);
	add_site(p, "main:1 chunk:2", 4, 1000000);
	add_pool(p, "cells");
	return p;
}

/* How many findings there are, all of this kind. Frees the profile. */
static uint32_t pool_leaks(struct profile *p)
{
	struct findings *f;
	uint32_t count = 0;
	assert_int_equal(findings_new(&f, p), 0);
	for (uint32_t i = 0; i < findings_count(f); i++)
		count += findings_get(f, i)->kind == FINDING_POOL_LEAK;
	findings_free(f);
	profile_free(p);
	return count;
}

/* 400 left, 50 from each eighth; 400 others came and went. */
TEST(test_a_leak)
{
	struct profile *p = with_pool();
	struct findings *f;
	add_pool_objects(p, "main:1 take_session:7 pool_get:3", 400, 0, "55555555");
	add_pool_objects(p, "main:1 take_request:9 pool_get:3", 400, 400, "");
	assert_int_equal(findings_new(&f, p), 0);
	const struct finding *x = NULL;
	for (uint32_t i = 0; i < findings_count(f); i++)
		if (findings_get(f, i)->kind == FINDING_POOL_LEAK)
			x = findings_get(f, i);
	assert_non_null(x);
	assert_int_equal(x->bytes, 4000);
	assert_int_equal(x->site, PROFILE_NONE);
	assert_string_equal(
		x->summary,
		"pool \"cells\": 400 of 400 objects taken at pool_get (prog.c:3), called by "
		"take_session (prog.c:7), were not given back, 4,000 bytes in all, though 100.0 % "
		"of "
		"the pool's other objects were");
	assert_string_equal(x->evidence[2].text, "take_session");
	findings_free(f);
	profile_free(p);
}

TEST(test_no_leak)
{
	struct profile *p = with_pool(); /* an arena: nothing is given back */
	add_pool_objects(p, "main:1 fill:7 pool_get:3", 400, 0, "55555555");
	assert_int_equal(pool_leaks(p), 0);

	p = with_pool(); /* a table that is filled at the start, ... */
	add_pool_objects(p, "main:1 fill:7 pool_get:3", 90, 0, "9");
	add_pool_objects(p, "main:1 fill:8 pool_get:3", 400, 0, "99990000");
	add_pool_objects(p, "main:1 take_request:9 pool_get:3", 4000, 4000, "");
	assert_int_equal(pool_leaks(p), 0);

	p = with_pool(); /* ... and a cache that keeps the newest */
	add_pool_objects(p, "main:1 cache:7 pool_get:3", 4000, 3640, "00000999");
	assert_int_equal(pool_leaks(p), 0);

	p = with_pool(); /* a tree of which little is thrown away again: 400 of 2,000 others */
	add_pool_objects(p, "main:1 parse:7 pool_get:3", 400, 0, "55555555");
	add_pool_objects(p, "main:1 parse:8 pool_get:3", 2000, 400, "");
	assert_int_equal(pool_leaks(p), 0);

	p = with_pool(); /* fewer than 100 */
	add_pool_objects(p, "main:1 take_session:7 pool_get:3", 80, 0, "11111111");
	add_pool_objects(p, "main:1 take_request:9 pool_get:3", 400, 400, "");
	assert_int_equal(pool_leaks(p), 0);
}

/* Nine of ten objects of one call site are given back; and two sites that leak do not hide each other. */
TEST(test_leaks_among_others)
{
	struct profile *p = with_pool();
	add_pool_objects(p, "main:1 handle:7 pool_get:3", 4000, 3600, "55555555");
	assert_int_equal(pool_leaks(p), 1);
	p = with_pool();
	add_pool_objects(p, "main:1 handle:7 pool_get:3", 400, 0, "55555555");
	add_pool_objects(p, "main:1 log:8 pool_get:3", 320, 0,
			 "44444440"); /* its last part has no work */
	add_pool_objects(p, "main:1 take_request:9 pool_get:3", 1000, 1000, "");
	assert_int_equal(pool_leaks(p), 2);
}

UNIT_TESTS(NULL, NULL)
