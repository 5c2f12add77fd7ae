/* Rules decide and explain with one call: what is recorded is what was decided. The conditions of each
 * diagnosis are tried on both sides of their limits. */
#include "findings/diagnosis.h"

#include "diagnosis_fixture.h"

#include <math.h>

TEST(test_at_the_limit)
{
	struct rule r = rule_begin("A rule.");
	assert_string_equal(r.words, "A rule.");
	assert_true(rule_at_least(&r, "blocks", UNIT_COUNT, 100, 100));
	assert_false(rule_at_least(&r, "blocks", UNIT_COUNT, 99, 100));
	assert_true(rule_at_most(&r, "bytes", UNIT_BYTES, 512, 512));
	assert_false(rule_at_most(&r, "bytes", UNIT_BYTES, 512.5, 512));
	assert_false(rule_at_least(&r, "nothing", UNIT_NUMBER, NAN, 0));
	assert_false(rule_at_most(&r, "nothing", UNIT_NUMBER, NAN, 0));
	assert_true(rule_fact(&r, "it is so", "it is not so", true));
	assert_false(rule_fact(&r, "it is so", "it is not so", false));
	assert_int_equal(r.count, 3); /* what held, and nothing else */
	assert_false(r.conditions[0].at_most);
	assert_true(r.conditions[1].at_most);
	assert_true(r.conditions[2].unit == UNIT_FACT);
}

/* With too many conditions the record is short, the decision is not. */
TEST(test_too_many_conditions)
{
	struct rule r = rule_begin("");
	for (int i = 0; i < 2 * RULE_CONDITIONS; i++)
		assert_true(rule_at_least(&r, "n", UNIT_COUNT, i, i));
	assert_int_equal(r.count, RULE_CONDITIONS);
	assert_false(rule_at_least(&r, "n", UNIT_COUNT, 1, 2));
}

static void expect_reversed(struct condition c, const char *words)
{
	assert_string_equal(condition_reversed(&c).text, words);
}

TEST(test_in_words)
{
	expect_reversed((struct condition){"steps", NULL, UNIT_COUNT, 4980, 100, false},
			"steps: fewer than 100 instead of 4,980");
	expect_reversed((struct condition){"unused", NULL, UNIT_BYTES, 94992, 16384, false},
			"unused: less than 16.0 KiB instead of 92.8 KiB");
	expect_reversed((struct condition){"mean", NULL, UNIT_BYTES, 27, 512, true},
			"mean: more than 512 bytes instead of 27 bytes");
	expect_reversed((struct condition){"share", NULL, UNIT_SHARE, 0.5, 0.125, false},
			"share: less than 12.5 % instead of 50.0 %");
	expect_reversed((struct condition){"growth", NULL, UNIT_RATE, 2048, 1024, false},
			"growth: less than 1.0 KiB a second instead of 2.0 KiB a second");
	expect_reversed((struct condition){"rate", NULL, UNIT_PER_SECOND, 2e6, 5e4, false},
			"rate: less than 50 thousand a second instead of 2.0 million a second");
	expect_reversed((struct condition){"wait", NULL, UNIT_TIME_NS, 2e6, 1e9, true},
			"wait: more than 1.00 s instead of 2 ms");
	expect_reversed((struct condition){"z", NULL, UNIT_NUMBER, 4.5, 3.09, false},
			"z: less than 3.09 instead of 4.5");
	expect_reversed((struct condition){"ended", "it ended by itself", UNIT_FACT, 1, 1, false},
			"it ended by itself");
}

/* Nearest first: by how many times the limit is passed. Facts and values of 0 have no such number. */
TEST(test_nearest_first)
{
	const struct condition list[] = {
		{"fact", "no fact", UNIT_FACT, 1, 1, false},
		{"far", NULL, UNIT_COUNT, 4980, 100, false}, /* 49.8 times */
		{"zero", NULL, UNIT_SHARE, 0, 0.5, true},
		{"half", NULL, UNIT_SHARE, 0.25, 0.5, true},    /* 2 times */
		{"near", NULL, UNIT_SHARE, 0.99, 0.9, false},   /* 1.1 times */
		{"limit", NULL, UNIT_BYTES, 1024, 1024, false}, /* 1 */
	};
	const struct finding f = {.conditions = list, .condition_count = 6};
	uint32_t order[6];
	assert_true(condition_margin(&list[0]) == 0 && condition_margin(&list[2]) == 0);
	assert_true(condition_margin(&list[3]) == 2 && condition_margin(&list[5]) == 1);
	assert_true(fabs(condition_margin(&list[4]) - 1.1) < 1e-9);
	conditions_by_margin(&f, order);
	static const uint32_t expected[] = {5, 4, 3, 1, 0, 2};
	assert_memory_equal(order, expected, sizeof expected);
}

/* ---- the rules of the diagnoses, on both sides of each limit */

