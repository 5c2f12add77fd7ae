/* Exports of the recording in recording_fixture.h: every number follows from the table there. And
 * how a file comes to be: whole or not at all. */
#include "export/export.h"

#include "profile_fixture.h"

#include <dirent.h>
#include <jansson.h>
#include <sys/stat.h>

static char *text_of(const char *format, const struct profile *p, const struct export_options *o)
{
	const struct exporter *x = exporter_find(format);
	struct heft_error err = {0};
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	assert_non_null(x);
	if (x->write(out, p, o, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(fclose(out), 0);
	return text;
}

static void expect_folded(const struct profile *p, enum measure_id measure, bool invert,
			  const char *expected)
{
	char *text = text_of("folded", p,
			     &(struct export_options){.measure = measure, .invert = invert});
	assert_string_equal(text, expected);
	free(text);
}

TEST(test_folded)
{
	struct profile *p = load(NULL);
	/* 100 and 30 at line 5; the realloc's 500 below line 6. */
	expect_folded(p, MEASURE_PEAK_BYTES, false, "main;f 130\nmain;f;[unknown]+0x1234 500\n");
	expect_folded(p, MEASURE_LIVE_BYTES, false, "main;f 100\n[stack unknown] 10\n");
	/* 100 + 50 + 30 + 200; 500 - 200. */
	expect_folded(p, MEASURE_ALLOCATED_BYTES, false,
		      "main;f 380\nmain;f;[unknown]+0x1234 300\n[stack unknown] 10\n");
	expect_folded(p, MEASURE_ALLOCATIONS, false, "main;f 4\n[stack unknown] 1\n");
	expect_folded(p, MEASURE_TEMPORARY, false, "main;f 1\n");
	/* 9000 + 2000 of line 5's malloc, 4000 of its calloc; the resized block lives on elsewhere. */
	expect_folded(p, MEASURE_LIFETIME, false,
		      "main;f 15000\nmain;f;[unknown]+0x1234 4000\n[stack unknown] 2000\n");
	expect_folded(p, MEASURE_PEAK_BYTES, true, "[unknown]+0x1234;f;main 500\nf;main 130\n");
	profile_free(p);
}

TEST(test_selections)
{
	struct profile_selection at = {.has_window = true, .from_ns = 3500, .to_ns = 3500};
	struct profile *p = load(&at);
	expect_folded(p, MEASURE_LIVE_BYTES, false, "main;f 180\n");
	profile_free(p);
	p = load(&(struct profile_selection){.has_pid = true, .pid = 200});
	expect_folded(p, MEASURE_PEAK_BYTES, false, "main;f;[unknown]+0x1234 500\n");
	profile_free(p);
	p = load(&(struct profile_selection){.thread = "worker"});
	/* Equal ones stand in the order of the sites: the known one has the greater peak. */
	expect_folded(p, MEASURE_ALLOCATIONS, false, "main;f 1\n[stack unknown] 1\n");
	profile_free(p);
}

TEST(test_csv)
{
	struct profile *p = load(NULL);
	char *text = text_of("csv", p, &(struct export_options){.measure = MEASURE_PEAK_BYTES});
	char expected[2048], place[512];
	const char *head =
		"id,via,function,file,line,module,user_function,user_file,user_line,user_module,"
		"stack,peak_bytes,peak_blocks,own_peak_bytes,peak_slack_bytes,live_bytes,"
		"live_blocks,live_slack_bytes,left_bytes,left_blocks,allocated_bytes,allocations,"
		"reallocations,reallocated_bytes,frees,temporary,cross_thread_frees,"
		"lifetime_mean_ns,lifetime_p50_ns,lifetime_p99_ns,lifetime_max_ns\r\n";
	assert_int_equal(strncmp(text, head, strlen(head)), 0);
	snprintf(place, sizeof place, "\"f\",\"%s/prog.c\",5,\"%s\"", fixture_folder,
		 fixture_program);
	/* p50 is a bound of the histogram, as in the report. */
	snprintf(expected, sizeof expected,
		 "\r\n2,\"malloc\",%s,%s,\"main;f\",100,1,150,4,100,1,4,100,1,150,2,0,0,1,1,0,"
		 "5500,2048,9000,9000\r\n",
		 place, place);
	if (!strstr(text, expected))
		fail_msg("%s is not in %s", expected, text);
	snprintf(expected, sizeof expected,
		 "\r\n3,\"calloc\",%s,%s,\"main;f\",30,1,30,0,0,0,0,0,0,30,1,0,0,1,0,1,", place,
		 place);
	if (!strstr(text, expected))
		fail_msg("%s is not in %s", expected, text);
	assert_non_null(strstr(text, ",\"malloc\",\"[stack unknown]\",,,,\"[stack unknown]\",,,,"
				     "\"[stack unknown]\",0,0,10,0,10,1,0,10,1,10,1,0,0,0,"));
	size_t lines = 0;
	for (const char *c = text; (c = strstr(c, "\r\n")); c += 2)
		lines++;
	assert_int_equal(lines, 6);
	free(text);
	/* What is not known is empty, not 0. */
	p->run.has = PROFILE_HAS_LIVE;
	text = text_of("csv", p, &(struct export_options){.measure = MEASURE_LIVE_BYTES});
	assert_non_null(strstr(text, ",\"main;f\",,,,,100,1,,100,1,,,,,,,,,,,\r\n"));
	assert_ptr_equal(strstr(text, "\r\n2,\"malloc\""), strstr(text, "\r\n")); /* the largest */
	free(text);
	profile_free(p);
}

static json_t *parse(const char *text)
{
	json_error_t why;
	json_t *j = json_loads(text, JSON_REJECT_DUPLICATES, &why);
	if (!j)
		fail_msg("line %d: %s in %s", why.line, why.text, text);
	return j;
}

static void expect_array(json_t *array, size_t count, const long long *numbers)
{
	assert_int_equal(json_array_size(array), count);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(json_integer_value(json_array_get(array, i)), numbers[i]);
}

TEST(test_speedscope)
{
	struct profile *p = load(NULL);
	char *text = text_of("speedscope", p,
			     &(struct export_options){.measure = MEASURE_LIVE_BYTES});
	json_t *j = parse(text), *shared = json_object_get(j, "shared");
	json_t *frames = json_object_get(shared, "frames"), *profile;
	json_t *profiles = json_object_get(j, "profiles");
	/* peak, live, left (there are several processes), allocated, count, temporary: not lifetimes,
	 * unless asked for. */
	assert_int_equal(json_array_size(profiles), 6);
	assert_int_equal(json_integer_value(json_object_get(j, "activeProfileIndex")), 1);
	static const char *const names[] = {"main", "f", "[unknown]+0x1234", "[stack unknown]"};
	assert_int_equal(json_array_size(frames), 4);
	for (size_t i = 0; i < 4; i++)
		assert_string_equal(
			json_string_value(json_object_get(json_array_get(frames, i), "name")),
			names[i]);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(frames, 0), "line")),
			 11);
	/* f has lines 5 and 6: none of them is its line. */
	assert_null(json_object_get(json_array_get(frames, 1), "line"));
	assert_non_null(json_object_get(json_array_get(frames, 1), "file"));
	profile = json_array_get(profiles, 0);
	assert_string_equal(json_string_value(json_object_get(profile, "type")), "sampled");
	assert_string_equal(json_string_value(json_object_get(profile, "unit")), "bytes");
	assert_int_equal(json_integer_value(json_object_get(profile, "endValue")), 630);
	json_t *samples = json_object_get(profile, "samples");
	expect_array(json_array_get(samples, 0), 2, (const long long[]){0, 1});
	expect_array(json_array_get(samples, 1), 3, (const long long[]){0, 1, 2});
	expect_array(json_object_get(profile, "weights"), 2, (const long long[]){130, 500});
	profile = json_array_get(profiles, 4);
	assert_string_equal(json_string_value(json_object_get(profile, "name")), "allocations");
	assert_string_equal(json_string_value(json_object_get(profile, "unit")), "none");
	expect_array(json_object_get(profile, "weights"), 2, (const long long[]){4, 1});
	json_decref(j);
	free(text);
	profile_free(p);
	/* At an instant there is nothing but what is live then. */
	p = load(&(struct profile_selection){.has_window = true, .from_ns = 3500, .to_ns = 3500});
	text = text_of("speedscope", p, &(struct export_options){.measure = MEASURE_LIVE_BYTES});
	j = parse(text);
	profiles = json_object_get(j, "profiles");
	assert_int_equal(json_array_size(profiles), 1);
	expect_array(json_object_get(json_array_get(profiles, 0), "weights"), 1,
		     (const long long[]){180});
	json_decref(j);
	free(text);
	profile_free(p);
}

