/* Reports of the recording in recording_fixture.h: JSON read back by another library, text by its
 * lines; and the writers' own promises (escapes, UTF-8, rounding, folding). */
#include "hosted/json_writer.h"
#include "report/report_words.h"

#include "findings_double.h"
#include "profile_fixture.h"
#include "report_fixture.h"

#include <jansson.h>

static json_t *parse(const char *text)
{
	json_error_t why;
	json_t *j = json_loads(text, JSON_REJECT_DUPLICATES, &why);
	if (!j)
		fail_msg("line %d: %s in %s", why.line, why.text, text);
	return j;
}

static long long number(json_t *object, const char *key)
{
	json_t *value = json_object_get(object, key);
	if (!json_is_integer(value))
		fail_msg("%s is no integer", key);
	return json_integer_value(value);
}

static const char *string(json_t *object, const char *key)
{
	json_t *value = json_object_get(object, key);
	if (!json_is_string(value))
		fail_msg("%s is no string", key);
	return json_string_value(value);
}

TEST(test_json)
{
	struct profile *p = load(&(struct profile_selection){.process_totals = true});
	char *text = text_of(report_json, p, &(struct report_options){.limit = REPORT_ALL});
	json_t *j = parse(text), *totals = json_object_get(j, "totals");
	assert_int_equal(number(j, "schema"), 1);
	assert_non_null(string(j, "heft"));
	assert_int_equal(number(j, "pid"), 100);
	assert_string_equal(string(j, "mode"), "exact");
	assert_int_equal(number(j, "rate_bytes"), 0);
	assert_string_equal(string(j, "start"), "2023-11-14T22:13:20Z");
	assert_int_equal(number(j, "duration_ns"), 20000);
	assert_string_equal(string(j, "end"), "exit");
	assert_int_equal(number(j, "exit_status"), 3);
	assert_int_equal(number(j, "signal"), 0);
	json_t *command = json_object_get(j, "command");
	assert_int_equal(json_array_size(command), 3);
	assert_string_equal(json_string_value(json_array_get(command, 1)), "\033[31mred");
	assert_string_equal(json_string_value(json_array_get(command, 2)), "\xef\xbf\xbd\"");
	assert_int_equal(number(totals, "allocations"), 5);
	assert_int_equal(number(totals, "reallocations"), 1);
	assert_int_equal(number(totals, "frees"), 3);
	assert_int_equal(number(totals, "allocated_bytes"), 690);
	assert_int_equal(number(totals, "peak_bytes"), 630);
	assert_int_equal(number(totals, "peak_blocks"), 3);
	assert_int_equal(number(totals, "peak_time_ns"), 6000);
	assert_int_equal(number(totals, "live_bytes"), 110);
	assert_int_equal(number(totals, "live_blocks"), 2);
	assert_int_equal(number(totals, "temporary"), 1);
	assert_int_equal(number(totals, "threads"), 3);
	assert_int_equal(number(totals, "dropped"), 7);
	assert_int_equal(number(totals, "peak_rss_bytes"), 2500);
	assert_int_equal(number(totals, "unknown_frees"), 2);

	json_t *sites = json_object_get(j, "sites"), *site;
	size_t i;
	long long peak = 0, allocations = 0, live = 0;
	assert_int_equal(json_array_size(sites), 5);
	json_array_foreach(sites, i, site)
	{
		peak += number(site, "peak_bytes");
		allocations += number(site, "allocations");
		live += number(site, "live_bytes");
		assert_int_equal(number(site, "id"), (long long)i + 1);
		assert_true(json_array_size(json_object_get(site, "stack")) > 0);
	}
	assert_int_equal(peak, 630);
	assert_int_equal(allocations, 5);
	assert_int_equal(live, 110);
	site = json_array_get(sites, 1); /* line 5, malloc */
	assert_string_equal(string(site, "via"), "malloc");
	assert_int_equal(number(site, "own_peak_bytes"), 150);
	assert_int_equal(number(site, "reallocated_bytes"), 0);
	assert_int_equal(number(site, "cross_thread_frees"), 0);
	json_t *lifetime = json_object_get(site, "lifetime_ns");
	assert_int_equal(number(lifetime, "mean"), 5500);
	assert_int_equal(number(lifetime, "p50"), 2048);
	assert_int_equal(number(lifetime, "p99"), 9000);
	assert_int_equal(number(lifetime, "max"), 9000);
	json_t *stack = json_object_get(site, "stack");
	assert_int_equal(json_array_size(stack), 2);
	json_t *frame = json_array_get(stack, 0);
	assert_string_equal(string(frame, "function"), "f");
	assert_non_null(strstr(string(frame, "file"), "/prog.c"));
	assert_int_equal(number(frame, "line"), 5);
	assert_string_equal(string(frame, "module"), fixture_program);
	assert_int_equal(strncmp(string(frame, "address"), "0x", 2), 0);
	assert_true(json_is_false(json_object_get(frame, "inlined")));
	assert_string_equal(string(json_array_get(stack, 1), "function"), "main");

	json_t *processes = json_object_get(j, "processes");
	assert_int_equal(json_array_size(processes), 2);
	json_t *second = json_array_get(processes, 1);
	assert_int_equal(number(second, "pid"), 200);
	assert_int_equal(number(second, "ppid"), 100);
	assert_int_equal(number(json_object_get(second, "totals"), "peak_bytes"), 500);
	json_t *threads = json_object_get(j, "threads");
	assert_int_equal(json_array_size(threads), 3);
	assert_string_equal(string(json_array_get(threads, 1), "name"), "worker");
	assert_int_equal(number(json_array_get(threads, 1), "allocated_bytes"), 40);
	assert_int_equal(json_array_size(json_object_get(j, "findings")), 0);
	assert_int_equal(json_array_size(json_object_get(j, "notes")), 2);
	json_decref(j);
	free(text);
	text = text_of(report_json, p,
		       &(struct report_options){.limit = 2, .sort = MEASURE_LIVE_BYTES});
	j = parse(text);
	assert_int_equal(json_array_size(json_object_get(j, "sites")), 2);
	assert_int_equal(number(json_array_get(json_object_get(j, "sites"), 0), "live_bytes"), 100);
	json_decref(j);
	free(text);
	profile_free(p);
}

