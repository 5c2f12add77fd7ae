/* Whole texts against tests/golden/report, from the recording in recording_fixture.h and the
 * findings in findings_double.h: HEFT_UPDATE_GOLDEN=1 renews them. And what holds for every text:
 * no line is wider than asked for, and names of the program's can do nothing to a terminal. */
#include "profile/estimate.h"
#include "report/report_words.h"

#include "findings_double.h"
#include "profile_fixture.h"
#include "remarks_fixture.h"
#include "report_fixture.h"

/* Longest line in columns; all columns are ASCII or made so, or block characters. */
static size_t widest(const char *text)
{
	size_t most = 0, at = 0;
	for (const unsigned char *s = (const unsigned char *)text; *s; s++) {
		if (*s == '\n')
			at = 0;
		else if ((*s & 0xc0) != 0x80)
			at++;
		if (at > most)
			most = at;
	}
	return most;
}

static void expect_golden(const char *name, char *text, size_t width)
{
	const char *root = getenv("HEFT_SOURCE_ROOT");
	char path[512], *want = NULL;
	size_t size = 0;
	snprintf(path, sizeof path, "%s/tests/golden/report/%s", root ? root : ".", name);
	assert_true(widest(text) <= width);
	for (const char *s = text; (s = strchr(s, '\n')); s++)
		if (s > text && s[-1] == ' ')
			fail_msg("%s: a blank at a line's end:\n%s", name, text);
	if (getenv("HEFT_UPDATE_GOLDEN")) {
		FILE *f = fopen(path, "w");
		assert_non_null(f);
		fputs(text, f);
		fclose(f);
	}
	FILE *f = fopen(path, "r");
	if (!f)
		fail_msg("no %s: HEFT_UPDATE_GOLDEN=1 makes it", path);
	if (getdelim(&want, &size, 0, f) < 0)
		fail_msg("%s is empty", path);
	fclose(f);
	if (strcmp(want, text) != 0)
		fail_msg("%s differs; HEFT_UPDATE_GOLDEN=1 renews it. It is now:\n%s", name, text);
	free(want);
	free(text);
}

static const struct report_options plain = {.path = "recording.heft", .limit = 20, .processes = 10};

TEST(test_report)
{
	struct profile *p = load(NULL);
	struct report_options o = plain;
	o.findings = &fixture_findings;
	expect_golden("findings.txt", text_of(report_text, p, &o), 100);
	o.all_findings = true;
	o.limit = 1;
	o.width = 72;
	expect_golden("narrow.txt", text_of(report_text, p, &o), 72);
	o = plain;
	o.findings = &fixture_findings;
	o.explain = 1;
	expect_golden("explain.txt", text_of(report_explain, p, &o), 100);
	o.width = 72;
	expect_golden("explain_narrow.txt", text_of(report_explain, p, &o), 72);
	o = plain;
	o.findings = &fixture_no_findings;
	o.full = true;
	expect_golden("full.txt", text_of(report_text, p, &o), 100);
	o.limit = 3;
	o.color = true;
	o.findings = &fixture_findings;
	expect_golden("color.txt", text_of(report_text, p, &o), 200);
	profile_free(p);
}

TEST(test_trees)
{
	struct profile *p = load(NULL);
	struct report_options o = plain;
	o.sort = MEASURE_ALLOCATED_BYTES;
	expect_golden("tree.txt", text_of(report_tree, p, &o), 100);
	o.invert = true;
	expect_golden("invert.txt", text_of(report_tree, p, &o), 100);
	profile_free(p);
}

