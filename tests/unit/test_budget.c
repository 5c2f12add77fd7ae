/* Budgets: what files mean, what rules measure on a profile built by hand, and what --update makes
 * of them. */
#include "hosted/text_file.h"
#include "profile/budget.h"
#include "report/report_budget.h"
#include "unit_test.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct budget_kind kinds[] = {{.name = "unbounded-queue"}, {.name = "growth-slack"}};

static struct budget *parse(const char *text)
{
	struct budget *b;
	struct heft_error err = {0};
	if (budget_parse(&b, "b", text, strlen(text), kinds, 2, &err) < 0)
		fail_msg("%s", err.message);
	return b;
}

static void expect_bad(const char *text, size_t size, const char *message)
{
	struct budget *b;
	struct heft_error err = {0};
	assert_int_equal(budget_parse(&b, "b", text, size, kinds, 2, &err), HEFT_EFORMAT);
	assert_null(b);
	assert_string_equal(err.message, message);
}

TEST(rules_are_read)
{
	struct budget *b = parse("# a budget\n"
				 "\n"
				 "peak_bytes <= 20M   # comment\r\n"
				 "\tallocations in parse_* <1000\n"
				 "live_bytes==0\n"
				 "allocated_bytes in file:*/csv.c >= 1.5KiB\n"
				 "frees in \"std::vector<int, a>::f #1\" > 7\n"
				 "finding unbounded-queue == 0\n"
				 "duration_ns <= 2.5s\n"
				 "allocations in thread:worker-* <= 12\n"
				 "peak_blocks in module:libx.so* <= 12"); /* no newline */
	assert_int_equal(b->count, 9);
	const struct budget_rule *r = b->rules;
	assert_int_equal(r[0].line, 3);
	assert_string_equal(r[0].measure->name, "peak_bytes");
	assert_int_equal(r[0].op, BUDGET_AT_MOST);
	assert_int_equal(r[0].limit, 20 << 20);
	assert_memory_equal(b->text + r[0].at, "peak_bytes <= 20M", r[0].length);
	assert_int_equal(r[0].length, 17);
	assert_int_equal(r[1].line, 4);
	assert_int_equal(r[1].scope, BUDGET_IN_FUNCTION);
	assert_string_equal(r[1].pattern, "parse_*");
	assert_int_equal(r[1].op, BUDGET_BELOW);
	assert_int_equal(r[1].limit, 1000);
	assert_int_equal(r[2].op, BUDGET_EQUAL);
	assert_int_equal(r[2].limit, 0);
	assert_int_equal(r[3].scope, BUDGET_IN_FILE);
	assert_string_equal(r[3].pattern, "*/csv.c");
	assert_int_equal(r[3].op, BUDGET_AT_LEAST);
	assert_int_equal(r[3].limit, 1536);
	assert_string_equal(r[4].pattern, "std::vector<int, a>::f #1");
	assert_int_equal(r[4].op, BUDGET_ABOVE);
	assert_null(r[5].measure);
	assert_string_equal(r[5].finding->name, "unbounded-queue");
	assert_int_equal(r[6].limit, 2500000000);
	assert_string_equal(r[6].suffix, "s");
	assert_int_equal(r[7].scope, BUDGET_IN_THREAD);
	assert_int_equal(r[8].scope, BUDGET_IN_MODULE);
	assert_int_equal(r[8].limit, 12);
	budget_free(b);
}

TEST(limits_are_exact)
{
	static const struct {
		const char *text;
		uint64_t value;
	} cases[] = {
		{"peak_bytes <= 18446744073709551615", UINT64_MAX},
		{"peak_bytes <= 0.5k", 512},
		{"peak_bytes <= .25M", 262144},
		{"peak_bytes <= 1T", 1099511627776},
		{"peak_bytes <= 10kB", 10240},
		{"peak_bytes <= 7B", 7},
		{"peak_bytes <= 0.001k", 1}, /* 1.024, rounded */
		{"peak_time_ns <= 1.5us", 1500},
		{"peak_time_ns <= 2m", 120000000000},
		{"peak_time_ns <= 77", 77}, /* the name says ns */
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct budget *b = parse(cases[i].text);
		assert_int_equal(b->rules[0].limit, cases[i].value);
		budget_free(b);
	}
}

