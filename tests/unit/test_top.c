/* The live view without a terminal: rows and lines of profiles made by hand, keys, and that nothing
 * hostile or narrow breaks a line. */
#include "diagnosis_fixture.h"

#include "findings_double.h"
#include "hosted/name_words.h"
#include "hosted/utf8.h"
#include "top/top.h"
#include "top/top_numbers.h"

void findings_free(struct findings *f) /* of the double's: there is nothing to free */
{
	assert_null(f);
}

/* ---- numbers */

static void check_number(void (*write)(char[TOP_NUMBER], uint64_t), uint64_t n,
			 const char *expected)
{
	char text[TOP_NUMBER];
	write(text, n);
	assert_string_equal(text, expected);
}

TEST(test_numbers)
{
	char text[TOP_NUMBER];
	check_number(top_bytes, 0, "0B");
	check_number(top_bytes, 999, "999B");
	check_number(top_bytes, 1000, "1.0K"); /* four digits would not fit */
	check_number(top_bytes, 10137, "9.9K");
	check_number(top_bytes, 10240, "10K");
	check_number(top_bytes, 412u << 20, "412M");
	check_number(top_bytes, UINT64_MAX, "16E");
	check_number(top_count, 999, "999");
	check_number(top_count, 92000, "92k");
	check_number(top_count, UINT64_MAX, "18E");
	check_number(top_age, 256, "256ns");
	check_number(top_age, 4100000000u, "4.1s");
	check_number(top_age, 180ull * SECOND, "3m");
	check_number(top_age, UINT64_MAX, "213504d");
	check_number(top_clock, 133ull * SECOND, "02:13");
	check_number(top_clock, 3733ull * SECOND, "1:02:13");
	top_growth(text, -12288);
	assert_string_equal(text, "-12K");
	top_growth(text, 1258291);
	assert_string_equal(text, "+1.2M");
	top_growth(text, 0.2);
	assert_string_equal(text, "0");
}

/* ---- profiles */

/* Three sites: two in push of 4 and 1 MiB, one in load of 1.5 MiB. 10 s. */
static struct profile *three_sites(uint64_t push_bytes)
{
	struct profile *p = new_profile(10ull * SECOND);
	p->run.has = PROFILE_HAS_ALL;
	p->run.complete = false;
	p->run.end = PROFILE_END_RUNNING;
	p->run.pid = 4711;
	struct profile_process process = {.pid = 4711,
					  .exe = name_pool_add(p->names, "/srv/api-server")};
	uint32_t id;
	assert_int_equal(profile_add_process(p, &process, &id), 0);
	add_site(p, "main:5 load:30", 96, 16384);
	add_site(p, "main:5 serve:12 push:88", push_bytes >> 10, 1024);
	add_site(p, "main:6 push:88", 1024, 1024);
	for (uint32_t i = 0; i < p->site_count; i++) {
		p->sites[i].lifetime.p50_ns = 4100000000u;
		p->sites[i].history = PROFILE_NONE;
		p->totals.live_bytes += p->sites[i].live_bytes;
		p->totals.live_blocks += p->sites[i].live_blocks;
	}
	p->totals.peak_bytes = 8u << 20;
	p->totals.peak_time_ns = 7ull * SECOND;
	p->totals.threads = 3;
	p->run.rss = malloc(2 * sizeof *p->run.rss);
	p->run.rss[0] = (struct profile_rss){SECOND, 40u << 20};
	p->run.rss[1] = (struct profile_rss){7500000000u, 60u << 20};
	p->run.rss_count = 2;
	profile_finish_sites(p);
	return p;
}

/* Live bytes of everything and of the first site over the eight seconds of its run. */
static void give_history(struct profile *p)
{
	struct profile_history *h = &p->behaviour.history;
	p->run.duration_ns = 8ull * SECOND;
	h->slot_ns = SECOND;
	h->slot_count = 8;
	h->bytes = calloc(8, sizeof *h->bytes);
	h->blocks = calloc(8, sizeof *h->blocks);
	h->rows = calloc(1, sizeof *h->rows);
	h->row_count = 1;
	h->rows[0] = (struct profile_history_row){.site = 0,
						  .bytes = calloc(8, sizeof(uint64_t)),
						  .blocks = calloc(8, sizeof(uint64_t))};
	for (uint64_t i = 0; i < 8; i++) {
		h->rows[0].bytes[i] = (i + 1) << 19; /* 512 KiB more each second, 4 MiB at last */
		h->bytes[i] = h->rows[0].bytes[i] + (5u << 19); /* the other two sites */
	}
	p->sites[0].history = 0;
}

