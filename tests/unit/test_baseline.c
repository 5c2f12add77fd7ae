/* Baselines: what is written of a profile built by hand, that it is read back, what survives a rebuild, and that files which
 * are no whole baselines are refused with their line. */
#include "profile/baseline.h"
#include "unit_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct budget_kind kinds[] = {{.name = "unbounded-queue"}};

static struct budget *parse(const char *text)
{
	struct budget *b;
	struct heft_error err = {0};
	if (budget_parse(&b, "b", text, strlen(text), kinds, 1, &err) < 0)
		fail_msg("%s", err.message);
	return b;
}

static struct baseline *parse_baseline(const char *text)
{
	struct baseline *b;
	struct heft_error err = {0};
	if (baseline_parse(&b, "base", text, strlen(text), kinds, 1, &err) < 0)
		fail_msg("%s", err.message);
	return b;
}

/* ---- a profile: stacks of "function" or "function@module", outermost first */

struct made {
	const char *stack[8];
	uint32_t line; /* of the innermost */
	uint64_t count, bytes;
};

static void add(struct profile *p, const struct made *m)
{
	uint32_t node = PROFILE_NONE, site;
	for (int i = 0; m->stack[i]; i++) {
		const char *at = strchr(m->stack[i], '@');
		struct profile_frame f = {.module = PROFILE_NONE};
		uint32_t frame;
		size_t length = at ? (size_t)(at - m->stack[i]) : strlen(m->stack[i]);
		f.function = name_pool_add_n(p->names, m->stack[i], length);
		f.line = m->stack[i + 1] ? 1 : m->line;
		if (at)
			assert_int_equal(profile_add_module(p, at + 1, NULL, 0, &f.module), 0);
		assert_int_equal(profile_add_frame(p, &f, &frame), 0);
		assert_int_equal(profile_add_node(p, node, frame, 0, &node), 0);
	}
	assert_int_equal(profile_add_site(p, node, 0, &site), 0);
	p->sites[site].allocations += m->count;
	p->sites[site].peak_bytes += m->bytes;
	p->sites[site].allocated_bytes += m->bytes;
	p->totals.allocations += m->count;
	p->totals.peak_bytes += m->bytes;
	p->totals.allocated_bytes += m->bytes;
}

static struct profile *make(const struct made *list, size_t count)
{
	struct profile *p = profile_new();
	p->run.has = PROFILE_HAS_PEAK | PROFILE_HAS_ALLOCATED | PROFILE_HAS_THREADS;
	for (size_t i = 0; i < count; i++)
		add(p, &list[i]);
	p->totals.threads = 2;
	profile_finish_sites(p);
	return p;
}

static char *text_of(const struct profile *p, const struct budget *rules)
{
	const struct baseline_source from = {
		.profile = p, .rules = rules, .kinds = kinds, .kind_count = 1};
	char *text;
	size_t size;
	assert_int_equal(baseline_text(&from, &text, &size), 0);
	assert_int_equal(strlen(text), size);
	return text;
}

#define HEAD                                                                                       \
	"# heft baseline 1\n# What the last accepted run measured. heft check --update-baseline "  \
	"renews this file.\n"

static const struct made first[] = {
	{{"main", "parse_row", "grow"}, 10, 40, 4000},
	{{"main", "parse_row", "grow"}, 12, 2, 500}, /* another line of the same function */
	{{"main", "visit", "visit", "visit", "leaf\\x"}, 3, 50, 2000}, /* a recursion */
	{{"main", "send@/usr/lib/libq.so.2.1"}, 4, 907, 3500},
	{{"main", "libq.so.2.1+0x1234@/usr/lib/libq.so.2.1"}, 0, 90, 90}, /* 9 % of the calls */
	{{"main", "tiny"}, 5, 1, 60}, /* less than a hundredth of everything */
	{{NULL}, 0, 9, 200},
};
enum { FIRST = sizeof first / sizeof *first };

TEST(text_is_exact)
{
	struct profile *p = make(first, FIRST);
	struct budget *rules = parse("peak_bytes <= baseline\n"
				     "allocations in parse_* <= baseline + 5 %\n"
				     "allocations in parse_* <= 100\n"
				     "allocations  in  \"t i\" <= 1\n"
				     "finding unbounded-queue == 0\n");
	char *text = text_of(p, rules);
	assert_string_equal(text, HEAD "peak_bytes == 10350\n"
				       "peak_blocks == 0\n"
				       "allocated_bytes == 10350\n"
				       "allocations == 1099\n"
				       "threads == 2\n"
				       "allocations in parse_* == 42\n"
				       "allocations  in  \"t i\" == 0\n"
				       "finding unbounded-queue == 0\n"
				       "\n"
				       "site peak_bytes=200 allocated_bytes=200 allocations=9\n"
				       "site peak_bytes=90 allocated_bytes=90 allocations=90\n"
				       "\t?\tlibq.so\n"
				       "\tmain\n"
				       "site peak_bytes=4500 allocated_bytes=4500 allocations=42\n"
				       "\tgrow\n"
				       "\tparse_row\n"
				       "\tmain\n"
				       "site peak_bytes=2000 allocated_bytes=2000 allocations=50\n"
				       "\tleaf\\x5cx\n"
				       "\tvisit\n"
				       "\tmain\n"
				       "site peak_bytes=3500 allocated_bytes=3500 allocations=907\n"
				       "\tsend\tlibq.so\n"
				       "\tmain\n"
				       "end 1\n");
	struct baseline *b = parse_baseline(text);
	assert_int_equal(b->measured->count, 8);
	assert_int_equal(b->measured->rules[3].limit, 1099);
	assert_int_equal(b->sites->site_count, 5);
	assert_int_equal(b->left_out, 1);
	baseline_free(b);
	free(text);
	budget_free(rules);
	profile_free(p);
}