TEST(mistakes_are_located)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
		{"", "b:1:1: expected at least one rule, such as: peak_bytes <= 20M"},
		{"# nothing\n", "b:1:1: expected at least one rule, such as: peak_bytes <= 20M"},
		{"peak_bytes <= 1\n  peek_bytes <= 1",
		 "b:2:3: expected a measure (peak_bytes, live_bytes, allocations, ...) or "
		 "'finding', found 'peek_bytes'"},
		{"peak_byte <= 1",
		 "b:1:1: expected a measure, found 'peak_byte'; did you mean peak_bytes?"},
		{"peak_bytes =< 1", "b:1:12: expected 'in' or one of <= < >= > ==, found '=<'"},
		{"peak_bytes",
		 "b:1:11: expected 'in' or one of <= < >= > ==, found the line's end"},
		{"peak_bytes in f", "b:1:16: expected one of <= < >= > ==, found the line's end"},
		{"peak_bytes in", "b:1:14: expected a pattern such as parse_*, found nothing"},
		{"peak_bytes in \"f <= 1", "b:1:15: expected a second \" that ends the pattern"},
		{"peak_bytes in \"\" <= 1",
		 "b:1:16: expected a pattern such as parse_*, found nothing"},
		{"peak_bytes <= ",
		 "b:1:15: expected a size such as 4096, 64k, 1.5M or 2G, found the line's end"},
		{"peak_bytes <= 20X",
		 "b:1:15: expected a size such as 4096, 64k, 1.5M or 2G, found '20X'"},
		{"peak_bytes <= -1",
		 "b:1:15: expected a size such as 4096, 64k, 1.5M or 2G, found '-1'"},
		{"peak_bytes <= 1.5", "b:1:15: expected a whole number, found '1.5'"},
		{"peak_bytes <= 16777216T",
		 "b:1:15: expected a number below 2^64, found '16777216T'"},
		{"peak_bytes <= 99999999999999999999",
		 "b:1:15: expected a size such as 4096, 64k, 1.5M or 2G, found "
		 "'99999999999999999999'"},
		{"allocations <= 1k", "b:1:16: expected a whole number, found '1k'"},
		{"duration_ns <= 1M",
		 "b:1:16: expected a time such as 250ms, 1.5s or 2m, found '1M'"},
		{"peak_bytes <= 1 2",
		 "b:1:17: expected the end of the rule or a comment (#), found '2'"},
		{"peak_bytes <= 1#2",
		 "b:1:15: expected a size such as 4096, 64k, 1.5M or 2G, found '1#2'"},
		{"threads in f <= 1",
		 "b:1:9: expected an operator: threads is known for the whole run only"},
		{"peak_bytes in thread:f <= 1",
		 "b:1:12: expected an operator: peak_bytes is not counted by thread"},
		{"finding queue == 0",
		 "b:1:9: expected a kind of finding that this heft looks for (such as "
		 "unbounded-queue), found 'queue'"},
		{"finding unbounded == 0",
		 "b:1:9: expected a kind of finding, found 'unbounded'; did you mean "
		 "unbounded-queue?"},
		{"finding growth-slack in f == 0",
		 "b:1:22: expected an operator: findings are counted for the whole recording only"},
		{"\033[31m <= 1",
		 "b:1:1: expected a measure (peak_bytes, live_bytes, allocations, ...) or "
		 "'finding', found '?[31m'"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		expect_bad(cases[i].text, strlen(cases[i].text), cases[i].message);
	expect_bad("peak_bytes <= 1\nlive\0", 21, "b:2:5: expected text, found a zero byte");
}

/* ---- limits that are relative to a baseline */

TEST(relative_limits)
{
	static const struct {
		const char *rule;
		uint64_t limit; /* with a baseline of 1001 */
		bool lacking;
	} cases[] = {
		{"peak_bytes <= baseline", 1001, false},
		{"peak_bytes <= baseline + 5 %", 1052, false}, /* 1051.05, rounded up */
		{"peak_bytes <= baseline+5%", 1052, false},
		{"peak_bytes <= baseline + 0.1%  # comment", 1003, false},
		{"peak_bytes >= baseline-10%", 900, false},
		{"peak_bytes >= baseline - 200 %", 0, false},
		{"peak_bytes <= baseline + 1k", 2025, false},
		{"peak_bytes <= baseline - 1", 1000, false},
		{"allocations in f <= baseline + 7", 16, false},
		{"allocations in \"f\" == baseline", 9, false},
		{"allocations in function:f <= baseline", 9, false},
		{"allocations in file:f <= baseline", 0, true},
		{"allocations <= baseline", 0, true},
		{"finding unbounded-queue <= baseline", 2, false},
		{"finding growth-slack <= baseline", 0, true},
		{"duration_ns <= baseline + 10ms", UINT64_MAX, false}, /* does not wrap round */
	};
	struct budget *measured = parse("peak_bytes == 1001\nallocations in f == 9\n"
					"finding unbounded-queue == 2\n"
					"duration_ns == 18446744073709551000\n");
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct budget *b = parse(cases[i].rule);
		assert_ptr_equal(budget_first_relative(b), b->rules);
		budget_resolve(b, NULL);
		assert_true(b->rules[0].relative.lacking);
		budget_resolve(b, measured);
		assert_int_equal(b->rules[0].limit, cases[i].limit);
		assert_int_equal(b->rules[0].relative.lacking, cases[i].lacking);
		budget_free(b);
	}
	assert_null(budget_first_relative(measured));
	budget_free(measured);
	expect_bad("peak_bytes <= baselines", 23,
		   "b:1:15: expected a size such as 4096, 64k, 1.5M or 2G, found 'baselines'");
	expect_bad("peak_bytes <= baseline +", 24,
		   "b:1:25: expected a size such as 4096, 64k, 1.5M or 2G, found the line's end");
	expect_bad("peak_bytes <= baseline + 5 % more", 33,
		   "b:1:30: expected the end of the rule or a comment (#), found 'more'");
	expect_bad("peak_bytes <= baseline * 2", 26,
		   "b:1:24: expected the end of the rule or a comment (#), found '*'");
	expect_bad("peak_bytes <= baseline + 100001 %", 33,
		   "b:1:33: expected the end of the rule or a comment (#), found '%'");
}