static struct top_rows rows_of(const struct profile *p, struct top_view v)
{
	struct top_rows rows;
	assert_int_equal(top_rows_new(&rows, p, &v), 0);
	return rows;
}

static const char *name_of(const struct profile *p, const struct top_row *row)
{
	return p->stacks.frames[row->name].function;
}

/* ---- rows */

TEST(test_rows_are_sorted_and_grouped)
{
	struct profile *p = three_sites(4u << 20);
	struct top_rows rows = rows_of(p, (struct top_view){0});
	assert_int_equal(rows.count, 3);
	assert_int_equal(rows.rows[0].values[TOP_BY_LIVE], 4u << 20);
	assert_string_equal(name_of(p, &rows.rows[0]), "push");
	assert_false(rows.rows[0].has_growth); /* neither a sample nor a history */
	assert_true(rows.rows[0].values[TOP_BY_AGE]);
	top_rows_free(&rows);

	rows = rows_of(p, (struct top_view){.group = TOP_FUNCTIONS});
	assert_int_equal(rows.count, 2);
	assert_string_equal(name_of(p, &rows.rows[0]), "push");
	assert_int_equal(rows.rows[0].sites, 2);
	assert_int_equal(rows.rows[0].values[TOP_BY_LIVE], 5u << 20);
	assert_int_equal(rows.rows[0].values[TOP_BY_BLOCKS], 5u << 10);
	top_rows_free(&rows);

	rows = rows_of(p, (struct top_view){.group = TOP_MODULES});
	assert_int_equal(rows.count, 1);
	assert_int_equal(rows.rows[0].sites, 3);
	assert_int_equal(rows.rows[0].values[TOP_BY_LIVE], 13u << 19);
	top_rows_free(&rows);

	rows = rows_of(p, (struct top_view){.sort = TOP_BY_BLOCKS});
	assert_int_equal(rows.rows[2].values[TOP_BY_BLOCKS], 96);
	top_rows_free(&rows);
	profile_free(p);
}

TEST(test_filter)
{
	struct profile *p = three_sites(4u << 20);
	struct top_rows rows = rows_of(p, (struct top_view){.filter = "SERVE"});
	assert_int_equal(rows.count, 1); /* a caller matches too, in any case */
	assert_int_equal(rows.rows[0].values[TOP_BY_LIVE], 4u << 20);
	top_rows_free(&rows);
	rows = rows_of(p, (struct top_view){.filter = "^(load|serve)$"});
	assert_int_equal(rows.count, 2);
	top_rows_free(&rows);
	rows = rows_of(p, (struct top_view){.filter = "push("}); /* no expression: plain text */
	assert_int_equal(rows.count, 0);
	top_rows_free(&rows);
	rows = rows_of(p, (struct top_view){.filter = "prog.c"});
	assert_int_equal(rows.count, 3);
	top_rows_free(&rows);
	profile_free(p);
}

TEST(test_growth_from_samples)
{
	struct profile *before = three_sites(2u << 20), *p = three_sites(4u << 20);
	before->run.duration_ns = 6ull * SECOND;
	struct top_sample *sample = top_sample_new(before);
	assert_non_null(sample);
	assert_int_equal(sample->count, 3);

	/* 2 MiB in 4 s, whatever order the sites are in. */
	struct top_rows rows = rows_of(p, (struct top_view){.before = sample});
	assert_true(rows.has_growth && rows.rows[0].has_growth);
	assert_int_equal((int64_t)rows.growth, 1 << 19);
	assert_int_equal((int64_t)rows.rows[0].growth, 1 << 19);
	assert_int_equal((int64_t)rows.rows[1].growth, 0);
	top_rows_free(&rows);

	/* Since the mark: bytes, not bytes a second. */
	rows = rows_of(p, (struct top_view){.mark = sample, .group = TOP_FUNCTIONS});
	assert_int_equal((int64_t)rows.rows[0].growth, 2 << 20);
	top_rows_free(&rows);

	/* A sample of the same moment tells nothing. */
	sample->time_ns = p->run.duration_ns;
	rows = rows_of(p, (struct top_view){.before = sample});
	assert_false(rows.has_growth);
	top_rows_free(&rows);
	free(sample);
	profile_free(before);
	profile_free(p);
}

