/* Exports of profiles that were made to break them: names that are markup, line breaks, escape
 * sequences, no text at all or endless; more frames than a picture can hold; stacks without end. */
#include "export/export.h"
#include "unit_test.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint32_t add_frame(struct profile *p, const char *function, const char *file)
{
	struct profile_frame f = {.module = PROFILE_NONE, .line = 7};
	uint32_t id;
	f.function = name_pool_add(p->names, function);
	f.file = file ? name_pool_add(p->names, file) : NULL;
	assert_non_null(f.function);
	assert_int_equal(profile_add_frame(p, &f, &id), 0);
	return id;
}

static uint32_t add_node(struct profile *p, uint32_t parent, uint32_t frame)
{
	uint32_t id;
	assert_int_equal(profile_add_node(p, parent, frame, 0, &id), 0);
	return id;
}

static void add_site(struct profile *p, uint32_t node, uint64_t bytes)
{
	uint32_t id;
	assert_int_equal(profile_add_site(p, node, PROFILE_VIA_MALLOC, &id), 0);
	p->sites[id].peak_bytes = bytes;
	p->sites[id].allocations = 1;
}

static struct profile *make(void)
{
	struct profile *p = profile_new();
	assert_non_null(p);
	p->run.has = PROFILE_HAS_ALL;
	p->run.complete = true;
	p->run.format = "heft";
	return p;
}

static char *text_of(const char *format, const struct profile *p, size_t *size)
{
	const struct export_options o = {.measure = MEASURE_PEAK_BYTES};
	struct heft_error err = {0};
	char *text = NULL;
	FILE *out = open_memstream(&text, size);
	if (exporter_find(format)->write(out, p, &o, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(fclose(out), 0);
	return text;
}

static void expect_xml(const char *text, size_t size)
{
	if (system("xmllint --version >/dev/null 2>&1") != 0) {
		print_message("xmllint is not there: well-formedness not checked\n");
		return;
	}
	FILE *f = popen("xmllint --noout -", "w");
	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, size, f), size);
	assert_int_equal(pclose(f), 0);
}

static void expect_small(char *svg, size_t size)
{
	assert_true(size < 1000000);
	expect_xml(svg, size);
	free(svg);
}

static const char evil[] = "<script>alert(\"1\")</script>&amp;']]>;\n\r\t\033[31m\x01\xff\xfe"
			   "\xed\xa0\x80\xe2\x80\xae\xef\xbf\xbf\xc2\x85 end";

static struct profile *make_evil(void)
{
	static const char *argv[] = {"./a", evil};
	struct profile *p = make();
	p->run.argv = argv;
	p->run.argc = 2;
	uint32_t root = add_node(p, PROFILE_NONE, add_frame(p, evil, evil));
	char *longest = malloc(10001);
	memset(longest, '<', 10000);
	longest[10000] = 0;
	add_site(p, root, 100);
	add_site(p, add_node(p, root, add_frame(p, longest, longest)), 50);
	add_site(p, add_node(p, root, add_frame(p, "", NULL)), 25);
	free(longest);
	profile_finish_sites(p);
	return p;
}

static void free_evil(struct profile *p)
{
	p->run.argc = 0; /* not the profile's own */
	p->run.argv = NULL;
	profile_free(p);
}

TEST(test_names_in_svg)
{
	size_t size;
	struct profile *p = make_evil();
	char *text = text_of("flamegraph", p, &size);
	assert_null(strstr(text, "<script>alert"));
	assert_null(strstr(text, "\033"));
	assert_null(strstr(text, "\xff"));
	assert_null(strstr(text, "\xe2\x80\xae"));
	assert_non_null(strstr(text,
			       "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;amp;"
			       "&#39;]]&gt;;\\x0a\\x0d\\x09\\x1b[31m\\x01\\xff\\xfe"
			       "\\xed\\xa0\\x80\\xe2\\x80\\xae\\xef\\xbf\\xbf\\xc2\\x85 end"));
	/* One script and one style: heft's own. */
	assert_null(strstr(strstr(text, "<script>") + 1, "<script"));
	assert_non_null(strstr(text, "<title>[no name]\n"));
	expect_small(text, size);
	free_evil(p);
}