/* At 4.5 us: 100 and 30 are live. From then to 8 us: the 200 became 500, the 30 went, 10 came. */
TEST(test_spans)
{
	struct profile_selection sel = {.has_window = true, .from_ns = 4500, .to_ns = 8000};
	struct report_options o = plain;
	struct profile *p = load(&sel);
	o.span = REPORT_WINDOW;
	o.sort = MEASURE_GREW_BYTES;
	o.from_ns = 4500;
	o.to_ns = 8000;
	o.again = "--from 4.5us --to 8us";
	expect_golden("window.txt", text_of(report_text, p, &o), 100);
	o.sort = MEASURE_ALLOCATED_BYTES;
	expect_golden("window_allocated.txt", text_of(report_text, p, &o), 100);
	profile_free(p);
	sel.to_ns = 4500;
	p = load(&sel);
	o.span = REPORT_INSTANT;
	o.sort = MEASURE_LIVE_BYTES;
	o.to_ns = 4500;
	o.again = "--at 4.5us";
	expect_golden("instant.txt", text_of(report_text, p, &o), 100);
	expect_golden("instant_tree.txt", text_of(report_tree, p, &o), 100);
	profile_free(p);
	p = load(&(struct profile_selection){.has_pid = true, .pid = 200});
	o = plain;
	o.selection = "process 200";
	o.again = "--pid 200";
	expect_golden("process.txt", text_of(report_text, p, &o), 100);
	profile_free(p);
}

/* A file of another tool's that tells only what is live, of every 512 KiB. */
TEST(test_foreign)
{
	struct profile *p = profile_new();
	struct report_options o = plain;
	uint32_t frame, node, site;
	struct profile_frame f = {.function = name_pool_add(p->names, "serve"),
				  .module = PROFILE_NONE};
	assert_int_equal(profile_add_frame(p, &f, &frame), 0);
	assert_int_equal(profile_add_node(p, PROFILE_NONE, frame, 0, &node), 0);
	assert_int_equal(profile_add_site(p, node, PROFILE_VIA_MALLOC, &site), 0);
	p->sites[site].live_bytes = p->totals.live_bytes = 1 << 20;
	p->sites[site].live_blocks = p->totals.live_blocks = 1024;
	profile_finish_sites(p);
	p->run.format = "jemalloc";
	p->run.has = PROFILE_HAS_LIVE;
	p->run.rate_bytes = 512 << 10;
	assert_false(measure_known(p, MEASURE_PEAK_BYTES));
	assert_true(measure_known(p, MEASURE_LIVE_BYTES));
	o.path = "jeprof.heap";
	o.sort = MEASURE_LIVE_BYTES;
	expect_golden("foreign.txt", text_of(report_text, p, &o), 100);
	expect_golden("foreign_threads.txt", text_of(report_threads, p, &o), 100);
	char *text = text_of(report_json, p, &o);
	assert_non_null(strstr(text, "\"mode\":\"sample\",\"rate_bytes\":524288"));
	assert_non_null(strstr(text, "\"live_bytes\":1048576"));
	assert_null(strstr(text, "\"allocations\""));
	assert_null(strstr(text, "\"peak_bytes\""));
	assert_null(strstr(text, "\"lifetime_ns\""));
	free(text);
	profile_free(p);
}