/* A program that frees everything in the last moment: the history's last slot is older than that. */
TEST(test_growth_up_to_the_end)
{
	struct profile *p = three_sites(4u << 20);
	give_history(p);
	p->run.complete = true;
	p->run.end = PROFILE_END_EXIT;
	p->totals.live_bytes = p->sites[0].live_bytes = 0;
	struct top_rows rows = rows_of(p, (struct top_view){0});
	/* At 3 s it had 1.5 MiB and the other sites 2.5 MiB. */
	assert_int_equal((int64_t)rows.growth, -(4 << 20) / 5);
	top_rows_free(&rows);

	/* 0.4 s longer: slots do not end with the run. 3 s is still the last one that is 5 s ago. */
	p->run.duration_ns = 8400000000u;
	p->totals.live_bytes = 4u << 20;
	rows = rows_of(p, (struct top_view){0});
	assert_int_equal((int64_t)rows.growth, 0);
	top_rows_free(&rows);

	/* The history is of all threads. */
	p->chosen.words = "thread 12";
	rows = rows_of(p, (struct top_view){0});
	assert_false(rows.has_growth || rows.rows[0].has_growth);
	top_rows_free(&rows);
	profile_free(p);
}

/* Rates of runs and windows under a second are rates; under a tenth of one there is none. */
TEST(test_growth_in_a_short_time)
{
	struct profile *p = three_sites(4u << 20), *before = three_sites(2u << 20);
	give_history(p);
	p->run.duration_ns = 500000000u;
	p->behaviour.history.slot_ns = 62500000u;
	struct top_rows rows = rows_of(p, (struct top_view){0});
	assert_int_equal((int64_t)rows.growth, 13 << 20); /* 6.5 MiB in half a second */
	top_rows_free(&rows);

	before->run.duration_ns = 250000000u;
	struct top_sample *sample = top_sample_new(before);
	rows = rows_of(p, (struct top_view){.before = sample});
	assert_int_equal((int64_t)rows.growth, 8 << 20); /* 2 MiB in a quarter */
	assert_int_equal((int64_t)rows.rows[0].growth, 8 << 20);
	top_rows_free(&rows);

	sample->time_ns =
		450000000u; /* 2 MiB in 50 ms would be 40 MiB/s: the run's average is used */
	rows = rows_of(p, (struct top_view){.before = sample});
	assert_int_equal((int64_t)rows.growth, 13 << 20);
	top_rows_free(&rows);

	p->run.duration_ns = 50000000u;
	rows = rows_of(p, (struct top_view){0});
	assert_false(rows.has_growth || rows.rows[0].has_growth);
	top_rows_free(&rows);
	free(sample);
	profile_free(before);
	profile_free(p);
}

TEST(test_growth_from_history)
{
	struct profile *p = three_sites(4u << 20);
	give_history(p);
	struct top_rows rows = rows_of(p, (struct top_view){0});
	assert_int_equal((int64_t)rows.growth, 1 << 19);
	assert_true(rows.rows[0].has_growth && rows.rows[0].has_trend);
	assert_int_equal((int64_t)rows.rows[0].growth, 1 << 19);
	assert_int_equal(rows.rows[0].trend[0], 1u << 19);
	assert_int_equal(rows.rows[0].trend[7], 4u << 20);
	assert_false(rows.rows[1].has_growth || rows.rows[1].has_trend);
	top_rows_free(&rows);
	profile_free(p);
}

TEST(test_age_trend)
{
	struct profile *before = three_sites(4u << 20), *p = three_sites(4u << 20);
	before->run.duration_ns = SECOND;
	p->sites[0].lifetime.p50_ns *= 2;
	struct top_sample *sample = top_sample_new(before);
	struct top_rows rows = rows_of(p, (struct top_view){.before = sample});
	assert_int_equal(rows.rows[0].age_trend, 1);
	assert_int_equal(rows.rows[1].age_trend, 0);
	top_rows_free(&rows);
	free(sample);
	profile_free(before);
	profile_free(p);
}