TEST(test_json_findings)
{
	struct profile *p = load(NULL);
	struct report_options o = {.limit = REPORT_ALL, .findings = &fixture_findings};
	char *text = text_of(report_json, p, &o);
	json_t *j = parse(text), *list = json_object_get(j, "findings");
	assert_int_equal(json_array_size(list), 8); /* JSON has all */
	json_t *queue = json_array_get(list, 0), *e = json_object_get(queue, "evidence");
	assert_string_equal(string(queue, "kind"), "unbounded-queue");
	assert_string_equal(string(queue, "severity"), "high");
	assert_int_equal(number(queue, "bytes"), 5219040);
	assert_int_equal(number(queue, "site"), 2); /* site 1 of the array: ids count from 1 */
	assert_int_equal(strncmp(string(queue, "advice"), "Bound", 5), 0);
	assert_int_equal(json_object_size(e), 9);
	assert_string_equal(string(e, "producer_function"), "send_message");
	assert_int_equal(number(e, "backlog_blocks"), 4980);
	assert_int_equal(number(e, "service_ns"), 178000);
	json_t *threads = json_object_get(e, "consumer_threads");
	assert_int_equal(json_array_size(threads), 5);
	assert_string_equal(json_string_value(json_array_get(threads, 1)), "\033[31mred");
	json_t *parts = json_object_get(json_object_get(json_array_get(list, 1), "evidence"),
					"parts");
	assert_int_equal(json_array_size(parts), 7);
	json_t *part = json_array_get(parts, 0);
	assert_int_equal(number(part, "bytes"), 262144);
	assert_int_equal(number(part, "site"), 2);
	assert_float_equal(json_real_value(json_object_get(part, "share")), 0.869, 1e-9);
	json_t *growth = json_array_get(list, 2);
	assert_int_equal(number(growth, "site"), 0); /* none */
	e = json_object_get(growth, "evidence");
	assert_int_equal(number(e, "bytes_per_second"), 1258291);
	assert_float_equal(json_real_value(json_object_get(e, "freed_share")), 0.25, 1e-9);
	json_decref(j);
	free(text);
	o.span = REPORT_WINDOW; /* a part of the run has no findings */
	text = text_of(report_json, p, &o);
	j = parse(text);
	assert_int_equal(json_array_size(json_object_get(j, "findings")), 0);
	json_decref(j);
	free(text);
	profile_free(p);
}