/* ---- measuring */

static uint32_t add_stack(struct profile *p, uint32_t parent, const char *function,
			  const char *file, uint32_t module)
{
	struct profile_frame f = {.function = name_pool_add(p->names, function),
				  .file = name_pool_add(p->names, file),
				  .line = 7,
				  .module = module};
	uint32_t frame, node;
	assert_int_equal(profile_add_frame(p, &f, &frame), 0);
	assert_int_equal(profile_add_node(p, parent, frame, 0, &node), 0);
	return node;
}

static void add_site(struct profile *p, uint32_t node, uint64_t count, uint64_t bytes)
{
	uint32_t id;
	assert_int_equal(profile_add_site(p, node, 0, &id), 0);
	p->sites[id].allocations = count;
	p->sites[id].peak_bytes = p->sites[id].allocated_bytes = bytes;
	p->sites[id].cross_thread_frees = 2;
	p->totals.allocations += count;
	p->totals.peak_bytes += bytes;
	p->totals.allocated_bytes += bytes;
}

/* main > parse_row > grow 10 x 1000 B; > Csv::field(char const*, void (*)(int)) 5 x 300 B;
 * main > send 100 x 64 B in libq.so; a site without a stack 1 x 1 B. Worker threads 1 and 2. */
static struct profile *make(void)
{
	struct profile *p = profile_new();
	uint32_t program, library;
	assert_int_equal(profile_add_module(p, "/x/prog", NULL, 0, &program), 0);
	assert_int_equal(profile_add_module(p, "/lib/libq.so.2", NULL, 0, &library), 0);
	uint32_t m = add_stack(p, PROFILE_NONE, "main", "/src/main.c", program);
	uint32_t row = add_stack(p, m, "parse_row", "/src/csv/csv.c", program);
	add_site(p, add_stack(p, row, "grow", "/src/vec.c", program), 10, 1000);
	add_site(p,
		 add_stack(p, row, "Csv::field(char const*, void (*)(int)) const", "/src/csv/csv.c",
			   program),
		 5, 300);
	add_site(p, add_stack(p, m, "send", "/q/send.c", library), 100, 64);
	add_site(p, PROFILE_NONE, 1, 1);
	const struct profile_thread threads[] = {
		{.tid = 1, .name = "main", .allocations = 6, .allocated_bytes = 1},
		{.tid = 2, .name = "worker-1", .allocations = 70, .allocated_bytes = 1000},
		{.tid = 3, .name = "worker-2", .allocations = 40, .allocated_bytes = 364},
	};
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(profile_add_thread(p, &threads[i]), 0);
	p->totals.threads = 3;
	p->run.duration_ns = 5000000;
	profile_finish_sites(p);
	return p;
}

static const struct budget_finding found[] = {
	{"unbounded-queue", "first queue"},
	{"temporary-churn", "churn"},
	{"unbounded-queue", "second queue"},
};

TEST(rules_measure)
{
	static const struct {
		const char *rule;
		uint64_t measured;
		bool holds, unmatched;
		uint32_t parts;
	} cases[] = {
		{"peak_bytes <= 1365", 1365, true, false, 3},
		{"peak_bytes < 1365", 1365, false, false, 3},
		{"peak_bytes >= 1365", 1365, true, false, 3},
		{"peak_bytes > 1365", 1365, false, false, 3},
		{"peak_bytes == 1365", 1365, true, false, 3},
		{"peak_bytes == 1364", 1365, false, false, 3},
		{"allocations in parse_* <= 15", 15, true, false, 2}, /* anywhere in the stack */
		{"allocations in grow <= 9", 10, false, false, 1},
		{"allocations in main <= 114", 115, false, false, 3}, /* not the unknown stack */
		{"allocations in Csv::field <= 5", 5, true, false, 1},
		{"allocations in Csv::* <= 5", 5, true, false, 1},
		{"allocations in pars <= 5", 0, true, true, 0}, /* whole names */
		{"allocations in file:csv.c <= 15", 15, true, false, 2},
		{"allocations in file:/src/*.c <= 15", 115, false, false, 3}, /* main.c too */
		{"allocations in file:/q/* <= 15", 100, false, false, 1},
		{"allocations in module:libq.so* == 100", 100, true, false, 1},
		{"allocations in module:nothing == 0", 0, true, true, 0},
		{"allocations in thread:worker-* <= 100", 110, false, false, 2},
		{"allocated_bytes in thread:main == 1", 1, true, false, 1},
		{"allocations in thread:none == 0", 0, true, true, 0},
		{"cross_thread_frees <= 8", 8, true, false, 3}, /* has no total of its own */
		{"threads == 3", 3, true, false, 0},
		{"peak_rss_bytes <= 1", 0, true, true, 0}, /* was not measured */
		{"duration_ns <= 4ms", 5000000, false, false, 0},
		{"finding unbounded-queue == 0", 2, false, false, 2},
		{"finding growth-slack == 0", 0, true, false, 0},
	};
	struct profile *p = make();
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct budget *b = parse(cases[i].rule);
		struct budget_result r;
		assert_int_equal(budget_measure(b, p, found, 3, &r), 0);
		if (r.measured != cases[i].measured || r.holds != cases[i].holds ||
		    r.unmatched != cases[i].unmatched || r.parts.count != cases[i].parts)
			fail_msg("%s: measured %llu, holds %d, unmatched %d, parts %u",
				 cases[i].rule, (unsigned long long)r.measured, r.holds,
				 r.unmatched, r.parts.count);
		for (uint32_t k = 1; k < r.parts.count; k++)
			assert_true(r.parts.list[k - 1].value >= r.parts.list[k].value);
		budget_free(b);
	}
	profile_free(p);
}