TEST(test_reorder)
{
	struct profile *p = three_sites(4u << 20);
	struct top_rows rows = rows_of(p, (struct top_view){0});
	uint64_t first = rows.rows[0].key, last = rows.rows[2].key;
	const uint64_t keys[] = {last, 42 /* of no row */, last};
	assert_int_equal(top_rows_reorder(&rows, keys, 3), 0);
	assert_true(rows.rows[0].key == last);
	assert_true(rows.rows[1].key == first);
	top_rows_free(&rows);
	profile_free(p);
}

/* ---- text */

static char *printed(const struct profile *p, const struct findings *f, struct top_view v,
		     size_t width, bool utf8, uint64_t expanded)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	const struct top_look look = {
		.width = width, .utf8 = utf8, .state = "running", .expanded = expanded, .limit = 2};
	assert_int_equal(top_print(out, p, f, &v, &look), 0);
	fclose(out);
	return text;
}

static void check_printed(const struct profile *p, struct top_view v, size_t width, bool utf8,
			  const char *expected)
{
	char *text = printed(p, NULL, v, width, utf8, 0);
	assert_string_equal(text, expected);
	free(text);
}

TEST(test_frame)
{
	struct profile *p = three_sites(4u << 20);
	give_history(p);
	check_printed(p, (struct top_view){0}, 90, true,
		      "heft top  api-server 4711  00:08  running  exact\n"
		      "live 6.5M \xe2\x96\xb2+512K/s  peak 8.0M@00:07  RSS 60M  gap 54M !  "
		      "blocks 5.2k  threads 3\n"
		      "heap ▄▄▅▆▆▇▇█  RSS ▅▅▅▅▅▅▅█\n"
		      "\n"
		      "   LIVE    Δ/s BLOCKS  AGE p50  TREND     SITE\n"
		      "   4.0M  +512K   4.1k     4.1s  ▁▂▃▄▅▆▇█  prog.c:88 push ← serve\n"
		      "   1.5M      -     96     4.1s            prog.c:30 load ← main\n"
		      "    ... 1 more (-n 3)\n");
	check_printed(p, (struct top_view){.group = TOP_FUNCTIONS}, 60, false,
		      "heft top  api-server 4711  00:08  running  functions by live\n"
		      "live 6.5M ^+512K/s  peak 8.0M@00:07  RSS 60M  gap 54M !\n"
		      "heap ==+**##@  RSS +++++++@\n"
		      "\n"
		      "   LIVE GREW/s BLOCKS  AGE p50  FUNCTION\n"
		      "   5.0M  +512K   5.1k        -  push (2 sites)\n"
		      "   1.5M      -     96     4.1s  load\n");
	check_printed(p, (struct top_view){.sort = TOP_BY_PEAK}, 30, true,
		      "api-server 4711  00:08  exact\n"
		      "live 6.5M \xe2\x96\xb2+512K/s  peak 8.0M\n"
		      "heap ▄▄▅▆▆▇▇█\n"
		      "\n"
		      "   PEAK  SITE\n"
		      "   4.0M  prog.c:88 push\n"
		      "   1.5M  prog.c:30 load\n"
		      "    ... 1 more (-n 3)\n");
	profile_free(p);
}

TEST(test_frame_shows_errors_of_samples)
{
	struct profile *p = three_sites(4u << 20);
	p->run.rate_bytes = 512u << 10;
	p->estimates.errors = calloc(3, sizeof *p->estimates.errors);
	p->estimates.errors[0].live_bytes = 300u << 10;
	p->estimates.errors[1].live_bytes = 400u << 10;
	p->estimates.errors[2].live_bytes = 300u << 10;
	p->estimates.total_errors.live_bytes = 600u << 10;
	char *text = printed(p, NULL, (struct top_view){.group = TOP_FUNCTIONS}, 80, true, 0);
	assert_non_null(strstr(text, "1 sample/512K"));
	assert_non_null(strstr(text, "live 6.5M ±600K"));
	/* of two sites: the root of the sum of squares */
	assert_non_null(strstr(text, "   5.0M   424K"));
	free(text);
	profile_free(p);
}

