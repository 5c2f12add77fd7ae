/* The page's documents of the recording in recording_fixture.h, read back by another JSON library:
 * every number follows from the table there. */
#include "pages/view_documents.h"
#include "pages/view_html.h"
#include "pages/view_names.h"
#include "pages/view_pack.h"
#include "pages/view_page.h"
#include "pages/view_paths.h"

#include "remarks_fixture.h"

#include <jansson.h>

static struct view_recording *opened;

static int no_import(void *ctx, const char *path, const struct profile_selection *sel,
		     struct profile **out, struct heft_error *err)
{
	(void)ctx;
	(void)sel;
	(void)out;
	return heft_fail(err, HEFT_EFORMAT, "%s is no recording", path);
}

static const struct view_loader loader = {NULL, no_import, NULL};

static int make(void **state)
{
	struct heft_error err;
	if (fixture_make(state) < 0)
		return -1;
	return view_recording_open(&opened, fixture_path, "1", "recording.heft", &loader, &err);
}

static int drop(void **state)
{
	view_recording_close(opened);
	return fixture_remove(state);
}

/* "mode=live&at=end" as a request has it. */
struct parameters {
	char text[400];
};

static const char *parameter(const void *ctx, const char *name)
{
	static char values[16][200];
	static int used;
	char copy[400], *rest = copy;
	strcpy(copy, ((const struct parameters *)ctx)->text);
	for (char *one; (one = strsep(&rest, "&"));) {
		char *value = strchr(one, '=');
		if (!value)
			continue;
		*value++ = 0;
		if (strcmp(one, name) == 0) {
			used = (used + 1) % 16;
			strcpy(values[used], value);
			return values[used];
		}
	}
	return NULL;
}

static int ask(view_document *document, const char *query, json_t **answer, struct heft_error *err)
{
	struct parameters given;
	struct view_parameters from = {&given, parameter};
	struct view_query q;
	char *text = NULL;
	size_t size;
	json_error_t why;
	snprintf(given.text, sizeof given.text, "%s", query);
	int rc = view_query_parse(&q, &from, NULL, err);
	FILE *out = open_memstream(&text, &size);
	if (rc == 0)
		rc = document(out, opened, &q, err);
	fclose(out);
	*answer = NULL;
	if (rc == 0) {
		*answer = json_loads(text, JSON_REJECT_DUPLICATES, &why);
		if (!*answer)
			fail_msg("line %d: %s in %s", why.line, why.text, text);
	}
	free(text);
	return rc;
}

static json_t *document(view_document *write, const char *query)
{
	struct heft_error err = {0};
	json_t *answer;
	if (ask(write, query, &answer, &err) < 0)
		fail_msg("%s: %s", query, err.message);
	return answer;
}

static long long number(json_t *object, const char *key)
{
	json_t *value = json_object_get(object, key);
	if (!json_is_integer(value))
		fail_msg("%s is no integer", key);
	return json_integer_value(value);
}

static long long element(json_t *object, const char *key, size_t i)
{
	json_t *value = json_array_get(json_object_get(object, key), i);
	if (!json_is_integer(value))
		fail_msg("%s[%zu] is no integer", key, i);
	return json_integer_value(value);
}

static const char *string(json_t *object, const char *key)
{
	json_t *value = json_object_get(object, key);
	if (!json_is_string(value))
		fail_msg("%s is no string", key);
	return json_string_value(value);
}

static size_t length(json_t *object, const char *key)
{
	return json_array_size(json_object_get(object, key));
}

/* ---- trees */

/* In every node what is its own and what its children have is its total; parents come first. */
static void check_tree(json_t *tree, long long sum)
{
	size_t count = length(tree, "parent");
	long long *below = calloc(count, sizeof *below);
	assert_int_equal(number(tree, "sum"), sum);
	assert_int_equal(element(tree, "total", 0), sum);
	assert_int_equal(element(tree, "parent", 0), -1);
	for (size_t i = count; i-- > 0;) {
		long long parent = element(tree, "parent", i);
		assert_int_equal(element(tree, "total", i), element(tree, "self", i) + below[i]);
		if (i == 0)
			break;
		assert_true(parent >= 0 && parent < (long long)i);
		below[parent] += element(tree, "total", i);
		assert_true(element(tree, "frame", i) < (long long)length(tree, "frames"));
	}
	free(below);
}