/* Foreign files do not tell everything: what is not known cannot hold, and is no 0. */
TEST(what_is_not_told_does_not_hold)
{
	struct profile *p = make();
	p->run.has = PROFILE_HAS_LIVE | PROFILE_HAS_ALLOCATED;
	struct budget *b = parse("temporary <= 5\nallocations <= 1000\npeak_bytes in main == 0\n");
	struct budget_result r[3];
	enum budget_update updates[3];
	char *text;
	size_t size;
	assert_int_equal(budget_measure(b, p, NULL, 0, r), 0);
	assert_true(r[0].unknown && !r[0].holds);
	assert_true(!r[1].unknown && r[1].holds);
	assert_true(r[2].unknown && !r[2].holds);
	assert_int_equal(budget_renew(b, r, 0, updates, &text, &size), 0);
	assert_string_equal(text, "temporary <= 5\nallocations <= 116\npeak_bytes in main == 0\n");
	assert_int_equal(updates[0], BUDGET_KEPT_BROKEN);
	free(text);
	budget_free(b);
	profile_free(p);
}

/* An estimate breaks a rule beyond its error only, but one of 0 by any sample. */
TEST(estimates_have_room)
{
	static const struct {
		const char *rule;
		bool holds;
	} cases[] = {
		{"live_bytes <= 900", true},      {"live_bytes <= 803", false},
		{"live_bytes < 805", true},       {"live_bytes >= 1196", true},
		{"live_bytes >= 1197", false},    {"live_bytes == 1100", true},
		{"live_bytes == 1300", false},    {"live_bytes <= 0", false},
		{"live_bytes == 0", false},       {"live_bytes in f <= 803", false},
		{"live_bytes in f <= 805", true}, {"live_bytes in nothing <= 0", true},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct profile *p = profile_new();
		add_site(p, add_stack(p, PROFILE_NONE, "f", "f.c", PROFILE_NONE), 10, 1000);
		p->run.has = PROFILE_HAS_LIVE;
		p->totals.live_bytes = p->sites[0].live_bytes = 1000;
		p->estimates.spreads = calloc(2, sizeof *p->estimates.spreads);
		p->estimates.errors = calloc(2, sizeof *p->estimates.errors);
		assert_true(p->estimates.spreads && p->estimates.errors);
		p->estimates.spreads[0].live_bytes = 10000; /* of a standard error of 100 */
		p->estimates.spreads[0].live_samples = 5;
		p->estimates.total_spread = p->estimates.spreads[0];
		profile_compute_errors(p);
		struct budget *b = parse(cases[i].rule);
		struct budget_result r;
		assert_int_equal(budget_measure(b, p, NULL, 0, &r), 0);
		if (r.holds != cases[i].holds)
			fail_msg("%s: error %llu", cases[i].rule, (unsigned long long)r.error95);
		budget_free(b);
		profile_free(p);
	}
}

TEST(sums_saturate)
{
	struct profile *p = make();
	p->sites[0].allocations = p->sites[1].allocations = UINT64_MAX;
	struct budget *b = parse("allocations in main <= 1000");
	struct budget_result r;
	assert_int_equal(budget_measure(b, p, NULL, 0, &r), 0);
	assert_true(r.measured == UINT64_MAX && !r.holds);
	budget_free(b);
	profile_free(p);
}

/* ---- renewing */