/* The same run, rebuilt: other lines, another version of the library, a deeper recursion. */
static const struct made rebuilt[] = {
	{{"main", "parse_row", "grow"}, 30, 42, 4500},
	{{"main", "visit", "visit", "visit", "visit", "leaf\\x"}, 33, 50, 2000},
	{{"main", "send@/opt/libq.so.3"}, 34, 907, 3500},
	{{"main", "libq.so.3+0x99@/opt/libq.so.3"}, 0, 90, 90},
	{{"main", "tiny"}, 35, 1, 60},
	{{NULL}, 0, 9, 200},
};

static void find_growth(const char *text, const struct profile *p, const char *rule,
			struct budget_result *result)
{
	struct baseline *b = parse_baseline(text);
	struct budget *rules = parse(rule);
	budget_resolve(rules, b->measured);
	assert_int_equal(budget_measure(rules, p, NULL, 0, result), 0);
	assert_int_equal(baseline_find_growth(b, p, rules, result), 0);
	budget_free(rules);
	baseline_free(b);
}

TEST(a_rebuild_is_no_growth)
{
	struct profile *p = make(first, FIRST), *q = make(rebuilt, FIRST - 1);
	struct budget *rules = parse("dropped == 0\n");
	char *text = text_of(p, rules), *again = text_of(q, rules);
	struct budget_result result;
	assert_string_equal(text, again);
	find_growth(text, q, "peak_bytes <= baseline", &result);
	assert_true(result.holds);
	find_growth(text, q, "peak_bytes < baseline", &result);
	assert_false(result.holds);
	assert_int_equal(result.grown.count, 0);
	free(text);
	free(again);
	budget_free(rules);
	profile_free(p);
	profile_free(q);
}

TEST(what_grew_is_found)
{
	struct made more[FIRST + 1];
	struct budget_result r;
	struct profile *p = make(first, FIRST);
	struct budget *rules = parse("allocations in parse_* <= baseline");
	char *text = text_of(p, rules);
	memcpy(more, first, sizeof first);
	more[0].bytes += 700; /* grow */
	more[1].bytes += 50;
	more[3].bytes -= 600; /* send */
	more[5].bytes += 900; /* tiny: was not listed */
	more[FIRST] = (struct made){{"main", "parse_row", "added"}, 6, 3, 800};
	struct profile *q = make(more, FIRST + 1);
	find_growth(text, q, "peak_bytes <= baseline", &r);
	assert_false(r.holds);
	assert_int_equal(r.measured, 12200);
	assert_int_equal(r.grown.count, 3);
	/* 960 B now. It may have had 103 B: a listed site has at least 104 of 10,350. */
	assert_int_equal(r.grown.list[0].value, 960 - 103);
	assert_true(r.grown.list[0].unlisted);
	assert_int_equal(r.grown.list[1].value, 750);
	assert_false(r.grown.list[1].unlisted);
	uint32_t node = q->sites[r.grown.list[1].index].node;
	assert_string_equal(profile_node_frame(q, node)->function, "grow");
	assert_int_equal(profile_node_frame(q, node)->line, 10); /* the larger of the two */
	assert_int_equal(r.grown.list[2].value, 800 - 103);
	/* Of one part of the program: 1 % of 42 calls is no call at all. */
	find_growth(text, q, "allocations in parse_* <= baseline", &r);
	assert_int_equal(r.measured, 45);
	assert_int_equal(r.grown.count, 1);
	assert_int_equal(r.grown.list[0].value, 3);
	free(text);
	budget_free(rules);
	profile_free(p);
	profile_free(q);
}

/* Another libc: the user's frames are the same. */
TEST(frames_of_runtimes_may_change)
{
	static const struct made old[] = {
		{{"main", "load", "_IO_puts@/lib/libc.so.6"}, 1, 1, 1000}};
	static const struct made new[] = {
		{{"main", "load", "__GI__IO_puts@/lib/libc.so.6"}, 1, 1, 1400}};
	struct profile *p = make(old, 1), *q = make(new, 1);
	struct budget *rules = parse("dropped == 0");
	char *text = text_of(p, rules);
	struct budget_result r;
	find_growth(text, q, "peak_bytes <= baseline", &r);
	assert_int_equal(r.grown.count, 1);
	assert_int_equal(r.grown.list[0].value, 400);
	assert_false(r.grown.list[0].unlisted);
	free(text);
	budget_free(rules);
	profile_free(p);
	profile_free(q);
}