/* The node that a path of functions leads to; "" is the root. */
static size_t find_node(json_t *tree, const char *path)
{
	char copy[200], *rest = copy;
	long long at = 0;
	strcpy(copy, path);
	for (char *name; *path && (name = strsep(&rest, "/"));) {
		long long next = -1;
		for (size_t i = 1; i < length(tree, "parent") && next < 0; i++) {
			long long frame = element(tree, "frame", i);
			if (element(tree, "parent", i) != at || frame < 0)
				continue;
			json_t *f = json_array_get(json_object_get(tree, "frames"), (size_t)frame);
			if (strcmp(string(f, "function"), name) == 0)
				next = (long long)i;
		}
		if (next < 0)
			fail_msg("no %s in %s", name, path);
		at = next;
	}
	return (size_t)at;
}

static void check_node(json_t *tree, const char *path, long long total, long long self)
{
	size_t node = find_node(tree, path);
	assert_int_equal(element(tree, "total", node), total);
	assert_int_equal(element(tree, "self", node), self);
}

TEST(test_trees)
{
	static const struct {
		const char *query;
		long long sum;
	} sums[] = {
		{"", 630},
		{"metric=count", 3},
		{"at=end", 110},
		{"at=end&metric=count", 2},
		{"at=4504", 130}, /* between the free of the 50 and the child's 200 */
		{"at=4504&metric=count", 2},
		{"at=0", 0},
		{"at=99999999", 110}, /* after the end: what is left */
		{"mode=grew", 110},
		{"mode=grew&from=4504&to=8504", 510}, /* the 500 and the 10; the 30 went */
		{"mode=allocated", 690},              /* 100 50 30 200, 300 more by realloc, 10 */
		{"mode=allocated&metric=count", 5},
		{"mode=allocated&from=4504&to=8504", 510},
		{"mode=allocated&from=4504&to=8504&metric=count", 2},
		{"mode=churn&within=2048", 2}, /* the 50, and the 10 that was 2 us old at the end */
		{"mode=churn&within=2049", 4}, /* up to 4096: the 30 and the 500 too */
		{"mode=churn&within=2048&from=5000&to=20000", 1},
		{"pid=200", 500},
		{"thread=worker", 30},
		{"at=end&focus=^f$", 100},
		{"at=end&ignore=^f$", 10},
	};
	for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
		for (int invert = 0; invert < 2; invert++) {
			char query[200];
			snprintf(query, sizeof query, "%s&invert=%d", sums[i].query, invert);
			json_t *tree = document(view_tree, query);
			check_tree(tree, sums[i].sum);
			json_decref(tree);
		}
	json_t *tree = document(view_tree, "processes=none");
	check_node(tree, "main", 630, 0);
	check_node(tree, "main/f", 630, 130); /* lines 5 and 6 are one function */
	assert_string_equal(string(tree, "unit"), "bytes");
	assert_int_equal(number(tree, "pruned_nodes"), 0);
	json_decref(tree);
	tree = document(view_tree, "at=end&invert=1&processes=none");
	check_node(tree, "f", 100, 0);
	check_node(tree, "f/main", 100, 100);
	check_node(tree, "[stack unknown]", 10, 10);
	json_decref(tree);
}

/* Processes are the outermost frames, where there are several. */
#define PARENT "prog \\x1b[31mred \\xff\" (pid 100)"

TEST(test_process_roots)
{
	static const char *const queries[] = {"", "processes=each"};
	for (int i = 0; i < 2; i++) { /* two are shown one by one in any case */
		json_t *tree = document(view_tree, queries[i]);
		check_node(tree, "prog (pid 200)", 500, 0);
		check_node(tree, PARENT "/main/f", 130, 130);
		size_t frame = (size_t)element(tree, "frame", find_node(tree, "prog (pid 200)"));
		json_t *f = json_array_get(json_object_get(tree, "frames"), frame);
		assert_int_equal(number(json_object_get(f, "process"), "number"), 1);
		json_decref(tree);
	}
	json_t *tree = document(view_tree, "at=end");
	check_node(tree, PARENT "/[stack unknown]", 10, 10);
	json_decref(tree);
	tree = document(view_tree, "invert=1");
	check_node(tree, "f/main/" PARENT, 130, 130);
	json_decref(tree);
	/* Not where one is chosen. */
	static const char *const one[] = {"process=1", "pid=200", "processes=each&process=1"};
	for (int i = 0; i < 3; i++) {
		tree = document(view_tree, one[i]);
		check_node(tree, "main/f", 500, 0);
		json_decref(tree);
	}
}