TEST(test_expanded_stack)
{
	struct profile *p = three_sites(4u << 20);
	struct top_rows rows = rows_of(p, (struct top_view){0});
	char *text = printed(p, NULL, (struct top_view){0}, 80, true, rows.rows[0].key);
	assert_non_null(strstr(text, "    malloc  allocated 4.0M in 4.1k  freed 0 %  at peak 4.0M\n"
				     "    prog.c:88 push\n"
				     "    prog.c:12 serve\n"
				     "    prog.c:5 main\n"));
	free(text);
	top_rows_free(&rows);
	profile_free(p);
}

TEST(test_finding_in_words)
{
	struct profile *p = three_sites(4u << 20);
	char *text = printed(p, &fixture_findings, (struct top_view){0}, 80, true, 0);
	assert_non_null(strstr(text,
			       "\n! Messages queue up without bound between f and worker_loop: "
			       "4,980 ... (+7 more)\n"));
	free(text);
	text = printed(p, &fixture_no_findings, (struct top_view){0}, 80, true, 0);
	assert_non_null(strstr(text, "\nno findings so far\n"));
	free(text);
	profile_free(p);
}

/* ---- hostile names, any width */

static void check_line(const char *line, size_t width, bool utf8)
{
	assert_true(words_columns(line) <= width);
	for (const unsigned char *s = (const unsigned char *)line; *s;) {
		size_t length = *s < 0x80 ? 1 : utf8_sequence_length(s);
		assert_true(length > 0);
		if (length == 1)
			assert_true(*s >= 0x20 && *s < 0x7f);
		else
			assert_true(utf8);
		assert_false(length == 2 && s[0] == 0xc2 && s[1] < 0xa0);
		assert_false(length == 3 && s[0] == 0xe2 && s[1] == 0x80 && s[2] == 0xae);
		s += length;
	}
}

static struct profile *hostile_profile(void)
{
	static char large[10001];
	memset(large, 'L', sizeof large - 1);
	static const char *const names[] = {"evil\033[31m\033]0;x\007",
					    "\xff\xfe\x80",
					    "a\xe2\x80\xae"
					    "b",
					    "漢字漢字漢字漢字漢字漢字",
					    large,
					    "",
					    "line\nbreak\ttab",
					    "\xc2\x9b"
					    "31m"};
	struct profile *p = three_sites(4u << 20);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct profile_frame f = {.module = fixture_module, .line = UINT32_MAX};
		uint32_t frame, node, site;
		f.function = name_pool_add(p->names, names[i]);
		f.file = i % 2 ? name_pool_add(p->names, names[i]) : NULL;
		assert_int_equal(profile_add_frame(p, &f, &frame), 0);
		assert_int_equal(profile_add_node(p, PROFILE_NONE, frame, 0, &node), 0);
		assert_int_equal(profile_add_site(p, node, PROFILE_VIA_MALLOC, &site), 0);
		p->sites[site] = (struct profile_site){.node = node,
						       .labels = PROFILE_NONE,
						       .live_bytes = UINT64_MAX >> i,
						       .live_blocks = UINT64_MAX >> i,
						       .lifetime.p50_ns = UINT64_MAX,
						       .history = PROFILE_NONE};
	}
	uint32_t unknown;
	assert_int_equal(profile_add_site(p, PROFILE_NONE, PROFILE_VIA_UNKNOWN, &unknown), 0);
	p->sites[unknown].history = PROFILE_NONE;
	p->processes[0].exe = name_pool_add(p->names, "\033[2Jx");
	return p;
}

TEST(test_hostile_names_in_any_width)
{
	struct profile *p = hostile_profile();
	for (size_t width = 1; width <= 200; width += width < 40 ? 1 : 7)
		for (int group = 0; group < TOP_GROUPS; group++)
			for (int utf8 = 0; utf8 < 2; utf8++) {
				struct top_view v = {.group = (enum top_group)group,
						     .filter = "\033[31m\xff|."};
				struct top_rows rows = rows_of(p, v);
				struct top_lines lines = {0};
				struct top_look look = {.width = width,
							.utf8 = utf8,
							.state = "running",
							.thread = "th\033[2J\xff",
							.expanded = rows.count ? rows.rows[0].key
									       : 0,
							.limit = SIZE_MAX};
				assert_int_equal(top_frame_head(&lines, p, NULL, &rows, &v, &look),
						 0);
				assert_int_equal(top_frame_columns(&lines, p, &v, &look), 0);
				assert_int_equal(top_frame_rows(&lines, p, &rows, &v, &look), 0);
				for (size_t i = 0; i < lines.count; i++)
					check_line(lines.lines[i].text, width, utf8);
				top_lines_free(&lines);
				top_rows_free(&rows);
			}
	profile_free(p);
}