/* A site of `samples` live blocks of one rate each, made evenly between two parts of a run of 100 s. */
static void add_sampled_site(struct profile *p, const char *function, uint32_t samples, double from,
			     double to)
{
	struct profile_frame f = {.function = name_pool_add(p->names, function),
				  .module = PROFILE_NONE};
	uint32_t frame, node, site;
	double rate = (double)p->run.rate_bytes;
	assert_int_equal(profile_add_frame(p, &f, &frame), 0);
	assert_int_equal(profile_add_node(p, PROFILE_NONE, frame, 0, &node), 0);
	assert_int_equal(profile_add_site(p, node, PROFILE_VIA_MALLOC, &site), 0);
	struct profile_site *s = &p->sites[site];
	s->live_bytes = s->peak_bytes = s->allocated_bytes = samples * p->run.rate_bytes;
	s->live_blocks = s->peak_blocks = s->allocations = samples * 512;
	p->totals.live_bytes = p->totals.peak_bytes = p->totals.allocated_bytes += s->live_bytes;
	p->totals.live_blocks = p->totals.peak_blocks = p->totals.allocations += s->live_blocks;
	double v = samples * rate * rate, blocks = samples * 512.0 * 512;
	p->estimates.spreads[site] = (struct profile_spread){
		.live_bytes = v,
		.live_blocks = blocks,
		.peak_bytes = v,
		.peak_blocks = blocks,
		.allocated_bytes = v,
		.allocations = blocks,
		.left_bytes = v,
		.left_blocks = blocks,
		.samples = samples,
		.live_samples = samples,
		.peak_samples = samples,
		.left_samples = samples,
	};
	estimate_add_spread(&p->estimates.total_spread, &p->estimates.spreads[site]);
	p->estimates.ages[site] = (struct profile_age){.first = p->estimates.live_births.count,
						       .count = samples};
	for (uint32_t i = 0; i < samples; i++) {
		double at = from + (to - from) * (i + 0.5) / samples;
		p->estimates.live_births.list[p->estimates.live_births.count++] =
			(struct profile_birth){.site = site,
					       .at = at,
					       .bytes = rate,
					       .age_ns = (uint64_t)((1 - at) * 1e11)};
		p->estimates.ages[site].old_share += (at < 0.5) / (double)samples;
	}
	p->estimates.ages[site].p50_ns = (uint64_t)((1 - (from + to) / 2) * 1e11);
}

/* A leak, a working set, and something of which little is known. */
TEST(test_sampled)
{
	struct profile *p = profile_new();
	struct report_options o = plain;
	static const char *const argv[] = {"./server"};
	p->run.format = "heft";
	p->run.argv = (const char **)argv;
	p->run.argc = 1;
	p->run.has = PROFILE_HAS_LIVE | PROFILE_HAS_PEAK | PROFILE_HAS_ALLOCATED |
		     PROFILE_HAS_TIMES;
	p->run.end = PROFILE_END_RUNNING;
	p->run.duration_ns = p->totals.peak_time_ns = 100000000000;
	p->run.rate_bytes = 512 << 10;
	p->estimates.spreads = calloc(4, sizeof *p->estimates.spreads);
	p->estimates.errors = calloc(4, sizeof *p->estimates.errors);
	p->estimates.ages = calloc(4, sizeof *p->estimates.ages);
	p->estimates.live_births.list = calloc(1000, sizeof *p->estimates.live_births.list);
	add_sampled_site(p, "remember", 400, 0, 1);
	add_sampled_site(p, "serve", 200, 0.9, 1);
	add_sampled_site(p, "configure", 4, 0, 0.01);
	profile_finish_sites(p);
	profile_compute_errors(p);
	expect_golden("sampled.txt", text_of(report_text, p, &o), 100);
	expect_golden("sampled_tree.txt", text_of(report_tree, p, &o), 100);
	o.width = 72;
	expect_golden("sampled_narrow.txt", text_of(report_text, p, &o), 72);
	p->run.argv = NULL;
	profile_free(p);
}

/* The hand-over that the recording has: main freed worker's 30 bytes. */
static void hand_over(struct profile *p)
{
	free(p->behaviour.handovers);
	free(p->behaviour.handover_threads);
	p->behaviour.handovers = calloc(1, sizeof *p->behaviour.handovers);
	p->behaviour.handover_threads = calloc(1, sizeof *p->behaviour.handover_threads);
	assert_true(p->behaviour.handovers && p->behaviour.handover_threads);
	p->behaviour.handovers[0] = (struct profile_handover){.frees = 1, .threads_count = 1};
	p->behaviour.handover_threads[0] = (struct profile_handover_threads){1, 0, 1};
	p->behaviour.handover_count = p->behaviour.handover_threads_count = 1;
}

TEST(test_views)
{
	struct profile *p = load(
		&(struct profile_selection){.sizes = true, .process_totals = true});
	struct report_options o = plain;
	expect_golden("sizes.txt", text_of(report_sizes, p, &o), 100);
	expect_golden("lifetimes.txt", text_of(report_lifetimes, p, &o), 100);
	o.utf8 = true;
	o.width = 140;
	o.sort = MEASURE_LIFETIME;
	expect_golden("lifetimes_wide.txt", text_of(report_lifetimes, p, &o), 140);
	o = plain;
	hand_over(p);
	expect_golden("threads.txt", text_of(report_threads, p, &o), 100);
	profile_free(p);
}