/* The documents of one process: everything but the list of processes is its own. */
TEST(test_chosen_process)
{
	json_t *s = document(view_summary, "process=1");
	json_t *t = json_object_get(s, "totals");
	assert_int_equal(number(t, "peak_bytes"), 500);
	assert_int_equal(number(t, "peak_time_ns"), 6000);
	assert_int_equal(number(t, "left_bytes"), 0);
	assert_int_equal(number(s, "end_bytes"), 0);
	assert_int_equal(number(t, "peak_rss_bytes"), 500);
	assert_int_equal(number(s, "start_ns"), 4000);
	assert_int_equal(number(s, "end_ns"), 9500);
	assert_int_equal(number(s, "duration_ns"), 20000);
	assert_string_equal(string(s, "thread_words"), "1 thread in 1 process");
	json_decref(s);
	s = document(view_summary, "");
	assert_string_equal(string(s, "thread_words"), "3 threads in 2 processes");
	assert_int_equal(number(s, "process_count"), 2);
	json_t *first = json_array_get(json_object_get(s, "processes"), 0); /* greatest peak */
	assert_int_equal(number(first, "pid"), 200);
	assert_int_equal(number(first, "number"), 1);
	assert_int_equal(number(first, "run_ns"), 5500);
	assert_string_equal(string(first, "program"), "prog");
	json_decref(s);
	json_t *line = document(view_timeline, "process=1");
	size_t last = length(line, "times_ns") - 1;
	assert_int_equal(number(line, "from_ns"), 4000);
	assert_int_equal(number(line, "to_ns"), 9500);
	assert_int_equal(element(line, "times_ns", 0), 4000);
	assert_int_equal(element(line, "times_ns", last), 9500);
	assert_int_equal(element(line, "bytes", last), 0);
	long long most = 0;
	for (size_t i = 0; i <= last; i++)
		most = element(line, "bytes", i) > most ? element(line, "bytes", i) : most;
	assert_int_equal(most, 500);
	assert_int_equal(length(line, "rss"), 1);
	json_decref(line);
	json_t *threads = document(view_threads, "process=1");
	assert_int_equal(length(threads, "threads"), 1);
	json_decref(threads);
	json_t *sites = document(view_sites, "process=0"), *none;
	assert_int_equal(number(sites, "sum"), 180); /* at its own peak */
	json_decref(sites);
	struct heft_error err;
	assert_int_equal(ask(view_summary, "process=2", &none, &err), HEFT_ENOTFOUND);
	assert_int_equal(ask(view_summary, "program=other", &none, &err), HEFT_ENOTFOUND);
	assert_int_equal(ask(view_tree, "processes=some", &none, &err), HEFT_EUSAGE);
	json_t *both = document(view_summary, "program=prog");
	assert_int_equal(number(json_object_get(both, "totals"), "peak_bytes"), 630);
	json_decref(both);
}

TEST(test_pruned_trees)
{
	json_t *tree = document(view_tree, "mode=allocated&limit=2&processes=none");
	/* main 680 and f 680 stay; the unknown code's 300 and the unknown stack's 10 do not. */
	check_tree(tree, 690);
	check_node(tree, "main/f", 680, 380);
	assert_int_equal(length(tree, "parent"), 5);
	assert_int_equal(length(tree, "smaller"), 2);
	assert_int_equal(number(tree, "pruned_nodes"), 2);
	json_t *first = json_array_get(json_object_get(tree, "smaller"), 0);
	size_t node = (size_t)number(first, "node");
	assert_int_equal(element(tree, "frame", node), -1);
	assert_int_equal(element(tree, "total", node), 300);
	assert_int_equal(number(first, "count"), 1);
	json_decref(tree);
	/* What is below the first child of the first child, with that as its root. */
	tree = document(view_tree, "root=0.0&processes=none");
	check_tree(tree, 630);
	json_t *f = json_array_get(json_object_get(tree, "frames"),
				   (size_t)element(tree, "frame", 0));
	assert_string_equal(string(f, "function"), "f");
	assert_int_equal(length(tree, "parent"), 2);
	json_decref(tree);
	tree = document(view_tree, "limit=0");
	check_tree(tree, 630);
	json_decref(tree);
	struct heft_error err;
	static const char *const wrong[] = {"root=7",  "root=0.0.0.0.0",
					    "root=x",  "root=0..0",
					    "root=-1", "root=99999999999999999999"};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		if (ask(view_tree, wrong[i], &tree, &err) != HEFT_ENOTFOUND)
			fail_msg("%s", wrong[i]);
	}
}