/* ---- keys */

static struct top_state *state_of(bool own_program)
{
	const struct top_state_options o = {
		.utf8 = true, .own_program = own_program, .web = "x.heft"};
	struct top_state *s = top_state_new(&o);
	assert_non_null(s);
	return s;
}

/* The screen as one text; its lines are counted and checked. */
static char *screen(struct top_state *s, size_t width, size_t height, size_t *cursor)
{
	struct top_lines lines = {0};
	size_t at, size;
	char *text = NULL;
	FILE *out = open_memstream(&text, &size);
	assert_int_equal(top_state_draw(s, width, height, &lines, &at), 0);
	assert_int_equal(lines.count, height);
	for (size_t i = 0; i < lines.count; i++) {
		check_line(lines.lines[i].text, width, true);
		fprintf(out, "%s\n", lines.lines[i].text);
	}
	assert_true(at == SIZE_MAX || at < height);
	if (cursor)
		*cursor = at;
	top_lines_free(&lines);
	fclose(out);
	return text;
}

static void assert_shown(struct top_state *s, const char *words)
{
	char *text = screen(s, 100, 24, NULL);
	if (!strstr(text, words))
		fail_msg("'%s' is not in\n%s", words, text);
	free(text);
}

static void assert_not_shown(struct top_state *s, const char *words)
{
	char *text = screen(s, 100, 24, NULL);
	if (strstr(text, words))
		fail_msg("'%s' is in\n%s", words, text);
	free(text);
}

static void type(struct top_state *s, const char *text)
{
	for (; *text; text++)
		assert_int_equal(top_state_key(s, *text), TOP_GO_ON);
}

TEST(test_waiting_then_data)
{
	struct top_state *s = state_of(false);
	assert_shown(s, "waiting for data");
	top_state_key(s, TOP_KEY_DOWN);
	top_state_key(s, TOP_KEY_ENTER);
	top_state_key(s, 'm');
	top_state_key(s, 't');
	assert_shown(s, "has no threads");
	top_state_key(s, TOP_KEY_ESCAPE);
	assert_int_equal(top_state_update(s, three_sites(4u << 20), NULL), 0);
	assert_shown(s, "api-server 4711");
	assert_shown(s, "running");
	top_state_age(s, 12ull * SECOND);
	assert_shown(s, "data 12s old");
	top_state_key(s, ' ');
	assert_true(top_state_paused(s));
	assert_shown(s, "paused");
	top_state_ended(s, "ended: exit status 3");
	assert_shown(s, "ended: exit status 3");
	top_state_free(s);
}

/* What the kernel killed for lack of memory is not just "signal 9": the report's words. */
TEST(test_out_of_memory_is_said)
{
	char words[100];
	struct profile *p = three_sites(4u << 20);
	p->run.complete = true;
	p->run.end = PROFILE_END_SIGNAL;
	p->run.signal = 9;
	top_end_words(words, sizeof words, p);
	assert_string_equal(words, "ended: killed by signal 9 (SIGKILL)");
	p->run.oom_killed = p->run.limit_is_cgroup = true;
	p->run.memory_limit_bytes = 64u << 20;
	top_end_words(words, sizeof words, p);
	assert_string_equal(words,
			    "ended: killed by the kernel: out of memory (limit of its cgroup: "
			    "64.0 MiB)");
	struct top_state *s = state_of(false);
	assert_int_equal(top_state_update(s, p, NULL), 0);
	top_state_ended(s, words);
	assert_shown(s, "ended: killed by the kernel: out of memory  exact"); /* 100 columns */
	char *wide = screen(s, 120, 24, NULL);
	assert_non_null(strstr(wide, "out of memory (limit of its cgroup: 64.0 MiB)"));
	free(wide);
	top_state_free(s);
}