TEST(test_flamegraph)
{
	struct profile *p = load(NULL);
	char *text = text_of("flamegraph", p,
			     &(struct export_options){.measure = MEASURE_PEAK_BYTES});
	/* depth, start, value: main and f span everything, the 500 come first below f. */
	assert_non_null(strstr(text, "data-f=\"0 0 630\""));
	assert_non_null(strstr(text, "data-f=\"1 0 630\"><title>main\n"));
	assert_non_null(strstr(text, "data-f=\"2 0 630\"><title>f\n"));
	assert_non_null(strstr(text, "data-f=\"3 0 500\"><title>[unknown]+0x1234\n"));
	assert_non_null(strstr(text, "\n630 bytes, 100.00 % of all; 130 by itself</title>"));
	assert_non_null(strstr(text, "\n500 bytes, 79.37 % of all</title>"));
	assert_non_null(strstr(text, ">630 bytes live at the peak</text>"));
	assert_non_null(strstr(text, "/prog.c:11, prog\n"));
	assert_null(strstr(text, "Not drawn"));
	assert_null(strstr(text, "\033"));
	assert_null(strstr(text, "http://www.w3.org/2000/svg\" href"));
	/* 1180 pixels wide: 500 of 630 are 936.5. */
	assert_non_null(strstr(text, "width=\"936.5\""));
	free(text);
	text = text_of("flamegraph", p,
		       &(struct export_options){.measure = MEASURE_ALLOCATIONS, .focus = "<&>"});
	assert_non_null(strstr(text, ">5 allocations</text>"));
	assert_non_null(strstr(text, "\n1 allocation, 20.00 % of all</title>"));
	assert_non_null(strstr(text, "focus &lt;&amp;&gt;"));
	free(text);
	profile_free(p);
	p = load(&(struct profile_selection){.has_window = true, .from_ns = 500, .to_ns = 500});
	text = text_of("flamegraph", p, &(struct export_options){.measure = MEASURE_LIVE_BYTES});
	assert_non_null(strstr(text, ">0 bytes live at 500 ns</text>"));
	assert_non_null(strstr(text, "nothing of this measure"));
	free(text);
	profile_free(p);
}