/* A pool: main allocates 1000 blocks, 64 workers free 15 each; a logger and 20 helpers do a little
 * of their own. */
TEST(test_many_threads)
{
	struct profile *p = profile_new();
	uint32_t process;
	struct profile_process q = {.pid = 7, .exe = "pool"};
	assert_int_equal(profile_add_process(p, &q, &process), 0);
	struct profile_thread t = {
		.pid = 7, .tid = 7, .name = "main", .allocations = 1000, .allocated_bytes = 64000};
	assert_int_equal(profile_add_thread(p, &t), 0);
	for (int i = 0; i < 64; i++) {
		char name[16];
		snprintf(name, sizeof name, "worker-%d", i + 1);
		t = (struct profile_thread){.pid = 7, .tid = 100 + i, .frees = 15};
		t.name = name_pool_add(p->names, name);
		assert_int_equal(profile_add_thread(p, &t), 0);
	}
	for (int i = 0; i < 20; i++) {
		char name[16];
		snprintf(name, sizeof name, "helper%c", 'a' + i);
		t = (struct profile_thread){.pid = 7,
					    .tid = 200 + i,
					    .allocations = 2,
					    .allocated_bytes = 20,
					    .frees = 2};
		t.name = name_pool_add(p->names, name);
		assert_int_equal(profile_add_thread(p, &t), 0);
	}
	p->behaviour.handover_threads = calloc(64, sizeof *p->behaviour.handover_threads);
	assert_non_null(p->behaviour.handover_threads);
	for (uint32_t i = 0; i < 64; i++)
		p->behaviour.handover_threads[i] = (struct profile_handover_threads){0, i + 1, 15};
	p->behaviour.handover_threads_count = 64;
	p->totals.live_blocks = 40;
	struct report_options o = plain;
	o.limit = 5;
	expect_golden("many_threads.txt", text_of(report_threads, p, &o), 100);
	profile_free(p);
}

TEST(test_summary)
{
	struct profile *p = load(&(struct profile_selection){.top_only = true});
	char *text = NULL;
	size_t size, lines = 0;
	p->run.file_bytes = 1000;   /* compression is not what is tested */
	for (int i = 0; i < 5; i++) /* more to say than there is room for */
		profile_add_note(p, PROFILE_NOTE_WARNING, 0, "warning %d", i);
	FILE *out = open_memstream(&text, &size);
	assert_int_equal(report_run_summary(out, p, &fixture_findings, "/tmp/x.heft", 0, false), 0);
	fclose(out);
	for (const char *s = text; *s; s++)
		lines += *s == '\n';
	assert_true(lines <= 16);
	expect_golden("summary.txt", text, 100);
	profile_free(p);
}

/* ---- hostile names */

static uint32_t add_call(struct profile *p, uint32_t parent, const char *function, const char *file)
{
	uint32_t frame, node;
	struct profile_frame f = {.function = name_pool_add(p->names, function),
				  .file = file ? name_pool_add(p->names, file) : NULL,
				  .line = 7,
				  .module = PROFILE_NONE};
	assert_int_equal(profile_add_frame(p, &f, &frame), 0);
	assert_int_equal(profile_add_node(p, parent, frame, 0, &node), 0);
	return node;
}