static const struct condition *condition(const struct finding *f, const char *what)
{
	for (uint32_t i = 0; i < f->condition_count; i++)
		if (strcmp(f->conditions[i].what, what) == 0)
			return &f->conditions[i];
	fail_msg("no condition '%s'", what);
	return NULL;
}

/* Expects the finding if `found`, and then that this condition is exactly at its limit. */
static void expect_at_limit(struct profile *p, enum finding_kind kind, const char *what, bool found)
{
	struct findings *f = diagnose(p, 0);
	const struct finding *is = NULL;
	for (uint32_t i = 0; i < findings_count(f); i++)
		if (findings_get(f, i)->kind == kind)
			is = findings_get(f, i);
	if ((is != NULL) != found)
		fail_msg("%s: %s", what, is ? is->summary : "no finding");
	if (is) {
		assert_non_null(is->rule);
		assert_true(fabs(condition_margin(condition(is, what)) - 1) < 1e-9);
	}
	findings_free(f);
	profile_free(p);
}

TEST(test_growth_slack)
{
	/* The array has 80 KiB at the peak, of which `unused` are unused, in a heap of `heap` bytes. */
	static const struct {
		const char *what;
		uint64_t steps, unused, heap;
		bool found;
	} cases[] = {
		{"growth steps", 3, 20480, 1 << 20, true},
		{"growth steps", 2, 20480, 1 << 20, false},
		{"unused bytes at the peak", 9, 16384, 1 << 20, true},
		{"unused bytes at the peak", 9, 16383, 1 << 20, false},
		{"share of the peak heap that is unused here", 9, 20480, 2048000, true},
		{"share of the peak heap that is unused here", 9, 20480, 2048100, false},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct profile *p = new_profile(SECOND);
		add_site(p, "main:1 push:2", 1, 81920);
		add_site(p, "main:1 rest:2", 1, cases[i].heap - 81920);
		struct profile_growth *g = add_growth(p, 0);
		g->steps = cases[i].steps;
		g->measured_blocks = 1;
		g->measured_bytes = 81920;
		g->unused_bytes = cases[i].unused;
		expect_at_limit(p, FINDING_GROWTH_SLACK, cases[i].what, cases[i].found);
	}
}

TEST(test_allocator_rounding)
{
	/* 16,384 blocks of 12 bytes lose 4 each: a quarter, 64 KiB. */
	static const struct {
		const char *what;
		uint64_t blocks, bytes, slack, heap;
		bool found;
	} cases[] = {
		{"bytes of rounding and headers", 16384, 12, 4, 1 << 20, true},
		{"bytes of rounding and headers", 16383, 12, 4, 1 << 20, false},
		{"blocks at the peak", 1000, 100, 66, 1 << 20, true},
		{"blocks at the peak", 999, 100, 66, 1 << 20, false},
		{"share of rounding and headers in what the blocks take", 30000, 12, 4, 1 << 20,
		 true},
		{"share of rounding and headers in what the blocks take", 30000, 13, 4, 1 << 20,
		 false},
		{"bytes in a block on average", 1000, 512, 512, 1 << 20, true},
		{"bytes in a block on average", 1000, 513, 513, 1 << 20, false},
		{"rounding and headers, compared with the peak heap", 20000, 12, 4, 4000000, true},
		{"rounding and headers, compared with the peak heap", 20000, 12, 4, 4000100, false},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct profile *p = new_profile(SECOND);
		p->stacks.modules[0].path = "/usr/lib/libjemalloc.so.2"; /* no headers */
		add_site(p, "main:1 name:2", cases[i].blocks, cases[i].bytes)->peak_slack_bytes =
			cases[i].blocks * cases[i].slack;
		add_site(p, "main:1 rest:2", 1, cases[i].heap - cases[i].blocks * cases[i].bytes);
		expect_at_limit(p, FINDING_ALLOCATOR_ROUNDING, cases[i].what, cases[i].found);
	}
}

TEST(test_temporary_churn)
{
	static const struct {
		const char *what;
		uint64_t temporary, own, others, ms;
		bool found;
	} cases[] = {
		{"temporary blocks", 100000, 100000, 0, 1000, true},
		{"temporary blocks", 99999, 100000, 0, 1000, false},
		{"temporary blocks a second", 100000, 100000, 0, 2000, true},
		{"temporary blocks a second", 100000, 100000, 0, 2001, false},
		{"share of all allocations", 100000, 100000, 900000, 1000, true},
		{"share of all allocations", 100000, 100000, 900001, 1000, false},
		{"temporary share of the function's own blocks", 180000, 200000, 0, 1000, true},
		{"temporary share of the function's own blocks", 179999, 200000, 0, 1000, false},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct profile *p = new_profile(cases[i].ms * MS);
		struct profile_site *s = add_site(p, "main:1 format:2", cases[i].own, 10);
		s->temporary = cases[i].temporary;
		if (cases[i].others)
			add_site(p, "main:1 rest:2", cases[i].others, 10);
		expect_at_limit(p, FINDING_TEMPORARY_CHURN, cases[i].what, cases[i].found);
	}
}

/* ---- neighbours */

