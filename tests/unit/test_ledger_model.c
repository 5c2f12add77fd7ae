/* Ledgers behind the recording: in sections and one sentence, as measures and in budgets, compared, and in the document
 * of the page. The recordings are written here, so every number is known. */
#include "unit_test.h"

#include "hosted/error.h"
#include "hosted/ledger_words.h"
#include "pages/view_documents.h"
#include "profile/budget.h"
#include "profile/ledger_diff.h"
#include "profile/profile_from_trace.h"
#include "profile/profile_ledgers.h"
#include "report/report_budget.h"
#include "report/report_ledger.h"
#include "trace/trace.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MIB = 1 << 20, FIRST = 0, SECOND = 1, EXECED = 2, PROCESSES = 3 };

static char path[64];

static int make_place(void **state)
{
	(void)state;
	snprintf(path, sizeof path, "/tmp/heft-ledgers-%d.heft", (int)getpid());
	return 0;
}

static int remove_file(void **state)
{
	(void)state;
	unlink(path);
	return 0;
}

static void line(struct ledger *l, enum ledger_kind kind, const char *name, uint64_t resident)
{
	struct heft_error err;
	const struct ledger_bytes bytes = {resident, resident, 0, 2 * resident};
	assert_int_equal(ledger_add(l, kind, name, &bytes, &err), 0);
	l->rss_bytes += resident;
}

static struct trace_writer *begin(void)
{
	static char *argv[] = {"program"};
	const struct trace_meta meta = {.heft_version = "test",
					.argv = argv,
					.argc = 1,
					.page_bytes = 4096,
					.tick_ns = 2048};
	/* Two, of which the second called exec at 5 ms. */
	static const struct {
		int32_t pid;
		uint64_t start_ns;
	} processes[PROCESSES] = {{10, 0}, {20, 0}, {20, 5000000}};
	struct trace_writer *w;
	struct heft_error err;
	assert_int_equal(trace_writer_open(&w, path, true, &meta, &err), 0);
	for (int i = 0; i < PROCESSES; i++) {
		const struct trace_process p = {.pid = processes[i].pid,
						.ppid = 1,
						.exe = "/bin/program",
						.argv = argv,
						.argc = 1,
						.start_ns = processes[i].start_ns,
						.end = TRACE_END_EXIT,
						.end_ns = 9000000};
		assert_int_equal(trace_writer_process(w, &p), 0);
	}
	return w;
}

static void put(struct trace_writer *w, struct ledger *l, uint32_t process)
{
	assert_int_equal(trace_writer_ledger(w, l, process), 0);
	ledger_fini(l);
}

static void end(struct trace_writer *w)
{
	struct heft_error err;
	struct tally nothing;
	tally_init(&nothing);
	assert_int_equal(trace_writer_close(w, 9000000, &nothing, &err), 0);
	tally_fini(&nothing);
}

static struct profile *loaded(void)
{
	struct profile *p;
	struct heft_error err;
	if (profile_from_recording(&p, path, NULL, &err) < 0)
		fail_msg("%s", err.message);
	return p;
}

/* A ledger with a line of every kind: kind k has (k + 1) MiB, 136 in all. */
static struct ledger one_of_each(enum ledger_moment moment, uint64_t time_ns)
{
	struct ledger l = {.moment = moment, .time_ns = time_ns, .share_of_peak = 1};
	for (int k = 0; k < LEDGER_KINDS; k++) {
		char name[40];
		snprintf(name, sizeof name, "name %d", k);
		line(&l, (enum ledger_kind)k, name, (uint64_t)(k + 1) * MIB);
	}
	return l;
}

/* ---- words */

TEST(every_kind_is_in_one_section)
{
	int next = 0;
	for (size_t s = 0; s < LEDGER_SECTIONS; s++) {
		assert_int_equal(ledger_sections[s].first, next);
		assert_true(ledger_sections[s].last >= ledger_sections[s].first);
		for (; next <= (int)ledger_sections[s].last; next++)
			assert_int_equal(ledger_section_of((enum ledger_kind)next), s);
	}
	assert_int_equal(next, LEDGER_KINDS);
	struct ledger l = one_of_each(LEDGER_PEAK, 1);
	assert_int_equal(ledger_section_bytes(&l, 0), 21 * MIB); /* 1 to 6 */
	assert_int_equal(ledger_section_bytes(&l, 2), 27 * MIB); /* 8 + 9 + 10 */
	ledger_fini(&l);
}