TEST(test_names_in_lines)
{
	size_t size;
	struct profile *p = make_evil();
	char *text = text_of("folded", p, &size);
	const char *first = "<script>alert(\"1\")</script>&amp:']]>:\\x0a\\x0d\\x09\\x1b[31m\\x01"
			    "\\xff\\xfe\\xed\\xa0\\x80\\xe2\\x80\\xae\\xef\\xbf\\xbf\\xc2\\x85 end";
	assert_int_equal(strncmp(text, first, strlen(first)), 0);
	assert_int_equal(strncmp(text + strlen(first), " 100\n", 5), 0);
	size_t lines = 0;
	for (size_t i = 0; i < size; i++)
		lines += text[i] == '\n';
	assert_int_equal(lines, 3);
	assert_non_null(strstr(text, ";[no name] 25\n"));
	assert_non_null(strstr(text, "<<<< 50\n")); /* whole: a line has room */
	assert_true(size > 10000);
	free(text);
	text = text_of("csv", p, &size);
	assert_non_null(strstr(text, ",\"<script>alert(\"\"1\"\")</script>&amp;']]>;\\x0a\\x0d"));
	assert_non_null(strstr(text, ",\"<script>alert(\"\"1\"\")</script>&amp:']]>:\\x0a\\x0d"));
	lines = 0;
	for (size_t i = 0; i < size; i++)
		lines += text[i] == '\n';
	assert_int_equal(lines, 4);
	free(text);
	free_evil(p);
}

/* 40,000 frames with long names that are all escapes: far more than a megabyte. */
TEST(test_many_frames)
{
	struct profile *p = make();
	char name[600];
	size_t size;
	uint32_t root = add_node(p, PROFILE_NONE, add_frame(p, "main", NULL));
	for (int i = 0; i < 40000; i++) {
		memset(name, '"', sizeof name);
		snprintf(name + 500, 20, "%d", i);
		add_site(p, add_node(p, root, add_frame(p, name, name)), 1000);
	}
	profile_finish_sites(p);
	char *text = text_of("flamegraph", p, &size);
	/* Each is 1/40,000 of all: under the smallest that is drawn, so only main is. */
	assert_non_null(strstr(text, "Not drawn: the 40,000 narrowest frames, 100.00 % of all"));
	expect_small(text, size);
	profile_free(p);

	p = make();
	root = add_node(p, PROFILE_NONE, add_frame(p, "main", NULL));
	for (int i = 0; i < 5000; i++) { /* wide enough, but too many bytes */
		memset(name, '"', sizeof name);
		snprintf(name + 500, 20, "%d", i);
		add_site(p, add_node(p, root, add_frame(p, name, name)), 1000);
	}
	profile_finish_sites(p);
	text = text_of("flamegraph", p, &size);
	assert_non_null(strstr(text, "Not drawn: the "));
	assert_true(size > 500000); /* the room is used */
	expect_small(text, size);
	profile_free(p);
}

TEST(test_deep_stack)
{
	struct profile *p = make();
	size_t size;
	uint32_t frame = add_frame(p, "again", "a.c"), node = PROFILE_NONE;
	for (int i = 0; i < 100000; i++)
		node = add_node(p, node, frame);
	add_site(p, node, UINT64_MAX);
	add_site(p, PROFILE_NONE, UINT64_MAX); /* sums that do not fit */
	profile_finish_sites(p);
	char *svg = text_of("flamegraph", p, &size);
	expect_small(svg, size);
	free(text_of("folded", p, &size));
	assert_true(size > 600000);
	free(text_of("speedscope", p, &size));
	free(text_of("csv", p, &size));
	profile_free(p);
}

TEST(test_nothing)
{
	struct profile *p = make();
	size_t size;
	profile_finish_sites(p);
	char *svg = text_of("flamegraph", p, &size);
	expect_small(svg, size);
	free(text_of("folded", p, &size));
	assert_int_equal(size, 0);
	free(text_of("speedscope", p, &size));
	free(text_of("csv", p, &size));
	profile_free(p);
}

UNIT_TESTS(NULL, NULL)