TEST(test_sandwich)
{
	json_t *both = document(view_sandwich, "function=f&module=prog");
	json_t *callers = json_object_get(both, "callers"),
	       *callees = json_object_get(both, "callees");
	check_tree(callers, 630);
	check_tree(callees, 630);
	check_node(callers, "main", 630, 630);
	assert_int_equal(element(callees, "self", 0), 130);
	json_decref(both);
	both = document(view_sandwich, "function=nobody");
	check_tree(json_object_get(both, "callers"), 0);
	json_decref(both);
	struct heft_error err;
	assert_int_equal(ask(view_sandwich, "", &both, &err), HEFT_EUSAGE);
}

/* ---- tables */

TEST(test_summary)
{
	json_t *s = document(view_summary, "");
	json_t *t = json_object_get(s, "totals");
	assert_int_equal(number(t, "allocations"), 5);
	assert_int_equal(number(t, "reallocations"), 1);
	assert_int_equal(number(t, "frees"), 3);
	assert_int_equal(number(t, "allocated_bytes"), 690);
	assert_int_equal(number(t, "peak_bytes"), 630);
	assert_int_equal(number(t, "peak_blocks"), 3);
	assert_int_equal(number(t, "peak_time_ns"), 6000);
	assert_int_equal(number(t, "live_bytes"), 110);
	assert_int_equal(number(t, "temporary"), 1);
	assert_int_equal(number(t, "dropped"), 7);
	assert_int_equal(number(t, "peak_rss_bytes"), 2500); /* 2000 and 500 */
	assert_int_equal(number(s, "peak_rss_time_ns"), 3000);
	assert_string_equal(string(s, "start"), "2023-11-14T22:13:20Z");
	assert_string_equal(string(s, "end_words"), "exit status 3");
	assert_string_equal(string(json_object_get(s, "quality"), "level"), "poor");
	assert_int_equal(length(s, "threads"), 3);
	assert_int_equal(length(s, "processes"), 2);
	assert_true(json_is_true(json_object_get(json_object_get(s, "has"), "matrix")));
	/* Escapes and bytes that are no UTF-8 arrive as JSON allows them. */
	assert_string_equal(json_string_value(json_array_get(json_object_get(s, "command"), 1)),
			    "\033[31mred");
	assert_string_equal(json_string_value(json_array_get(json_object_get(s, "command"), 2)),
			    "\xef\xbf\xbd\"");
	json_decref(s);
}

TEST(test_timeline)
{
	json_t *t = document(view_timeline, "");
	static const long long times[] = {0, 6000, 20000}, bytes[] = {0, 630, 110};
	assert_int_equal(length(t, "times_ns"), 3); /* too short for a slot: what is known anyway */
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(element(t, "times_ns", i), times[i]);
		assert_int_equal(element(t, "bytes", i), bytes[i]);
	}
	json_t *first = json_array_get(json_object_get(t, "rows"), 0);
	assert_int_equal(element(first, "bytes", 1), 500);
	assert_int_equal(number(first, "left_bytes"), 0);
	assert_int_equal(number(t, "left_bytes"), 110);
	assert_int_equal(length(t, "rss"), 4);
	json_t *rss = json_array_get(json_object_get(t, "rss"), 3);
	assert_int_equal(number(rss, "bytes"), 2200); /* the child has gone */
	json_decref(t);
}