/* The views' data: 30 B live 4 us and 50 B live 2 us in [2048, 4096) and [1024, 2048) ns. */
TEST(test_json_views)
{
	struct profile *p = load(&(struct profile_selection){.sizes = true});
	struct report_options o = {
		.limit = REPORT_ALL, .sizes = true, .lifetimes = true, .threads = true};
	char *text = text_of(report_json, p, &o);
	json_t *j = parse(text), *sizes = json_object_get(j, "sizes"), *size;
	long long allocations = 0, bytes = 0;
	size_t i;
	json_array_foreach(sizes, i, size)
	{
		allocations += number(size, "allocations");
		bytes += number(size, "allocated_bytes");
	}
	/* Five made, one resized: 100 + 50 + 30 + 200 + 10 + 500. */
	assert_int_equal(allocations, 6);
	assert_int_equal(bytes, 890);
	assert_true(json_is_array(json_object_get(j, "handovers")));
	json_t *life = json_object_get(json_array_get(json_object_get(j, "sites"), 1),
				       "lifetime_log2"); /* 2000 ns and 9000 ns */
	assert_int_equal(json_array_size(life), 6);
	assert_int_equal(json_integer_value(json_array_get(life, 2)), 1); /* 1024 to 2047 */
	assert_int_equal(json_integer_value(json_array_get(life, 5)), 1); /* 8192 to 16383 */
	json_decref(j);
	free(text);
	profile_free(p);
}