TEST(test_keys_choose)
{
	struct top_state *s = state_of(false);
	assert_int_equal(top_state_update(s, three_sites(4u << 20), NULL), 0);
	top_state_key(s, 's');
	assert_shown(s, "sites by grew");
	top_state_key(s, 'g');
	assert_shown(s, "functions by grew");
	assert_shown(s, "push (2 sites)");
	type(s, "/load");
	assert_shown(s, "/load_");
	assert_not_shown(s, "push (2 sites)");
	top_state_key(s, TOP_KEY_BACKSPACE);
	assert_shown(s, "/loa_");
	top_state_key(s, TOP_KEY_ESCAPE); /* taken back */
	assert_shown(s, "push (2 sites)");
	type(s, "/load");
	top_state_key(s, TOP_KEY_ENTER);
	assert_not_shown(s, "push (2 sites)");
	assert_shown(s, "[?] [q]uit");
	top_state_key(s, '?');
	assert_shown(s, "snapshot: the recording so far");
	top_state_key(s, 's'); /* only closes the help */
	assert_shown(s, "functions by grew");
	top_state_key(s, 'w');
	assert_shown(s, "heft view x.heft");
	assert_int_equal(top_state_key(s, 'x'), TOP_SNAPSHOT);
	assert_int_equal(top_state_key(s, 'q'), TOP_QUIT);
	top_state_free(s);
}

TEST(test_thread_is_asked_for)
{
	struct top_state *s = state_of(false);
	struct profile *p = three_sites(4u << 20);
	add_thread(p, "rx\033[31m");
	assert_int_equal(top_state_update(s, p, NULL), 0);
	top_state_key(s, 't');
	assert_shown(s, "rx\\x1b[31m");
	type(s, "rx");
	assert_int_equal(top_state_key(s, TOP_KEY_ENTER), TOP_SELECT);
	assert_string_equal(top_state_thread(s), "rx");
	assert_shown(s, "reading what thread rx did");
	assert_int_equal(top_state_update(s, three_sites(4u << 20), NULL), 0);
	assert_shown(s, "thread rx");
	assert_not_shown(s, "reading what");
	top_state_forget_thread(s);
	assert_null(top_state_thread(s));
	assert_shown(s, "no thread 'rx'");
	top_state_free(s);
}

TEST(test_mark_counts_from_there)
{
	struct top_state *s = state_of(false);
	assert_int_equal(top_state_update(s, three_sites(4u << 20), NULL), 0);
	top_state_key(s, 'm');
	assert_shown(s, "marked at 00:10");
	struct profile *later = three_sites(7u << 20);
	later->run.duration_ns = 20ull * SECOND;
	assert_int_equal(top_state_update(s, later, NULL), 0);
	assert_shown(s, "+MARK");
	assert_shown(s, "   7.0M  +3.0M");
	assert_shown(s, "mark 00:10");
	top_state_key(s, 'm');
	assert_not_shown(s, "+MARK");
	assert_shown(s, "   7.0M  +307K"); /* 3 MiB in 10 s */
	top_state_free(s);
}

/* A row under the cursor stays where it is; on the first row the order follows the numbers. */
TEST(test_order_is_stable_under_the_cursor)
{
	struct top_state *s = state_of(false);
	size_t cursor;
	assert_int_equal(top_state_update(s, three_sites(4u << 20), NULL), 0);
	free(screen(s, 100, 24, &cursor));
	assert_int_equal(cursor, 5);
	top_state_key(s, TOP_KEY_DOWN);
	/* now the first site has least */
	assert_int_equal(top_state_update(s, three_sites(1u << 10), NULL), 0);
	char *text = screen(s, 100, 24, &cursor);
	assert_int_equal(cursor, 6);
	assert_true(strstr(text, "push") < strstr(text, "load"));
	free(text);
	top_state_key(s, TOP_KEY_HOME);
	assert_int_equal(top_state_update(s, three_sites(1u << 10), NULL), 0);
	text = screen(s, 100, 24, &cursor);
	assert_true(strstr(text, "load") < strstr(text, "   1.0K"));
	free(text);
	top_state_key(s, TOP_KEY_END);
	top_state_key(s, TOP_KEY_DOWN);
	free(screen(s, 100, 24, &cursor));
	assert_int_equal(cursor, 7);
	top_state_key(s, TOP_KEY_PAGE_UP);
	free(screen(s, 100, 24, &cursor));
	assert_int_equal(cursor, 5);
	top_state_free(s);
}