/* One rule, one measured value; returns what the rule becomes. */
static const char *renewed(const char *rule, uint64_t measured, uint32_t ppm,
			   enum budget_update expected)
{
	static char kept[128];
	struct budget *b = parse(rule), *again;
	struct budget_result r = {.measured = measured};
	enum budget_update update;
	char *text;
	size_t size;
	switch (b->rules[0].op) {
	case BUDGET_EQUAL: r.holds = measured == b->rules[0].limit; break;
	default: break;
	}
	assert_int_equal(budget_renew(b, &r, ppm, &update, &text, &size), 0);
	if (update != expected)
		fail_msg("%s became %s (%d)", rule, text, update);
	snprintf(kept, sizeof kept, "%s", text);
	/* Whatever comes out is a budget, and what was measured holds under it. */
	again = parse(text);
	if (update == BUDGET_CHANGED) {
		uint64_t limit = again->rules[0].limit;
		switch (again->rules[0].op) {
		case BUDGET_AT_MOST: assert_true(measured <= limit); break;
		case BUDGET_BELOW: assert_true(measured < limit); break;
		case BUDGET_AT_LEAST: assert_true(measured >= limit); break;
		case BUDGET_ABOVE: assert_true(measured > limit); break;
		case BUDGET_EQUAL: assert_true(measured == limit); break;
		}
	}
	free(text);
	budget_free(again);
	budget_free(b);
	return kept;
}

TEST(limits_are_renewed)
{
	const uint32_t ten = 100000; /* 10 % */
#define EXPECT(rule, measured, ppm, update, text)                                                  \
	assert_string_equal(renewed(rule, measured, ppm, update), text)
	EXPECT("allocations <= 5", 1000, ten, BUDGET_CHANGED, "allocations <= 1100");
	EXPECT("allocations <= 5", 1001, ten, BUDGET_CHANGED, "allocations <= 1102"); /* up */
	EXPECT("allocations < 5", 1000, ten, BUDGET_CHANGED, "allocations < 1101");
	EXPECT("allocations >= 5", 1000, ten, BUDGET_CHANGED, "allocations >= 900");
	EXPECT("allocations > 5", 1000, ten, BUDGET_CHANGED, "allocations > 899");
	EXPECT("allocations > 5", 1, ten, BUDGET_CHANGED, "allocations > 0");
	EXPECT("allocations <= 5", 0, ten, BUDGET_CHANGED, "allocations <= 0");
	EXPECT("allocations <= 1100", 1000, ten, BUDGET_KEPT, "allocations <= 1100");
	/* In the unit that was written, rounded to the loose side. */
	EXPECT("peak_bytes <= 20M", 10 << 20, ten, BUDGET_CHANGED, "peak_bytes <= 11M");
	EXPECT("peak_bytes <= 20M", (10 << 20) + 1, ten, BUDGET_CHANGED, "peak_bytes <= 11.1M");
	EXPECT("peak_bytes >= 20M", (10 << 20) + 1, ten, BUDGET_CHANGED, "peak_bytes >= 9M");
	EXPECT("peak_bytes <= 20M", 5000, 0, BUDGET_CHANGED, "peak_bytes <= 4.89k");
	EXPECT("peak_bytes <= 20GiB", 3000000000, 0, BUDGET_CHANGED, "peak_bytes <= 2.8G");
	EXPECT("peak_bytes <= 20K", 500, 0, BUDGET_CHANGED, "peak_bytes <= 500");
	EXPECT("peak_bytes <= 20000", 12345, ten, BUDGET_CHANGED, "peak_bytes <= 13580");
	EXPECT("duration_ns <= 2s", 2500000000, ten, BUDGET_CHANGED, "duration_ns <= 2.75s");
	EXPECT("duration_ns <= 2s", 1234567, 0, BUDGET_CHANGED, "duration_ns <= 1.24ms");
	EXPECT("duration_ns <= 2s", 12, 0, BUDGET_CHANGED, "duration_ns <= 12ns");
	EXPECT("peak_bytes <= 1T", UINT64_MAX, ten, BUDGET_CHANGED,
	       "peak_bytes <= 18446744073709551615");
#undef EXPECT
}

TEST(equal_is_not_loosened)
{
	assert_string_equal(renewed("live_bytes == 0", 40, 100000, BUDGET_KEPT_BROKEN),
			    "live_bytes == 0");
	assert_string_equal(renewed("finding unbounded-queue == 0", 1, 100000, BUDGET_KEPT_BROKEN),
			    "finding unbounded-queue == 0");
	assert_string_equal(renewed("live_bytes == 0", 0, 100000, BUDGET_KEPT), "live_bytes == 0");
	assert_string_equal(renewed("threads == 4", 4, 100000, BUDGET_KEPT), "threads == 4");
	/* A number that is pinned is pinned anew, without headroom. */
	assert_string_equal(renewed("threads == 4", 6, 100000, BUDGET_CHANGED), "threads == 6");
	assert_string_equal(renewed("peak_bytes == 4k", 8192, 100000, BUDGET_CHANGED),
			    "peak_bytes == 8k");
	assert_string_equal(renewed("peak_bytes == 4k", 8193, 100000, BUDGET_CHANGED),
			    "peak_bytes == 8193");
	assert_string_equal(renewed("frees > 0", 0, 100000, BUDGET_KEPT_BROKEN), "frees > 0");
	/* This limit comes from somewhere else. */
	assert_string_equal(renewed("frees == baseline", 0, 100000, BUDGET_KEPT),
			    "frees == baseline");
	assert_string_equal(renewed("frees <= baseline + 5 %", 7, 100000, BUDGET_KEPT_BROKEN),
			    "frees <= baseline + 5 %");
}