TEST(test_sites)
{
	json_t *s = document(view_sites, "");
	json_t *row = json_array_get(json_object_get(s, "rows"), 0);
	assert_int_equal(number(s, "count"), 5);
	assert_int_equal(number(s, "sum"), 630);
	assert_int_equal(number(row, "id"), 1);
	assert_int_equal(number(row, "value"), 500);
	assert_string_equal(string(row, "via"), "realloc");
	json_decref(s);
	/* In a window a site keeps its id and its part of the whole's peak. */
	s = document(view_sites, "mode=grew&from=6504&to=8504");
	row = json_array_get(json_object_get(s, "rows"), 0);
	assert_int_equal(number(s, "sum"), 10);
	assert_int_equal(number(row, "value"), 10);
	assert_int_equal(number(row, "peak_bytes"), 0);
	json_decref(s);
	s = document(view_sites, "mode=grew&from=6504&to=8504&sort=peak");
	row = json_array_get(json_object_get(s, "rows"), 0);
	assert_int_equal(number(row, "id"), 1);
	assert_int_equal(number(row, "peak_bytes"), 500);
	json_decref(s);
	/* At an instant: what is left and how long blocks live are of the run. The 50 lives for 2000 ns and
	 * the 100 for 9000; the 500 is freed later, and was resized, not allocated there. */
	s = document(view_sites, "at=6504");
	assert_int_equal(number(s, "sum"), 630);
	row = json_array_get(json_object_get(s, "rows"), 0);
	assert_int_equal(number(row, "value"), 500);
	assert_int_equal(number(row, "end_bytes"), 0);
	assert_int_equal(number(row, "allocations"), 0);
	assert_int_equal(number(row, "reallocations"), 1);
	assert_true(number(json_object_get(row, "lifetime_ns"), "p50") > 0);
	row = json_array_get(json_object_get(s, "rows"), 1);
	assert_int_equal(number(row, "value"), 100);
	assert_int_equal(number(row, "end_bytes"), 100);
	json_decref(s);
	s = document(view_sites, "at=6504&sort=live"); /* the 10 is not there yet, but it is left */
	row = json_array_get(json_object_get(s, "rows"), 0);
	assert_int_equal(number(row, "end_bytes"), 100);
	json_decref(s);
	s = document(view_sites, "mode=allocated&from=0&to=3504"); /* before anything was freed */
	row = json_array_get(json_object_get(s, "rows"), 0);
	assert_true(json_object_get(row, "lifetime_ns") == NULL);
	json_decref(s);
	s = document(view_sites, "search=MAIN&n=2"); /* any frame, any case of letters */
	assert_int_equal(number(s, "count"), 4);
	assert_int_equal(length(s, "rows"), 2);
	json_decref(s);
	json_t *one = document(view_site, "site=2");
	assert_int_equal(number(json_object_get(one, "row"), "value"), 100);
	assert_int_equal(length(one, "stack"), 2);
	assert_int_equal(element(one, "lifetime_log2", 2), 1); /* 2000 ns: the 50 */
	assert_int_equal(element(one, "lifetime_log2", 5), 1); /* 9000 ns: the 100 */
	json_decref(one);
	struct heft_error err;
	assert_int_equal(ask(view_site, "site=6", &one, &err), HEFT_ENOTFOUND);
	assert_int_equal(ask(view_site, "site=0", &one, &err), HEFT_ENOTFOUND);
}

TEST(test_functions)
{
	json_t *f = document(view_functions, "");
	json_t *row = json_array_get(json_object_get(f, "rows"), 0);
	assert_string_equal(string(json_object_get(row, "frame"), "function"), "f");
	assert_int_equal(number(row, "total"), 630);
	assert_int_equal(number(row, "self"), 130);
	assert_int_equal(number(f, "count"), 3);
	json_decref(f);
}