TEST(files_may_have_been_edited)
{
	/* Lines of Windows, numbers with units, a site twice. */
	struct baseline *b = parse_baseline(
		"# heft baseline 1\r\npeak_bytes == 2k\r\nsite peak_bytes=5\r\n"
		"\tmain\r\nsite peak_bytes=7\n\tmain\nend 0\r\n\r\n");
	assert_int_equal(b->measured->rules[0].limit, 2048);
	assert_int_equal(b->sites->site_count, 1);
	assert_int_equal(b->sites->sites[0].peak_bytes, 12);
	assert_string_equal(b->sites->stacks.frames[0].function, "main");
	baseline_free(b);
}

TEST(other_files_are_refused)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
		{"", "base:1:1: expected \"# heft baseline 1\", the first line of a baseline"},
		{"peak_bytes <= 20M\n",
		 "base:1:1: expected \"# heft baseline 1\", the first line of a baseline"},
		{"# heft baseline 2\n",
		 "base:1:17: expected version 1, the only one that this heft knows"},
		{"# heft baseline 1\npeak_bytes == 1\n",
		 "base:2:16: expected \"site\" or \"end\": the rest of the file is missing"},
		{"# heft baseline 1\nend 0\n",
		 "base:1:1: expected at least one rule, such as: peak_bytes <= 20M"},
		{"# heft baseline 1\n<<<<<<< HEAD\npeak_bytes == 1\nend 0\n",
		 "base:2:1: expected a measure (peak_bytes, live_bytes, allocations, ...) or "
		 "'finding', found '<<<<<<<'"},
		{"# heft baseline 1\npeak_bytes <= 1\nend 0\n",
		 "base:2: expected == and a number: a baseline says what was measured"},
		{"# heft baseline 1\npeak_bytes == baseline\nend 0\n",
		 "base:2: expected == and a number: a baseline says what was measured"},
		{"# heft baseline 1\npeak_bytes == 1\nsite peak_bytes=1\n\tmain",
		 "base:4:6: expected \"end\": the rest of the file is missing"},
		{"# heft baseline 1\npeak_bytes == 1\nsite peak_bytes=1\nmain\nend 0\n",
		 "base:4:1: expected \"site\", \"end\", or a tab and a function"},
		{"# heft baseline 1\npeak_bytes == 1\nsites\nend 0\n",
		 "base:3:5: expected a blank, the name of a measure, = and a whole number"},
		{"# heft baseline 1\npeak_bytes == 1\nsite peak_bytes=-1\nend 0\n",
		 "base:3:5: expected a blank, the name of a measure, = and a whole number"},
		{"# heft baseline 1\npeak_bytes == 1\nsite peak_bytes=99999999999999999999\nend "
		 "0\n",
		 "base:3:5: expected a blank, the name of a measure, = and a whole number"},
		{"# heft baseline 1\npeak_bytes == 1\nsite threads=1\nend 0\n",
		 "base:3:6: expected a measure of sites, such as peak_bytes"},
		{"# heft baseline 1\npeak_bytes == 1\nsite\n\tma\\n\nend 0\n",
		 "base:4:4: expected \\xNN, a byte in two digits that are not both 0"},
		{"# heft baseline 1\npeak_bytes == 1\nsite\n\tma\\x00in\nend 0\n",
		 "base:4:4: expected \\xNN, a byte in two digits that are not both 0"},
		{"# heft baseline 1\npeak_bytes == 1\nsite\n\tmain\ta\tb\nend 0\n",
		 "base:4:8: expected the end of the line behind the module"},
		{"# heft baseline 1\npeak_bytes == 1\nend\n",
		 "base:3:4: expected \"site\" or \"end\": the rest of the file is missing"},
		{"# heft baseline 1\npeak_bytes == 1\nend many\n",
		 "base:3:5: expected the number of sites that were left out"},
		{"# heft baseline 1\npeak_bytes == 1\nend 0\npeak_bytes == 2\n",
		 "base:4:1: expected nothing behind \"end\""},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct baseline *b;
		struct heft_error err = {0};
		assert_int_equal(baseline_parse(&b, "base", cases[i].text, strlen(cases[i].text),
						kinds, 1, &err),
				 HEFT_EFORMAT);
		assert_null(b);
		assert_string_equal(err.message, cases[i].message);
		assert_true(err.offset <= strlen(cases[i].text));
	}
}

/* Whatever is missing at the end, something is noticed. */
TEST(cut_files_are_refused)
{
	struct profile *p = make(first, FIRST);
	struct budget *rules = parse("dropped == 0");
	char *text = text_of(p, rules);
	for (size_t size = 0; size + 2 < strlen(text); size++) {
		struct baseline *b;
		assert_int_equal(baseline_parse(&b, "base", text, size, kinds, 1, NULL),
				 HEFT_EFORMAT);
	}
	free(text);
	budget_free(rules);
	profile_free(p);
}

UNIT_TESTS(NULL, NULL)