static struct profile *two_places(const char *one, const char *other)
{
	struct profile *p = new_profile(SECOND);
	add_site(p, one, 20000, 9)->peak_slack_bytes = 20000 * 15;
	add_site(p, other, 20000, 10)->peak_slack_bytes = 20000 * 14;
	add_site(p, "main:1 rest:2", 1, 1 << 20);
	return p;
}

TEST(test_neighbours)
{
	static const struct {
		const char *one, *other;
		uint32_t findings;
	} cases[] = {
		{"main:1 load:2 name:3", "main:1 load:5 value:6", 1}, /* one caller */
		{"main:1 load:2 name:3", "main:1 load:5", 1},         /* function and caller */
		{"main:1 load:2 name:3", "main:1 save:2 name:3", 1},  /* one function */
		{"main:1 name:3", "main:2 value:6", 2},               /* main calls everything */
		{"main:1 name:3", "main:2", 2},
		{"main:1 load:2 name:3", "main:1 save:5 value:6", 2}, /* nothing in common */
		{"main:1 load:2 a:3 name:4", "main:1 load:2 b:3 value:4", 2}, /* cousins */
		{"main:1 load:2 prog+0x10", "main:1 save:5 prog+0x900", 1},   /* nobody can tell */
		{"main:1 load:2 prog+0x10", "main:1 load:5 name:3", 2},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct profile *p = two_places(cases[i].one, cases[i].other);
		struct findings *f = diagnose(p, 0);
		if (count_of(f, FINDING_ALLOCATOR_ROUNDING) != cases[i].findings)
			fail_msg("case %zu: %u findings", i, findings_count(f));
		uint64_t sum = 0;
		for (uint32_t k = 0; k < findings_count(f); k++)
			sum += findings_get(f, k)->bytes;
		assert_int_equal(sum, 20000 * (15 + 8) + 20000 * (14 + 8));
		done(f, p);
	}
	struct profile *p = two_places("main:1 load:2 name:3", "main:1 load:5 value:6");
	struct findings *f = diagnose(p, 0);
	const struct finding *r = find(f, FINDING_ALLOCATOR_ROUNDING);
	expect_text(r->summary, "40,000 blocks from name (prog.c:3) and value (prog.c:6) hold 9.5");
	const struct evidence *places = evidence(r, "places");
	assert_int_equal(places->count, 2);
	assert_int_equal(places->parts[0].bytes, 20000 * 23);
	assert_string_equal(places->parts[1].function, "value");
	done(f, p);
}

/* Temporaries likewise: neither is enough alone. */
TEST(test_neighbours_that_make_temporaries)
{
	struct profile *p = new_profile(SECOND);
	for (int i = 0; i < 2; i++) {
		struct profile_site *s = add_site(
			p, i ? "main:1 run:2 key:3" : "main:1 run:5 value:6", 60000, 10);
		s->temporary = 60000;
	}
	struct findings *f = diagnose(p, 0);
	const struct finding *c = find(f, FINDING_TEMPORARY_CHURN);
	assert_non_null(c);
	assert_int_equal(evidence(c, "temporary")->number, 120000);
	expect_text(c->summary, "value (prog.c:6) and key (prog.c:3)");
	done(f, p);
}

/* ---- small arrays: one in 64 was examined */

static struct profile *rows_profile(uint64_t examined, uint64_t unused_each, uint64_t peak_rows)
{
	struct profile *p = new_profile(SECOND);
	add_site(p, "main:1 read:2 row:3", peak_rows, 192);
	struct profile_growth *g = add_growth(p, 0);
	g->steps = g->blocks = 12800;
	g->final_bytes = 12800 * 192;
	g->largest_bytes = 192;
	g->measured_blocks = examined;
	g->measured_bytes = examined * 192;
	g->unused_bytes = examined * unused_each;
	return p;
}

TEST(test_small_arrays)
{
	static const struct {
		uint64_t examined, unused_each, peak_rows, bytes; /* 0: no finding */
	} cases[] = {
		{200, 24, 12800, 12800 * 24}, {16, 24, 12800, 12800 * 24},
		{15, 24, 12800, 0},           /* too few to stand for the others */
		{200, 24, 1000, 1000 * 24},   /* they came and went */
		{200, 24, 25600, 12800 * 24}, /* half of them never grew: nothing is known of these */
		{200, 19, 12800, 0},          /* 9.9 % */
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct profile *p = rows_profile(cases[i].examined, cases[i].unused_each,
						 cases[i].peak_rows);
		struct findings *f = diagnose(p, 0);
		const struct finding *s = find(f, FINDING_GROWTH_SLACK);
		if ((s != NULL) != (cases[i].bytes != 0) || (s && s->bytes != cases[i].bytes))
			fail_msg("case %zu: %d", i, s ? (int)s->bytes : -1);
		if (s)
			expect_text(s->summary, "12,800 arrays grown at row (prog.c:3) hold");
		done(f, p);
	}
}

UNIT_TESTS(NULL, NULL)