TEST(test_source)
{
	char query[200];
	struct heft_error err;
	json_t *files = document(view_files, "");
	json_t *first = json_array_get(json_object_get(files, "files"), 0);
	assert_int_equal(number(first, "total"), 630);
	assert_true(json_is_true(json_object_get(first, "readable")));
	snprintf(query, sizeof query, "file=%s", string(first, "file"));
	json_t *s = document(view_source, query);
	assert_string_equal(string(s, "words"),
			    "the file is newer than the program: lines may have moved");
	assert_int_equal(length(s, "lines"), 12);
	json_t *line = json_array_get(json_object_get(s, "lines"), 4);
	assert_int_equal(number(line, "self"), 130);
	assert_string_equal(string(line, "text"), "	MARK(mark_1); MARK(mark_2);");
	line = json_array_get(json_object_get(s, "lines"), 5);
	assert_int_equal(number(line, "self"), 0);
	assert_int_equal(number(line, "total"), 500);
	json_decref(s);
	/* Nothing else is read, however it is called. */
	static const char *const others[] = {"/etc/passwd", "prog.c", "../prog.c", "/proc/self/mem",
					     "/tmp/../etc/passwd"};
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		snprintf(query, sizeof query, "file=%s", others[i]);
		assert_int_equal(ask(view_source, query, &s, &err), HEFT_ENOTFOUND);
	}
	/* The file itself, once it is a link to another, is not either. */
	char path[100], elsewhere[120];
	snprintf(path, sizeof path, "%s", string(first, "file"));
	snprintf(elsewhere, sizeof elsewhere, "%s.kept", path);
	assert_int_equal(rename(path, elsewhere), 0);
	assert_int_equal(symlink(elsewhere, path), 0);
	snprintf(query, sizeof query, "file=%s", path);
	s = document(view_source, query);
	assert_string_equal(string(s, "words"), "not on this machine");
	line = json_array_get(json_object_get(s, "lines"), 0);
	assert_int_equal(number(line, "line"), 5);
	assert_string_equal(string(line, "text"), "");
	json_decref(s);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rename(elsewhere, path), 0);
	json_decref(files);
	/* A name without its folder is a source file that is not here. */
	size_t bytes;
	int64_t changed;
	const char *words = "";
	assert_null(view_path_read("csu/libc-start.c", &bytes, &changed, &words));
	assert_string_equal(words, "not on this machine");
	assert_null(view_path_read("/etc/passwd", &bytes, &changed, &words));
	assert_string_equal(words, "not a source file by its name");
}

static long long sum_cells(json_t *cells)
{
	long long sum = 0;
	for (size_t b = 0; b < json_array_size(cells); b++)
		for (size_t l = 0; l < json_array_size(json_array_get(cells, b)); l++)
			sum += json_integer_value(json_array_get(json_array_get(cells, b), l));
	return sum;
}

TEST(test_lifetimes)
{
	json_t *l = document(view_lifetimes, ""), *heat = json_object_get(l, "heat");
	assert_int_equal(element(l, "counts", 2), 2); /* 2000 ns */
	assert_int_equal(element(l, "counts", 3), 2); /* 4000 ns */
	assert_int_equal(element(l, "counts", 5), 1); /* 9000 ns */
	assert_int_equal(element(l, "low_ns", 3), 2048);
	assert_int_equal(number(l, "live_at_end"), 2);
	assert_int_equal(sum_cells(json_object_get(heat, "cells")), 3);
	assert_int_equal(sum_cells(json_object_get(heat, "live")), 2);
	/* Slots of 334 ns: the 100 was born in the third, the 10 in the last but few. */
	json_t *born = json_array_get(json_object_get(heat, "live"), 1000 / 334);
	assert_int_equal(json_integer_value(json_array_get(born, 5)), 1);
	json_decref(l);
	l = document(view_lifetimes, "at=4504"); /* of an instant: of the whole run */
	assert_int_equal(sum_cells(json_object_get(json_object_get(l, "heat"), "cells")), 3);
	json_decref(l);
	l = document(view_lifetimes, "mode=grew&from=4504&to=8504"); /* the 30 was freed in it */
	assert_int_equal(sum_cells(json_object_get(json_object_get(l, "heat"), "cells")), 1);
	assert_int_equal(element(l, "counts", 3), 1);
	json_decref(l);
	l = document(view_lifetimes, "thread=worker");
	heat = json_object_get(l, "heat");
	assert_int_equal(sum_cells(json_object_get(heat, "cells")), 1);
	assert_int_equal(sum_cells(json_object_get(heat, "live")), 1);
	json_decref(l);
	l = document(view_lifetimes, "focus=^f$");
	assert_int_equal(sum_cells(json_object_get(json_object_get(l, "heat"), "live")), 1);
	json_decref(l);
}

TEST(test_sizes_and_threads)
{
	json_t *s = document(view_sizes, "");
	long long peak = 0;
	for (size_t i = 0; i < length(s, "rows"); i++)
		peak += number(json_array_get(json_object_get(s, "rows"), i), "peak_bytes");
	assert_int_equal(peak, 630);
	assert_string_equal(string(s, "words"), "");
	json_decref(s);
	s = document(view_sizes, "focus=f");
	assert_non_null(strstr(string(s, "words"), "filter does not apply"));
	json_decref(s);
	json_t *t = document(view_threads, "");
	assert_int_equal(length(t, "threads"), 3);
	json_t *worker = json_array_get(json_object_get(t, "threads"), 1);
	assert_string_equal(string(worker, "name"), "worker");
	assert_int_equal(number(worker, "tid"), 101);
	assert_int_equal(number(worker, "allocated_bytes"), 40);
	json_decref(t);
}