TEST(test_json_strings)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{"plain", "\"plain\""},
		{"a\"b\\c", "\"a\\\"b\\\\c\""},
		{"\n\t\x01\x1f\x7f", "\"\\n\\t\\u0001\\u001f\\u007f\""},
		{"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
		 "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""},
		{"\xff", "\"\xef\xbf\xbd\""},
		{"\xc0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\""},                 /* overlong */
		{"\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""}, /* surrogate */
		{"\xf4\x90\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
		{"\xe2\x82", "\"\xef\xbf\xbd\xef\xbf\xbd\""}, /* ends too early */
		{"", "\"\""},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *text = NULL;
		size_t size;
		struct json_writer w;
		FILE *out = open_memstream(&text, &size);
		json_write_init(&w, out);
		json_write_string(&w, cases[i].in);
		fclose(out);
		assert_string_equal(text, cases[i].out);
		free(text);
	}
}

TEST(test_json_structure)
{
	char *text = NULL;
	size_t size;
	struct json_writer w;
	FILE *out = open_memstream(&text, &size);
	json_write_init(&w, out);
	json_write_object(&w);
	json_write_key_uint(&w, "big", UINT64_MAX);
	json_write_key_int(&w, "least", INT64_MIN);
	json_write_key(&w, "list");
	json_write_array(&w);
	json_write_int(&w, -1);
	json_write_bool(&w, true);
	json_write_object(&w);
	json_write_object_end(&w);
	json_write_array_end(&w);
	json_write_key_string(&w, "none", NULL);
	json_write_object_end(&w);
	fclose(out);
	assert_string_equal(text, "{\"big\":18446744073709551615,\"least\":-9223372036854775808,"
				  "\"list\":[-1,true,{}],\"none\":\"\"}");
	free(text);
}

TEST(test_numbers)
{
	assert_string_equal(words_bytes(0).text, "0 B");
	assert_string_equal(words_bytes(1023).text, "1023 B");
	assert_string_equal(words_bytes(1024).text, "1.0 KiB");
	assert_string_equal(words_bytes(12897485).text, "12.3 MiB");
	assert_string_equal(words_bytes(1048575).text, "1.0 MiB"); /* never "1024.0 KiB" */
	assert_string_equal(words_bytes(UINT64_MAX).text, "16.0 EiB");
	assert_string_equal(words_count(0).text, "0");
	assert_string_equal(words_count(999).text, "999");
	assert_string_equal(words_count(1000).text, "1,000");
	assert_string_equal(words_count(UINT64_MAX).text, "18,446,744,073,709,551,615");
	assert_string_equal(words_duration(999).text, "999 ns");
	assert_string_equal(words_duration(1500).text, "1.5 us");
	assert_string_equal(words_duration(20000000).text, "20 ms");
	assert_string_equal(words_duration(1234000000).text, "1.23 s");
	assert_string_equal(words_duration(123450000000).text, "123 s");
	assert_string_equal(words_duration(7200000000000).text, "2.0 h");
	assert_string_equal(words_rate(5, 1000000000).text, "5/s");
	assert_string_equal(words_rate(9900000, 1000000000).text, "9.90 M/s");
	assert_string_equal(words_rate(1, 0).text, "0/s");
	assert_string_equal(words_share(1, 8).text, "12.5 %");
	assert_string_equal(words_share(1, 0).text, "-");
}

static char *printed(const char *name, size_t max)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	words_print(out, name, max);
	fclose(out);
	return text;
}

TEST(test_names_are_inert)
{
	static const struct {
		const char *in;
		size_t max;
		const char *out;
	} cases[] = {
		{"plain", 99, "plain"},
		{"\033[31m\n", 99, "\\x1b[31m\\x0a"},
		{"\xff\xc3\xa9", 99, "\\xff\xc3\xa9"},
		{"\xc2\x9b", 99, "\\xc2\\x9b"},          /* CSI in one character */
		{"\xe2\x80\xae", 99, "\\xe2\\x80\\xae"}, /* right to left */
		{"abcdef", 3, "abc..."},
		{"abc", 3, "abc"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *text = printed(cases[i].in, cases[i].max);
		assert_string_equal(text, cases[i].out);
		free(text);
	}
}

TEST(test_names_fit)
{
	static const struct {
		const char *in;
		size_t max;
		const char *out;
	} cases[] = {
		{"abcdefghij", 10, "abcdefghij"},
		{"abcdefghij", 9, "abc...hij"},
		{"abcdefghij", 4, "a..."},
		{"abcdefghij", 2, ".."},
		{"\xff"
		 "bcdefghij",
		 9, "...hij"}, /* an escape is not cut */
		{"abcdef\xff", 9, "abc..."},
		{"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e", 6,
		 "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e"}, /* two columns each */
		{"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e", 5, "..."},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *text = NULL;
		size_t size;
		FILE *out = open_memstream(&text, &size);
		size_t used = words_print_fit(out, cases[i].in, cases[i].max);
		fclose(out);
		assert_string_equal(text, cases[i].out);
		assert_int_equal(used, words_columns(text));
		assert_true(used <= cases[i].max);
		free(text);
	}
}

TEST(test_short_names)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{"plain", "plain"},
		{"f()", "f()"},
		{"std::vector<std::pair<int, char> >::push_back(int&&)",
		 "std::vector<..>::push_back(..)"},
		{"ns::(anonymous namespace)::f(int) const",
		 "ns::(anonymous namespace)::f(..) const"},
		{"operator<<(std::ostream&, X)", "operator<<(..)"},
		{"A<(x->y)>::operator()(int)", "A<..>::operator()(..)"},
		{"std::operator+<char>(char const*)", "std::operator+<..>(..)"},
		{"broken<(", "broken<("},
		{"<alloc::vec::Vec<T> as core::iter::FromIterator<T>>::from_iter",
		 "<alloc::vec::Vec<..> as core::iter::FromIterator<..>>::from_iter"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *text = NULL;
		size_t size;
		FILE *out = open_memstream(&text, &size);
		words_print_short(out, cases[i].in, 99);
		fclose(out);
		assert_string_equal(text, cases[i].out);
		free(text);
	}
}