TEST(test_measures)
{
	for (enum measure_id i = 0; i < MEASURE_COUNT; i++) {
		for (enum measure_id k = 0; k < i; k++)
			assert_string_not_equal(measures[k].name, measures[i].name);
		if (measures[i].option)
			assert_int_equal(measure_of_option(measures[i].option), i);
		/* Bytes at a moment come with their blocks, which are of that moment too. */
		if (measures[i].blocks != MEASURE_COUNT)
			assert_int_equal(measures[measures[i].blocks].needs, measures[i].needs);
	}
	assert_int_equal(measure_of_option("bytes"), MEASURE_COUNT);
	assert_string_equal(measure_unit_name(MEASURE_LIVE_BYTES), "bytes");
	assert_string_equal(measure_unit_name(MEASURE_ALLOCATIONS), "count");
	assert_string_equal(measure_unit_name(MEASURE_LIFETIME), "ns");
	/* A sum that does not fit says the most there is instead of little. */
	struct profile_site site = {.frees = 3, .lifetime.mean_ns = UINT64_MAX / 2};
	assert_true(measure_of_stack(&site, MEASURE_LIFETIME) == UINT64_MAX);
	struct profile p = {.run.has = PROFILE_HAS_LIVE};
	assert_true(measure_known(&p, MEASURE_LIVE_BYTES));
	assert_false(measure_known(&p, MEASURE_PEAK_BYTES));
	assert_null(exporter_find("nonsense"));
}