TEST(test_diff)
{
	struct parameters given = {"a.at=4504&b.at=peak"};
	struct view_parameters from = {&given, parameter};
	struct view_query a, b;
	struct heft_error err = {0};
	char *text = NULL;
	size_t size;
	json_error_t why;
	assert_int_equal(view_query_parse(&a, &from, "a.", &err), 0);
	assert_int_equal(view_query_parse(&b, &from, "b.", &err), 0);
	FILE *out = open_memstream(&text, &size);
	if (view_diff(out, opened, &a, opened, &b, &err) < 0)
		fail_msg("%s", err.message);
	fclose(out);
	json_t *d = json_loads(text, 0, &why), *tree = json_object_get(d, "tree");
	assert_non_null(d);
	assert_int_equal(number(json_object_get(d, "a"), "sum"), 130);
	assert_int_equal(number(json_object_get(d, "b"), "sum"), 630);
	json_t *row = json_array_get(json_object_get(d, "rows"), 0);
	assert_int_equal(number(row, "a"), 0);
	assert_int_equal(number(row, "b"), 500);
	assert_int_equal(number(row, "change"), 500);
	assert_string_equal(string(row, "kind"), "new");
	check_tree(tree, 630);
	assert_int_equal(element(d, "before", 0), 130);
	assert_int_equal(element(tree, "other", 0), 500);
	size_t f = find_node(tree, "main/f");
	assert_int_equal(element(d, "before", f), 130);
	json_decref(d);
	free(text);
	b.mode = VIEW_CHURN;
	out = open_memstream(&text, &size);
	assert_int_equal(view_diff(out, opened, &a, opened, &b, &err), HEFT_EREFUSED);
	fclose(out);
	free(text);
}

/* ---- what is asked for */

TEST(test_queries)
{
	static const char *const wrong[] = {
		"mode=x",      "at=-1",        "at=1e3",     "at=9223372036854775808",
		"from=5&to=4", "metric=kg",    "pid=x",      "pid=4294967296",
		"invert=2",    "limit=200001", "sort=size",  "n=10001",
		"site=-1",     "slots=10001",  "within=1ms", "focus=(",
		"ignore=["};
	struct heft_error err;
	json_t *answer;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		if (ask(view_tree, wrong[i], &answer, &err) != HEFT_EUSAGE)
			fail_msg("%s", wrong[i]);
	assert_int_equal(ask(view_tree, "pid=77", &answer, &err), HEFT_ENOTFOUND);
	assert_int_equal(ask(view_tree, "thread=nobody", &answer, &err), HEFT_ENOTFOUND);
}

TEST(test_cut_names)
{
	struct view_query q;
	struct view_name room;
	char name[3000];
	view_query_init(&q);
	q.limits.name_bytes = 20;
	assert_string_equal(view_cut(&q, "short", &room), "short");
	assert_string_equal(view_cut(&q, NULL, &room), "");
	assert_string_equal(view_cut(&q, "12345678901234567890", &room), "12345678901234567890");
	assert_string_equal(view_cut(&q, "abcdefghijklmnopqrstuvwxyz", &room),
			    "abcdefgh...stuvwxyz");
	/* Characters stay whole, and what never was one does no harm. */
	for (unsigned i = 0; i < sizeof name - 1; i++)
		name[i] = (char)"\xe2\x82\xac"[i % 3];
	name[sizeof name - 1] = 0;
	q.limits.name_bytes = MODEL_JSON_NAME_BYTES;
	size_t cut = strlen(view_cut(&q, name, &room));
	assert_true(cut <= MODEL_JSON_NAME_BYTES + 4);
	memset(name, 0x80, sizeof name - 1);
	assert_true(strlen(view_cut(&q, name, &room)) <= MODEL_JSON_NAME_BYTES + 4);
}

/* ---- packing and the one-file report */