TEST(test_hostile_names)
{
	static report_fn *const views[] = {report_text,  report_tree,      report_threads,
					   report_sizes, report_lifetimes, report_explain};
	char *longest = malloc(10001), *wild = malloc(10001);
	assert_true(longest && wild);
	memset(longest, 'x', 10000);
	longest[10000] = 0;
	for (int i = 0; i < 10000; i++) /* every byte but 0 */
		wild[i] = (char)(i % 255 + 1);
	wild[10000] = 0;
	const char *const names[] = {longest,
				     wild,
				     "\033]0;title\007\033[2J",
				     "\xe2\x80\xae"
				     "abc",
				     "a\rb\nc\td",
				     "\xff\xfe\xfd"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct profile *p = profile_new();
		uint32_t site, process, at = PROFILE_NONE;
		const char *argv[] = {names[i], names[i], names[i]};
		p->run.argv = profile_copy_strings(p, (char *const *)argv, 3);
		p->run.argc = 3;
		for (size_t k = 0; k < 3; k++)
			at = add_call(p, at, names[i], k ? names[i] : NULL);
		at = add_call(p, at, "std::x", names[i]);
		assert_int_equal(profile_add_site(p, at, PROFILE_VIA_MALLOC, &site), 0);
		p->sites[site].peak_bytes = p->sites[site].allocations = 5;
		p->totals.peak_bytes = p->totals.allocations = 5;
		profile_finish_sites(p);
		struct profile_process q = {
			.pid = 1, .exe = names[i], .argv = p->run.argv, .argc = 3};
		assert_int_equal(profile_add_process(p, &q, &process), 0);
		assert_int_equal(profile_add_process(p, &q, &process), 0);
		struct profile_thread t = {.pid = 1, .tid = 1, .frees = 1};
		t.name = name_pool_add(p->names, names[i]);
		for (int k = 0; k < 20; k++)
			assert_int_equal(profile_add_thread(p, &t), 0);
		profile_add_note(p, PROFILE_NOTE_WARNING, 0, "note %.300s", names[i]);
		const struct evidence evidence[] = {
			{.name = "a_function", .type = EVIDENCE_TEXT, .text = names[i]},
			{.name = "b_threads", .type = EVIDENCE_TEXTS, .texts = names, .count = 6},
		};
		const struct condition conditions[] = {
			{.what = names[i], .unit = UNIT_BYTES, .measured = 1e18, .limit = 1},
			{.what = names[i], .otherwise = names[i], .unit = UNIT_FACT, .measured = 1},
		};
		const struct finding finding = {.kind = FINDING_GROWING_SITE,
						.bytes = 1,
						.summary = names[i],
						.advice = names[i],
						.evidence = evidence,
						.evidence_count = 2,
						.rule = names[i],
						.conditions = conditions,
						.condition_count = 2};
		const struct finding_note note = {
			.about = names[i], .text = names[i], .advice = names[i]};
		const struct findings findings = {1, &finding, 1, &note};
		struct report_options o = {.path = "x", .limit = 20, .width = 80};
		o.findings = &findings;
		o.explain = 1;
		for (size_t v = 0; v < 2 * sizeof views / sizeof *views; v++) {
			o.full = v % 2;
			char *text = text_of(views[v / 2], p, &o);
			for (const unsigned char *s = (const unsigned char *)text; *s; s++)
				if ((*s < 0x20 && *s != '\n') || *s == 0x7f)
					fail_msg("byte %02x in view %zu of name %zu", *s, v, i);
			assert_null(strstr(text, "\xe2\x80\xae"));
			if (widest(text) > 80)
				fail_msg("%zu columns in view %zu of name %zu:\n%s", widest(text),
					 v, i, text);
			free(text);
		}
		profile_free(p);
	}
	free(longest);
	free(wild);
}

static int make(void **state)
{
	/* Files are shown from where one stands. */
	return fixture_make(state) || chdir(fixture_folder) ? -1 : 0;
}

TEST(test_what_the_program_said)
{
	struct report_options o = plain;
	remarks_record(said, SAID_COUNT);
	struct profile *p = load_remarks(NULL);
	expect_golden("remarks.txt", text_of(report_text, p, &o), 100);
	o.width = 72;
	expect_golden("remarks_narrow.txt", text_of(report_text, p, &o), 72);
	o.focus = "f";
	char *text = text_of(report_text, p, &o);
	assert_null(strstr(text, "Pools"));
	free(text);
	profile_free(p);
}

UNIT_TESTS(make, fixture_remove)