/* ---- files */

static int write_word(FILE *out, const struct profile *p, const struct export_options *o,
		      struct heft_error *err)
{
	(void)p, (void)o, (void)err;
	fputs("word\n", out);
	return 0;
}

static int write_half(FILE *out, const struct profile *p, const struct export_options *o,
		      struct heft_error *err)
{
	(void)p, (void)o;
	fputs("half", out);
	fflush(out);
	return heft_fail(err, HEFT_ENOMEM, "no more");
}

static char *contents(const char *path)
{
	static char text[64];
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	text[fread(text, 1, sizeof text - 1, f)] = 0;
	fclose(f);
	return text;
}

static size_t files_in(const char *folder)
{
	size_t count = 0;
	DIR *d = opendir(folder);
	for (struct dirent *e; (e = readdir(d));)
		count += e->d_name[0] != '.';
	closedir(d);
	return count;
}

TEST(test_files)
{
	static const struct exporter word = {"word",     "",    "word",        true,
					     write_word, false, EXPORT_MERGED, false};
	static const struct exporter half = {"half",     "",    "half",        true,
					     write_half, false, EXPORT_MERGED, false};
	struct export_options o = {0};
	struct heft_error err = {0};
	struct stat st;
	char folder[160], path[200], aside[200];
	snprintf(folder, sizeof folder, "%s/out", fixture_folder);
	assert_int_equal(mkdir(folder, 0700), 0);
	snprintf(path, sizeof path, "%s/file", folder);
	snprintf(aside, sizeof aside, "%s/link", folder);

	assert_int_equal(export_to_path(&half, path, false, NULL, &o, &err), HEFT_ENOMEM);
	assert_int_equal(files_in(folder), 0);
	mode_t mask = umask(022);
	assert_int_equal(export_to_path(&word, path, false, NULL, &o, &err), 0);
	umask(mask);
	assert_string_equal(contents(path), "word\n");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0644);
	assert_int_equal(files_in(folder), 1);

	FILE *f = fopen(path, "w");
	fputs("old", f);
	fclose(f);
	assert_int_equal(export_path_check(&word, path, false, &err), HEFT_EREFUSED);
	assert_int_equal(export_to_path(&word, path, false, NULL, &o, &err), HEFT_EREFUSED);
	assert_non_null(strstr(err.message, "--force"));
	assert_int_equal(export_to_path(&half, path, true, NULL, &o, &err), HEFT_ENOMEM);
	assert_string_equal(contents(path), "old");
	assert_int_equal(symlink(path, aside), 0);
	assert_int_equal(export_to_path(&word, aside, true, NULL, &o, &err), 0);
	assert_string_equal(contents(path), "word\n");
	assert_int_equal(lstat(aside, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(files_in(folder), 2);

	assert_int_equal(export_to_path(&word, folder, true, NULL, &o, &err), HEFT_EREFUSED);
	assert_int_equal(export_to_path(&word, "/nowhere/at/all", false, NULL, &o, &err), HEFT_EIO);
	assert_int_equal(export_to_path(&word, "/dev/null", false, NULL, &o, &err), 0);
	assert_int_equal(stat("/dev/null", &st), 0);
	assert_true(S_ISCHR(st.st_mode));
	assert_int_equal(export_to_path(&word, "/dev/full", false, NULL, &o, &err), HEFT_EIO);
	assert_non_null(strstr(err.message, "/dev/full"));
}

UNIT_TESTS(fixture_make, fixture_remove)