TEST(test_own_program_is_asked_about)
{
	struct top_state *s = state_of(true);
	assert_int_equal(top_state_update(s, three_sites(4u << 20), NULL), 0);
	assert_int_equal(top_state_key(s, 'q'), TOP_GO_ON);
	assert_shown(s, "[k]ill it");
	assert_int_equal(top_state_key(s, 'y'), TOP_GO_ON);
	assert_shown(s, "[?] [q]uit");
	top_state_key(s, 'q');
	assert_int_equal(top_state_key(s, 'd'), TOP_DETACH);
	top_state_key(s, 'q');
	assert_int_equal(top_state_key(s, 'k'), TOP_KILL);
	assert_int_equal(top_state_key(s, 'o'), TOP_OUTPUT);
	top_state_output(s, strdup("one\ntwo\033[31m\nthree\n"));
	assert_shown(s, "two\\x1b[31m\nthree\n");
	top_state_output(s, NULL);
	assert_shown(s, "goes where it was sent");
	top_state_ended(s, "ended: exit status 0");
	top_state_key(s, ' ');
	assert_int_equal(top_state_key(s, 'q'), TOP_QUIT);
	top_state_free(s);
}

/* The line under the cursor must be of this function, whatever is above it. */
static void assert_under_cursor(struct top_state *s, size_t height, const char *function)
{
	size_t cursor;
	char *text = screen(s, 80, height, &cursor), *line = text;
	for (size_t i = 0; i < cursor; i++)
		line = strchr(line, '\n') + 1;
	*strchrnul(line, '\n') = 0;
	if (!strstr(line, function))
		fail_msg("%s is not in '%s'", function, line);
	free(text);
}

TEST(test_long_table_scrolls)
{
	struct profile *p = new_profile(SECOND);
	p->run.has = PROFILE_HAS_ALL;
	for (int i = 0; i < 300; i++) { /* f0. has most */
		char words[64];
		snprintf(words, sizeof words, "main:1 f%d.:%d", i, i + 2);
		add_site(p, words, 1000u - (unsigned)i, 1024)->history = PROFILE_NONE;
	}
	profile_finish_sites(p);
	struct top_state *s = state_of(false);
	assert_int_equal(top_state_update(s, p, NULL), 0);
	assert_under_cursor(s, 24, " f0. ");
	assert_shown(s, " f17. "); /* 24 lines less head, columns and keys: 18 rows */
	assert_not_shown(s, " f18. ");
	for (int i = 0; i < 20; i++)
		top_state_key(s, TOP_KEY_DOWN);
	assert_under_cursor(s, 24, " f20. ");
	assert_not_shown(s, " f2. ");
	assert_shown(s, " f3. ");
	top_state_key(s, TOP_KEY_ENTER); /* its stack moves the others up */
	assert_under_cursor(s, 24, " f20. ");
	assert_shown(s, "    prog.c:1 main");
	assert_under_cursor(s, 6, " f20. ");
	top_state_key(s, TOP_KEY_END);
	assert_under_cursor(s, 24, " f299. ");
	assert_shown(s, " f282. ");
	assert_not_shown(s, " f281. ");
	top_state_key(s, TOP_KEY_PAGE_UP);
	assert_under_cursor(s, 24, " f282. ");
	assert_under_cursor(s, 10, " f282. ");
	top_state_key(s, TOP_KEY_HOME);
	assert_under_cursor(s, 24, " f0. ");
	top_state_free(s);
}

TEST(test_any_size_of_screen)
{
	struct top_state *s = state_of(true);
	assert_int_equal(top_state_update(s, hostile_profile(), NULL), 0);
	top_state_key(s, TOP_KEY_ENTER);
	for (size_t height = 3; height <= 40; height++)
		for (size_t width = 1; width <= 120; width += 17) {
			size_t cursor;
			free(screen(s, width, height, &cursor));
			assert_true(cursor < height);
			top_state_key(s, height % 2 ? TOP_KEY_PAGE_DOWN : TOP_KEY_PAGE_UP);
			top_state_key(s, TOP_KEY_ENTER);
		}
	top_state_output(s, strdup("\n\n\nx\n"));
	for (int key = 1; key < 256; key++) { /* and any key, anywhere */
		top_state_key(s, key);
		free(screen(s, 20, 5, NULL));
	}
	top_state_free(s);
}

UNIT_TESTS(NULL, NULL)