TEST(lines_have_short_names)
{
	char text[LEDGER_BEHIND];
	struct ledger_line module = {.kind = LEDGER_MODULES_SHARED, .name = "/usr/lib/libc.so.6"};
	struct ledger_line file = {.kind = LEDGER_FILES, .name = "/var/cache/x"};
	struct ledger_line blocks = {.kind = LEDGER_REQUESTED, .name = "requested", .blocks = 2};
	assert_string_equal(ledger_line_name(&module), "libc.so.6");
	assert_string_equal(ledger_line_behind(&module, text), ", shared");
	assert_string_equal(ledger_line_name(&file), "/var/cache/x");
	assert_string_equal(ledger_line_behind(&file, text), "");
	assert_string_equal(ledger_line_behind(&blocks, text), ": 2 blocks");
}

TEST(one_sentence)
{
	char text[200];
	struct ledger l = {.moment = LEDGER_REQUEST};
	const struct profile p = {.ledgers = &l, .ledger_count = 1};
	line(&l, LEDGER_REQUESTED, "requested", 10 * MIB);
	line(&l, LEDGER_HELD_FREE, "free, in bins", 943718); /* 0.9 MiB */
	line(&l, LEDGER_ALLOCATOR, "pymalloc's arenas", 48 * MIB);
	line(&l, LEDGER_ALLOCATOR, "another", MIB);
	line(&l, LEDGER_MODULES_SHARED, "/lib/libc.so.6", 9 * MIB);
	line(&l, LEDGER_STACKS, "stack", 4096); /* too small to be named */
	assert_string_equal(report_ledger_row(&p, text, sizeof text), "RSS");
	assert_string_equal(text, "68.9 MiB: pymalloc's arenas 49.0, heap 10.9, libraries 9.0");
	ledger_fini(&l);
}

/* ---- measures */

TEST(measures_are_of_the_largest_ledger)
{
	struct trace_writer *w = begin();
	struct ledger small = {.moment = LEDGER_PEAK, .time_ns = 1000000};
	struct ledger large = one_of_each(LEDGER_EXIT, 2000000);
	struct ledger before = {.moment = LEDGER_PEAK, .time_ns = 3000000};
	struct ledger after = {.moment = LEDGER_EXIT, .time_ns = 6000000};
	line(&small, LEDGER_HELD_FREE, "free", 100 * MIB);
	line(&before, LEDGER_STACKS, "stack", MIB);
	line(&after, LEDGER_STACKS, "stack", 2 * MIB);
	put(w, &small, FIRST);
	put(w, &large, FIRST);
	put(w, &before, SECOND);
	put(w, &after, EXECED);
	end(w);
	struct profile *p = loaded();
	assert_int_equal(p->ledger_count, 4);
	assert_int_equal(profile_ledger_process(p, &p->ledgers[0]), FIRST);
	assert_int_equal(profile_ledger_process(p, &p->ledgers[2]), SECOND);
	assert_int_equal(profile_ledger_process(p, &p->ledgers[3]), EXECED);
	const struct profile_resident *r = &p->totals.resident;
	assert_int_equal(r->rss_bytes, 136 * MIB);
	assert_int_equal(r->heap_bytes, 21 * MIB);
	assert_int_equal(r->held_free_bytes, 5 * MIB);
	assert_int_equal(r->allocator_bytes, 7 * MIB);
	assert_int_equal(r->library_bytes, 27 * MIB);
	assert_int_equal(r->stack_bytes, 11 * MIB);
	assert_int_equal(r->anonymous_bytes, 14 * MIB);
	assert_int_equal(r->unexplained_bytes, 16 * MIB);
	assert_int_equal(p->processes[FIRST].totals.resident.rss_bytes, 136 * MIB);
	assert_int_equal(p->processes[SECOND].totals.resident.stack_bytes, MIB);
	assert_int_equal(p->processes[EXECED].totals.resident.stack_bytes, 2 * MIB);
	profile_free(p);
}

static const struct budget_kind kinds[] = {{"leak-unreachable", PROFILE_HAS_REACHABLE}};