static void expect_in(const char *text, const char *part)
{
	if (!text || !strstr(text, part))
		fail_msg("no '%s' in:\n%s", part, text ? text : "(nothing)");
}

TEST(test_text)
{
	struct profile *p = load(NULL);
	struct report_options o = {.path = "x y.heft", .limit = 2};
	char *text = text_of(report_text, p, &o);
	expect_in(text, "./prog \\x1b[31mred \\xff\"\n");
	expect_in(text, "exit status 3");
	expect_in(text, "630 B in 3 blocks at 6 us (30 % of the run)");
	expect_in(text, "110 B in 2 blocks");
	expect_in(text, "1 (20.0 % of allocations)");
	expect_in(text, "  ! pid 300 was not followed: static\n");
	expect_in(text, "  ! pid 200: 7 events are missing");
	expect_in(text, "Top 2 of 5 sites by bytes at the peak");
	expect_in(
		text,
		"      500 B   79.4 %         1         1  [unknown]+0x1234 [guessed] [realloc]\n");
	expect_in(text, "      100 B   15.9 %         1         2  f at ");
	expect_in(text, "prog.c:5 [malloc]\n");
	expect_in(text, "< main at ");
	expect_in(text, "... 3 more sites");
	expect_in(text, "Next: heft report --tree 'x y.heft'");
	assert_null(strchr(text, '\033'));
	free(text);
	o.color = true;
	text = text_of(report_text, p, &o);
	assert_non_null(strchr(text, '\033'));
	free(text);
	profile_free(p);
}

TEST(test_tree)
{
	struct profile *p = load(NULL);
	struct report_options o = {.path = "x", .sort = MEASURE_ALLOCATED_BYTES};
	char *text = text_of(report_tree, p, &o);
	/* 690 in all: 10 without a stack; below main line 5 has 180, line 6 has 200 + 300. */
	expect_in(text, "      680 B   98.6 %  main at ");
	expect_in(text, "      500 B   72.5 %    f at ");
	expect_in(text, "      300 B   43.5 %      [unknown]+0x1234");
	expect_in(text, "      180 B   26.1 %    f at ");
	expect_in(text, "       10 B    1.4 %  [stack unknown]");
	free(text);
	o.invert = true;
	text = text_of(report_tree, p, &o);
	expect_in(text, "      300 B   43.5 %  [unknown]+0x1234");
	expect_in(text, "      300 B   43.5 %    f at ");
	expect_in(text, "      300 B   43.5 %      main at ");
	free(text);
	profile_free(p);
}

static uint32_t add_call(struct profile *p, uint32_t parent, const char *function)
{
	uint32_t frame, node;
	struct profile_frame f = {.function = name_pool_add(p->names, function),
				  .module = PROFILE_NONE};
	assert_int_equal(profile_add_frame(p, &f, &frame), 0);
	assert_int_equal(profile_add_node(p, parent, frame, 0, &node), 0);
	return node;
}

static void add_site(struct profile *p, uint32_t node, uint64_t bytes)
{
	uint32_t site;
	assert_int_equal(profile_add_site(p, node, PROFILE_VIA_MALLOC, &site), 0);
	p->sites[site].peak_bytes = bytes;
	p->sites[site].allocations = 1;
	p->totals.peak_bytes += bytes;
	p->totals.allocations++;
}