TEST(the_rest_of_the_file_stays)
{
	struct budget *b = parse("# head\r\n\r\n  peak_bytes   <=\t20M   # why\r\n"
				 "allocations in gone <= 7 # gone\n"
				 "live_bytes == 0\n# tail");
	struct budget_result r[] = {
		{.measured = 1 << 20},
		{.measured = 0, .holds = true, .unmatched = true},
		{.measured = 0, .holds = true},
	};
	enum budget_update updates[3];
	char *text;
	size_t size;
	assert_int_equal(budget_renew(b, r, 500000, updates, &text, &size), 0);
	assert_string_equal(text, "# head\r\n\r\n  peak_bytes   <=\t1.5M   # why\r\n"
				  "allocations in gone <= 7 # gone\n"
				  "live_bytes == 0\n# tail");
	assert_int_equal(size, strlen(text));
	assert_int_equal(updates[0], BUDGET_CHANGED);
	assert_int_equal(updates[1], BUDGET_KEPT_UNMATCHED);
	assert_int_equal(updates[2], BUDGET_KEPT);
	free(text);
	budget_free(b);
}

TEST(files_are_replaced_whole)
{
	char folder[] = "/tmp/heft-budget-XXXXXX", path[64], link[64], *text;
	size_t size;
	struct stat st;
	struct heft_error err = {0};
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/b", folder);
	snprintf(link, sizeof link, "%s/link", folder);
	assert_int_equal(text_file_read(path, "a budget", 16, &text, &size, &err), HEFT_ENOTFOUND);
	assert_int_equal(text_file_replace(path, "one", 3, &err), 0);
	assert_int_equal(chmod(path, 0640), 0);
	assert_int_equal(symlink("b", link), 0);
	assert_int_equal(text_file_replace(link, "two\n", 4, &err), 0);
	assert_int_equal(lstat(link, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(text_file_read(path, "a budget", 16, &text, &size, &err), 0);
	assert_int_equal(size, 4);
	assert_memory_equal(text, "two\n", 4);
	free(text);
	assert_int_equal(text_file_read(path, "a budget", 3, &text, &size, &err), HEFT_EFORMAT);
	assert_int_equal(unlink(link), 0);
	assert_int_equal(mkfifo(link, 0600), 0); /* what is no file is written to, not replaced */
	int fd = open(link, O_RDONLY | O_NONBLOCK);
	char got[8];
	assert_int_equal(text_file_replace(link, "three", 5, &err), 0);
	assert_int_equal(read(fd, got, sizeof got), 5);
	close(fd);
	assert_int_equal(unlink(link), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(folder), 0); /* nothing was left beside it */
	snprintf(path, sizeof path, "%s/b", folder);
	assert_int_equal(text_file_replace(path, "x", 1, &err), HEFT_EIO);
}

TEST(starter_is_a_budget)
{
	struct budget *b = parse(budget_starter);
	assert_true(b->count >= 4);
	budget_free(b);
}

TEST(text_explains)
{
	struct profile *p = make();
	struct budget *b = parse("peak_bytes <= 1k\nallocations in send <= 99\n"
				 "finding unbounded-queue == 0\nthreads <= 6\n");
	struct budget_result results[4];
	assert_int_equal(budget_measure(b, p, found, 3, results), 0);
	struct report_budget r = {.budget = b,
				  .results = results,
				  .findings = found,
				  .profile = p,
				  .recording = "a.heft"};
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	assert_int_equal(report_budget_broken(&r), 3);
	assert_int_equal(report_budget_text(out, &r), 0);
	fclose(out);
	assert_string_equal(
		text,
		"over budget: 3 of 4 rules of b do not hold\n"
		"\n"
		"  line  rule                                 limit      measured  off by\n"
		"     1  peak_bytes <= 1k                   1.0 KiB       1.3 KiB  +341 B (+33.3 "
		"%)\n"
		"            1000 B   73.3 %  grow at /src/vec.c:7 [malloc]\n"
		"             300 B   22.0 %  Csv::field(..) const at /src/csv/csv.c:7 [malloc]\n"
		"              64 B    4.7 %  send at /q/send.c:7 [malloc]\n"
		"     2  allocations in send <= 99               99           100  +1 (+1.0 %)\n"
		"               100  100.0 %  send at /q/send.c:7 [malloc]\n"
		"     3  finding unbounded-queue == 0             0             2  +2\n"
		"        first queue\n"
		"        second queue\n"
		"\n"
		"Next: heft report a.heft\n");
	free(text);
	budget_free(b);
	b = parse("peak_bytes <= 2730\nallocations in nothing <= 9\nthreads <= 6\n");
	assert_int_equal(budget_measure(b, p, found, 3, results), 0);
	r.budget = b;
	out = open_memstream(&text, &size);
	assert_int_equal(report_budget_text(out, &r), 0);
	fclose(out);
	assert_string_equal(
		text,
		"  ! line 2: no function that allocates matches nothing: this rule measures "
		"nothing\n"
		"within budget: all 3 rules of b hold; nearest: peak_bytes <= 2730 (50.0 %)\n");
	free(text);
	budget_free(b);
	profile_free(p);
}

/* A note of two lines is wrapped as in a report; so is a finding. Of four rules that do not hold the
 * last one is explained too. */
TEST(text_is_wrapped_and_whole)
{
	static const struct budget_finding queue[] = {
		{"unbounded-queue",
		 "messages of one thread wait for another one that cannot keep up, "
		 "and there is no end to it"}};
	struct profile *p = make();
	assert_int_equal(
		profile_add_note(p, PROFILE_NOTE_WARNING, 0,
				 "most of this program's memory does not come from malloc.\n"
				 "It maps memory itself"),
		0);
	struct budget *b = parse("peak_bytes <= 1k\npeak_bytes <= 1k\npeak_bytes <= 1k\n"
				 "allocations in send <= 99\nfinding unbounded-queue == 0\n");
	struct budget_result results[5];
	assert_int_equal(budget_measure(b, p, queue, 1, results), 0);
	struct report_budget r = {
		.budget = b, .results = results, .findings = queue, .profile = p, .width = 80};
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	assert_int_equal(report_budget_text(out, &r), 0);
	fclose(out);
	assert_memory_equal(
		text,
		"  ! most of this program's memory does not come from malloc. It maps memory\n"
		"    itself\nover budget: 5 of 5 rules",
		106);
	assert_non_null(strstr(text,
			       "allocations in send <= 99               99           100  "
			       "+1 (+1.0 %)\n"
			       "               100  100.0 %  send at /q/send.c:7 [malloc]\n"));
	assert_non_null(strstr(text,
			       "\n        messages of one thread wait for another one that cannot "
			       "keep up, and\n        there is no end to it\n"));
	free(text);
	budget_free(b);
	profile_free(p);
}

/* ---- what test suites read */

static char *written(int (*write)(FILE *, const struct report_budget *),
		     const struct report_budget *r)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	if (write)
		assert_int_equal(write(out, r), 0);
	else
		assert_int_equal(report_budget_github(out, r, "/src/"), 0);
	fclose(out);
	return text;
}

/* A site of the repository, one outside of it, no site at all, and a rule that cannot be judged. */
TEST(suites_get_rule_numbers_and_place)
{
	static const char *const argv[] = {"./a<b", "x y"};
	struct profile *p = make();
	struct budget *b = parse("peak_bytes in parse_* <= 1k  # 50 % of it\n"
				 "allocations in send <= 99\n"
				 "finding unbounded-queue == 0\n"
				 "peak_bytes <= 1G\n"
				 "unreachable_bytes in \"<&,\" == 0\n");
	struct budget_result results[5];
	p->run.argv = (const char **)argv;
	p->run.argc = 2;
	assert_int_equal(budget_measure(b, p, found, 3, results), 0);
	const struct report_budget r = {
		.budget = b, .results = results, .findings = found, .profile = p};
	char *text = written(report_budget_junit, &r);
	assert_string_equal(
		text,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<testsuites>\n"
		"  <testsuite name=\"b\" tests=\"5\" failures=\"3\" errors=\"1\" skipped=\"0\">\n"
		"    <properties><property name=\"command\" value=\"./a&lt;b x y\"/></properties>\n"
		"    <testcase classname=\"a&lt;b\" name=\"peak_bytes in parse_* &lt;= 1k\" "
		"file=\"b\" line=\"1\">\n"
		"      <failure message=\"peak_bytes in parse_* &lt;= 1k: measured 1.3 KiB, limit "
		"1.0 KiB, off by +276 B (+27.0 %)\">peak_bytes in parse_* &lt;= 1k: measured 1.3 "
		"KiB, limit 1.0 KiB, off by +276 B (+27.0 %)\n"
		"            1000 B   76.9 %  grow at /src/vec.c:7 [malloc]\n"
		"             300 B   23.1 %  Csv::field(char const*, void (*)(int)) const at "
		"/src/csv/csv.c:7 [malloc]</failure>\n"
		"    </testcase>\n"
		"    <testcase classname=\"a&lt;b\" name=\"allocations in send &lt;= 99\" "
		"file=\"b\" line=\"2\">\n"
		"      <failure message=\"allocations in send &lt;= 99: measured 100, limit 99, "
		"off by +1 (+1.0 %)\">allocations in send &lt;= 99: measured 100, limit 99, off by "
		"+1 (+1.0 %)\n"
		"               100  100.0 %  send at /q/send.c:7 [malloc]</failure>\n"
		"    </testcase>\n"
		"    <testcase classname=\"a&lt;b\" name=\"finding unbounded-queue == 0\" "
		"file=\"b\" line=\"3\">\n"
		"      <failure message=\"finding unbounded-queue == 0: measured 2, limit 0, off "
		"by +2\">finding unbounded-queue == 0: measured 2, limit 0, off by +2\n"
		"        first queue\n"
		"        second queue</failure>\n"
		"    </testcase>\n"
		"    <testcase classname=\"a&lt;b\" name=\"peak_bytes &lt;= 1G\" file=\"b\" "
		"line=\"4\"/>\n"
		"    <testcase classname=\"a&lt;b\" name=\"unreachable_bytes in "
		"&quot;&lt;&amp;,&quot; == 0\" file=\"b\" line=\"5\">\n"
		"      <error message=\"unreachable_bytes in &quot;&lt;&amp;,&quot; == 0: cannot "
		"be judged: no heap was looked at (heft run --leaks)\">unreachable_bytes in "
		"&quot;&lt;&amp;,&quot; == 0: cannot be judged: no heap was looked at (heft run "
		"--leaks)</error>\n"
		"    </testcase>\n"
		"  </testsuite>\n"
		"</testsuites>\n");
	free(text);
	text = written(NULL, &r);
	assert_string_equal(
		text,
		"::error file=vec.c,line=7,title=heft%3A over budget::peak_bytes in parse_* <= 1k: "
		"measured 1.3 KiB, limit 1.0 KiB, off by +276 B (+27.0 %25)"
		"%0A            1000 B   76.9 %25  grow at /src/vec.c:7 [malloc]"
		"%0A             300 B   23.1 %25  Csv::field(char const*, void (*)(int)) const at "
		"/src/csv/csv.c:7 [malloc]\n"
		"::error file=b,line=2,title=heft%3A over budget::allocations in send <= 99: "
		"measured "
		"100, limit 99, off by +1 (+1.0 %25)"
		"%0A               100  100.0 %25  send at /q/send.c:7 [malloc]\n"
		"::error file=b,line=3,title=heft%3A over budget::finding unbounded-queue == 0: "
		"measured 2, limit 0, off by +2%0A        first queue%0A        second queue\n"
		"::error file=b,line=5,title=heft%3A budget not judged::unreachable_bytes in "
		"\"<&,\" == "
		"0: cannot be judged: no heap was looked at (heft run --leaks)\n");
	free(text);
	budget_free(b);
	p->run.argv = NULL;
	p->run.argc = 0;
	profile_free(p);
}

TEST(paths_begin_at_the_repository)
{
	static const struct {
		const char *file, *path;
	} cases[] = {
		{"/src/a.c", "a.c"},
		{"/src/build/../lib/./a,b:c%.c", "lib/a%2Cb%3Ac%25.c"},
		{"/src//x/../../src/a.c", "a.c"},
		{"/srcs/a.c", NULL}, /* another folder */
		{"/src/../etc/a.c", NULL},
		{"lib/a.c", "lib/a.c"}, /* the compiler said no more */
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct profile *p = profile_new();
		struct budget *b = parse("allocations < 1");
		struct budget_result result;
		char expected[128];
		add_site(p, add_stack(p, PROFILE_NONE, "f", cases[i].file, PROFILE_NONE), 1, 1);
		assert_int_equal(budget_measure(b, p, NULL, 0, &result), 0);
		const struct report_budget r = {.budget = b, .results = &result, .profile = p};
		char *text = written(NULL, &r);
		snprintf(expected, sizeof expected, "::error file=%s,line=%d,",
			 cases[i].path ? cases[i].path : "b", cases[i].path ? 7 : 1);
		assert_memory_equal(text, expected, strlen(expected));
		free(text);
		budget_free(b);
		profile_free(p);
	}
}

TEST(changes_are_a_table)
{
	struct profile *p = make();
	struct budget *b = parse("peak_bytes <= baseline\nallocations <= 200\n"
				 "allocations in thread:worker-* <= baseline + 90\n"
				 "threads <= baseline\n");
	struct budget *was = parse("peak_bytes == 1000\nallocations == 116\nfrees == 9\n"
				   "allocations in thread:worker-* == 10\nthreads == 3\n"
				   "finding unbounded-queue == 5\n");
	struct budget_result results[4], now[6];
	budget_resolve(b, was);
	assert_int_equal(budget_measure(b, p, found, 3, results), 0);
	assert_int_equal(budget_measure(was, p, found, 3, now), 0);
	const struct report_baseline baseline = {.name = "base", .measured = was, .now = now};
	const struct report_budget r = {.budget = b,
					.results = results,
					.findings = found,
					.profile = p,
					.baseline = &baseline};
	char *text = written(report_budget_text, &r);
	assert_string_equal(
		strstr(text, "\n3 of 5"),
		"\n"
		"3 of 5 numbers differ from the baseline base\n"
		"\n"
		"  measure                             baseline           now  change              "
		"       limit\n"
		"  peak_bytes                            1000 B       1.3 KiB  +365 B (+36.5 %)    "
		"       <= 1000 B, broken\n"
		"  frees                                      9             0  -9 (-100.0 %)\n"
		"  allocations in thread:worker-*            10           110  +100 (x 11)         "
		"       <= 100, broken\n"
		"\n"
		"If this is intended, --update-baseline accepts what was measured.\n"
		"\n"
		"Next: run this again with -o FILE to keep the recording for heft report\n");
	free(text);
	budget_free(b);
	budget_free(was);
	profile_free(p);
}

UNIT_TESTS(NULL, NULL)