TEST(test_packing)
{
	static const char *const texts[] = {"", "f", "fo", "foo", "foob", "fooba", "foobar"};
	static const char *const coded[] = {"",         "Zg==",     "Zm8=",    "Zm9v",
					    "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"}; /* RFC 4648 */
	for (size_t i = 0; i < 7; i++) {
		size_t n;
		char *text = view_base64(texts[i], strlen(texts[i]), &n);
		assert_string_equal(text, coded[i]);
		assert_int_equal(n, strlen(coded[i]));
		free(text);
	}
	char data[5000], back[5000], *packed;
	size_t bytes;
	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (char)(i * i >> 3);
	assert_int_equal(view_pack(data, sizeof data, 9, &packed, &bytes), 0);
	assert_int_equal(view_unpack(packed, bytes, back, sizeof back), 0);
	assert_memory_equal(data, back, sizeof data);
	assert_int_equal(view_unpack(packed, bytes - 9, back, sizeof back), HEFT_ENOMEM);
	free(packed);
}

TEST(test_html)
{
	char *text = NULL;
	size_t size;
	struct heft_error err;
	FILE *out = open_memstream(&text, &size);
	if (view_html(out, opened, true, &err) < 0)
		fail_msg("%s", err.message);
	fclose(out);
	assert_true(size < VIEW_HTML_BYTES);
	assert_null(strstr(text, VIEW_PAGE_DATA));
	char *data = strstr(text, "<script type=\"application/json\" id=\"heft-data\">");
	assert_non_null(data);
	data = strchr(data, '>') + 1;
	/* Letters of base64 and then the element's end: no name can end it before. */
	assert_int_equal(strncmp(data + strspn(data, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
						     "abcdefghijklmnopqrstuvwxyz0123456789+/="),
				 "</script>", 9),
			 0);
	free(text);
}

/* ---- what the program said */

static json_t *only(json_t *object, const char *list)
{
	assert_int_equal(length(object, list), 1);
	return json_array_get(json_object_get(object, list), 0);
}

TEST(test_remarks)
{
	struct view_recording *usual = opened;
	struct heft_error err;
	json_t *t = document(view_remarks, "");
	assert_int_equal(json_object_size(t), 0); /* it said nothing */
	json_decref(t);
	remarks_record(said, SAID_COUNT);
	assert_int_equal(
		view_recording_open(&opened, remarks_path, "1", "remarks.heft", &loader, &err), 0);

	t = document(view_remarks, "");
	assert_int_equal(length(t, "marks"), 4);
	assert_int_equal(length(t, "regions"), 3);
	assert_int_equal(length(t, "stages"), 5);
	json_t *stage = json_array_get(json_object_get(t, "stages"), 0);
	assert_true(json_is_null(json_object_get(stage, "from")));
	assert_string_equal(string(stage, "to"), "queued");
	assert_int_equal(number(stage, "mean_ns"), 1150);
	json_t *pool = json_array_get(json_object_get(t, "pools"), 0);
	assert_int_equal(number(pool, "left_bytes"), 200);
	json_t *site = json_array_get(json_object_get(pool, "sites"), 0);
	assert_int_equal(number(site, "line"), 6);
	assert_string_equal(string(site, "caller"), "main");
	json_decref(t);

	/* A window, an instant (which is no window), one process. */
	t = document(view_remarks, "mode=allocated&from=5504&to=13000");
	assert_string_equal(string(only(t, "marks"), "name"), "B");
	assert_int_equal(length(t, "stages"), 4);
	assert_int_equal(number(only(t, "pools"), "objects"), 3);
	json_decref(t);
	t = document(view_remarks, "at=5504");
	assert_int_equal(length(t, "marks"), 4);
	json_decref(t);
	t = document(view_remarks, "process=1");
	assert_string_equal(string(only(t, "marks"), "name"), "B");
	assert_null(json_object_get(t, "stages"));
	json_decref(t);

	/* The timeline has the longest regions first. */
	t = document(view_timeline, "");
	assert_int_equal(length(t, "marks"), 4);
	json_t *region = json_array_get(json_object_get(t, "regions"), 0);
	assert_string_equal(string(region, "name"), "request");
	assert_int_equal(number(region, "begin_ns"), 3000);
	assert_int_equal(number(region, "end_ns"), 100000);
	json_decref(t);
	t = document(view_summary, "");
	assert_true(json_is_true(json_object_get(json_object_get(t, "has"), "remarks")));
	json_decref(t);
	view_recording_close(opened);
	opened = usual;
}

UNIT_TESTS(make, drop)