TEST(test_recursion)
{
	struct profile *p = profile_new();
	uint32_t at = add_call(p, PROFILE_NONE, "main");
	for (int i = 0; i < 1000; i++)
		at = add_call(p, at, "descend");
	for (int i = 0; i < 300; i++) {
		at = add_call(p, at, "value");
		at = add_call(p, at, "list");
	}
	at = add_call(p, at, "leaf");
	add_site(p, at, 1000);
	profile_finish_sites(p);
	struct report_options o = {.limit = 20};
	char *text = text_of(report_text, p, &o);
	/* Innermost first: leaf, then list and value in turn, then descend, then main. */
	expect_in(text, "leaf [malloc]\n");
	expect_in(text, "< list\n");
	expect_in(text, "< value [recursion x300 of 2 frames]\n");
	expect_in(text, "< descend [recursion x1,000]\n");
	expect_in(text, "... 1 more frame\n"); /* main */
	free(text);
	text = text_of(report_tree, p, &o);
	expect_in(text, "  main\n");
	expect_in(text, "    descend [recursive]\n");
	expect_in(text, "      value [recursive]\n");
	expect_in(text, "        list\n");
	expect_in(text, "          leaf\n");
	free(text);
	profile_free(p);
}

TEST(test_folding_marks_what_it_hides)
{
	struct profile *p = profile_new();
	uint32_t at = PROFILE_NONE;
	const char *const calls[] = {"_start",
				     "main",
				     "a",
				     "b",
				     "c",
				     "d",
				     "e",
				     "std::vector<int>::grow",
				     "operator new(unsigned long)"};
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
		at = add_call(p, at, calls[i]);
	add_site(p, at, 1000);
	add_site(p, add_call(p, PROFILE_NONE, "small"), 9); /* under 1 % */
	add_site(p, add_call(p, PROFILE_NONE, "tiny"), 1);
	profile_finish_sites(p);
	struct report_options o = {.limit = 1};
	char *text = text_of(report_text, p, &o);
	expect_in(text, "  e [malloc]\n");
	expect_in(text, "> std::vector<..>::grow (+1 inside)\n");
	expect_in(text, "< d\n");
	expect_in(text, "< b\n");
	assert_null(strstr(text, "< a"));
	expect_in(text, "... 3 more frames\n"); /* a, main, _start */
	free(text);
	text = text_of(report_tree, p, &o);
	expect_in(text, "       10 B    1.0 %  ... 2 more, each under 1 %\n");
	assert_null(strstr(text, "small"));
	free(text);
	profile_free(p);
}

TEST(test_run_summary)
{
	struct profile *p = load(&(struct profile_selection){.top_only = true});
	for (int i = 0; i < 5; i++) /* more to say than there is room for */
		profile_add_note(p, PROFILE_NOTE_WARNING, 0, "warning %d", i);
	char *text = NULL;
	size_t size, lines = 0;
	FILE *out = open_memstream(&text, &size);
	assert_int_equal(report_run_summary(out, p, NULL, "/tmp/x.heft", 0, false), 0);
	fclose(out);
	for (const char *s = text; *s; s++)
		lines += *s == '\n';
	assert_true(lines <= 12);
	expect_in(text, "630 B in 3 blocks at 6 us; peak RSS 2.4 KiB");
	expect_in(text, "left at exit  110 B in 2 blocks");
	expect_in(text, "5 (250 k/s), 20.0 % temporary");
	expect_in(text, "500 B  79.4 %  [unknown]+0x1234");
	expect_in(text, "100 B  15.9 %  f at ");
	expect_in(text, "30 B   4.8 %  f at ");
	expect_in(text, "! 6 more warnings like this");
	expect_in(text, "bytes per event");
	expect_in(text, "Next: heft report /tmp/x.heft\n");
	free(text);
	profile_free(p);
}

UNIT_TESTS(fixture_make, fixture_remove)