static char *judged(const char *rules, bool *holds)
{
	struct budget *b;
	struct budget_result results[8];
	struct heft_error err = {0};
	char *text = NULL;
	size_t size;
	struct profile *p = loaded();
	p->unseen = NULL;
	if (budget_parse(&b, "b", rules, strlen(rules), kinds, 1, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(budget_measure(b, p, NULL, 0, results), 0);
	const struct report_budget r = {
		.budget = b, .results = results, .profile = p, .verbose = true};
	*holds = report_budget_broken(&r) == 0;
	FILE *out = open_memstream(&text, &size);
	assert_int_equal(report_budget_text(out, &r), 0);
	fclose(out);
	budget_free(b);
	profile_free(p);
	return text;
}

TEST(budgets_of_resident_memory)
{
	bool holds;
	struct trace_writer *w = begin();
	struct ledger l = one_of_each(LEDGER_EXIT, 2000000);
	put(w, &l, FIRST);
	end(w);
	free(judged("rss_bytes <= 136M\nresident_heap_bytes == 21M\nheld_free_bytes <= 5M\n"
		    "resident_allocator_bytes == 7M\nresident_library_bytes == 27M\n"
		    "resident_stack_bytes == 11M\nresident_anonymous_bytes == 14M\n"
		    "unexplained_bytes == 16M\n",
		    &holds));
	assert_true(holds);
	char *text = judged("held_free_bytes < 5M\n", &holds);
	assert_false(holds);
	assert_non_null(strstr(text, "5.0 MiB       5.0 MiB"));
	free(text);
}

TEST(budgets_say_what_is_missing)
{
	bool holds;
	end(begin());
	char *text = judged("finding leak-unreachable == 0\n", &holds);
	assert_false(holds);
	assert_non_null(strstr(text, "-  no heap was looked at (heft run --leaks)"));
	free(text);
	text = judged("rss_bytes <= 1T\nunreachable_bytes == 0\nmapped_bytes <= 1T\n", &holds);
	assert_false(holds);
	assert_non_null(strstr(text, "-  no ledger in this file"));
	assert_non_null(strstr(text, "-  no heap was looked at (heft run --leaks)"));
	assert_non_null(strstr(text, "-  calls that map memory are not recorded in this file"));
	free(text);
}

/* ---- compared */

static struct profile *with_ledgers(struct ledger *a, struct ledger *b)
{
	struct trace_writer *w = begin();
	put(w, a, FIRST);
	if (b)
		put(w, b, SECOND);
	end(w);
	return loaded();
}

TEST(lines_are_compared)
{
	struct ledger a = {.moment = LEDGER_PEAK}, b = {.moment = LEDGER_PEAK};
	struct ledger smaller = {.moment = LEDGER_PEAK}, exit = {.moment = LEDGER_EXIT};
	struct ledger_diff d;
	line(&a, LEDGER_HELD_FREE, "free, in bins", 3 * MIB);
	line(&a, LEDGER_MODULES_SHARED, "/old/program", 2 * MIB);
	line(&a, LEDGER_FILES, "/old/file", 100);
	line(&a, LEDGER_STACKS, "same", 7);
	line(&smaller, LEDGER_HELD_FREE, "free, in bins", MIB);
	struct profile *old = with_ledgers(&a, &smaller);
	line(&b, LEDGER_HELD_FREE, "free, in bins", MIB);
	line(&b, LEDGER_MODULES_SHARED, "/new/program", 5 * MIB);
	line(&b, LEDGER_MODULES_PRIVATE, "/new/program", 50);
	line(&b, LEDGER_FILES, "/new/file", 100);
	line(&b, LEDGER_STACKS, "same", 7);
	line(&exit, LEDGER_STACKS, "same", 7);
	struct profile *new = with_ledgers(&b, &exit);

	assert_int_equal(ledger_diff_init(&d, old, new, LEDGER_PEAK), 0);
	assert_int_equal(d.count, 6);
	assert_int_equal(d.old->rss_bytes, 5 * MIB + 107); /* the largest of that moment */
	assert_int_equal(d.items[0].change, 3 * MIB);      /* a module by its file's name */
	assert_string_equal(d.items[0].old->name, "/old/program");
	assert_string_equal(d.items[0].new->name, "/new/program");
	assert_int_equal(d.items[1].change, -2 * MIB);
	/* Files by their whole path: one is gone, one is new, and neither is the module's other line. */
	assert_int_equal(d.items[2].change + d.items[3].change, 0);
	assert_true(!d.items[2].old != !d.items[3].old);
	assert_int_equal(d.items[4].change, 50);
	assert_null(d.items[4].old);
	assert_int_equal(d.items[5].change, 0);
	assert_true(ledger_diff_is_beyond(&d, 3 * MIB - 1));
	assert_false(ledger_diff_is_beyond(&d, 3 * MIB));
	ledger_diff_fini(&d);
	assert_int_equal(ledger_diff_init(&d, old, new, LEDGER_EXIT), HEFT_ENOTFOUND);
	assert_int_equal(ledger_diff_init(&d, old, new, LEDGER_INTERVAL), HEFT_ENOTFOUND);
	profile_free(old);
	profile_free(new);
}

/* ---- the document of the page */

static int no_import(void *ctx, const char *file, const struct profile_selection *sel,
		     struct profile **out, struct heft_error *err)
{
	(void)ctx;
	(void)sel;
	(void)out;
	return heft_fail(err, HEFT_EFORMAT, "%s is no recording", file);
}

static json_t *document(uint32_t entries, int process)
{
	static const struct view_loader loader = {NULL, no_import, NULL};
	struct view_recording *r;
	struct view_query q;
	struct heft_error err = {0};
	char *text = NULL;
	size_t size;
	assert_int_equal(view_recording_open(&r, path, "1", "x", &loader, &err), 0);
	view_query_init(&q);
	q.limits.entries = entries;
	q.has_process = process >= 0;
	q.process = q.has_process ? (uint32_t)process : 0;
	FILE *out = open_memstream(&text, &size);
	if (view_ledger(out, r, &q, &err) < 0)
		fail_msg("%s", err.message);
	fclose(out);
	json_t *doc = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(doc);
	free(text);
	view_recording_close(r);
	return doc;
}

static long long number(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);
	if (!json_is_integer(value))
		fail_msg("%s is no integer", key);
	return json_integer_value(value);
}

static const char *string(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

/* The lines of each ledger sum to its resident memory. */
static void check_sums(const json_t *doc)
{
	size_t i, k;
	json_t *l, *one;
	json_array_foreach(json_object_get(doc, "ledgers"), i, l)
	{
		long long sum = 0;
		json_array_foreach(json_object_get(l, "lines"), k, one)
			sum += number(one, "resident_bytes");
		assert_int_equal(sum, number(l, "rss_bytes"));
	}
}

TEST(the_page_gets_ledgers)
{
	struct ledger a = {.moment = LEDGER_PEAK, .time_ns = 1000000, .share_of_peak = 0.5};
	struct ledger b = {.moment = LEDGER_EXIT, .time_ns = 6000000};
	struct trace_writer *w = begin();
	line(&a, LEDGER_MODULES_SHARED, "/lib/libc.so.6", MIB);
	line(&a, LEDGER_REQUESTED, "requested", 2 * MIB);
	line(&b, LEDGER_STACKS, "stack", MIB);
	put(w, &a, FIRST);
	put(w, &b, EXECED);
	end(w);
	json_t *doc = document(0, -1);
	json_t *ledgers = json_object_get(doc, "ledgers"),
	       *sections = json_object_get(doc, "sections");
	assert_int_equal(json_array_size(sections), LEDGER_SECTIONS);
	assert_string_equal(string(json_array_get(sections, 0), "title"), "heap");
	assert_int_equal(json_array_size(json_object_get(json_array_get(sections, 0), "kinds")), 6);
	assert_int_equal(json_array_size(ledgers), 2);
	assert_int_equal(number(doc, "left_out"), 0);
	json_t *first = json_array_get(ledgers, 0), *lines = json_object_get(first, "lines");
	assert_string_equal(string(first, "words"), "near the peak of its heap");
	assert_int_equal(number(first, "process"), FIRST);
	assert_int_equal(number(json_array_get(ledgers, 1), "process"), EXECED);
	assert_string_equal(string(json_array_get(lines, 0), "words"), "requested");
	assert_string_equal(string(json_array_get(lines, 1), "words"), "libc.so.6, shared");
	assert_string_equal(string(json_array_get(lines, 1), "name"), "/lib/libc.so.6");
	check_sums(doc);
	json_decref(doc);
	doc = document(0, FIRST);
	assert_int_equal(json_array_size(json_object_get(doc, "ledgers")), 1);
	json_decref(doc);
}

/* Very many ledgers with very many lines: the picture has some, the largest among them, and sums stay. */
TEST(the_page_gets_some_of_many)
{
	struct trace_writer *w = begin();
	for (int i = 0; i < 250; i++) {
		struct ledger l = {.moment = LEDGER_INTERVAL, .time_ns = (uint64_t)i * 1000};
		for (int k = 0; k < 30; k++) {
			char name[40];
			snprintf(name, sizeof name, "file %d", k);
			line(&l, k % 2 ? LEDGER_FILES : LEDGER_ANONYMOUS, name,
			     (uint64_t)(1000 + k) + (i == 100));
		}
		put(w, &l, FIRST);
	}
	end(w);
	json_t *doc = document(0, -1);
	size_t all = json_array_size(json_object_get(doc, "ledgers"));
	assert_true(all <= 101 && all >= 60);
	assert_int_equal(all + (size_t)number(doc, "left_out"), 250);
	check_sums(doc);
	json_decref(doc);

	doc = document(240, -1); /* 12 ledgers of 20 lines */
	json_t *ledgers = json_object_get(doc, "ledgers");
	size_t shown = json_array_size(ledgers), i;
	assert_true(shown >= 10 && shown <= 13);
	assert_int_equal(number(json_array_get(ledgers, shown - 1), "time_ns"), 249000);
	bool largest = false;
	json_t *l;
	json_array_foreach(ledgers, i, l)
	{
		json_t *lines = json_object_get(l, "lines");
		assert_int_equal(json_array_size(lines), 22);
		assert_string_equal(string(json_array_get(lines, 0), "name"), "file 29");
		assert_string_equal(string(json_array_get(lines, 20), "name"), "5 more");
		largest |= number(l, "time_ns") == 100000;
	}
	assert_true(largest);
	check_sums(doc);
	json_decref(doc);
}

UNIT_TESTS(make_place, remove_file)
