/* Processes of a recording: how they are counted, grouped and named, sites apart by process, the
 * course of one of them over time, and the table. Numbers are worked out by hand, from the recording
 * in recording_fixture.h (whose account of live bytes is in its head) or from lists made up here. */
#include "profile/call_tree.h"
#include "profile/process_groups.h"
#include "profile/process_images.h"
#include "profile/profile_from_trace.h"
#include "report/report_words.h"

#include "recording_fixture.h"
#include "report_fixture.h"

static struct profile *load_from(struct trace_reader *r, const struct profile_selection *sel)
{
	struct profile *p;
	struct heft_error err;
	if (profile_from_trace(&p, r, sel, &err) < 0)
		fail_msg("%s", err.message);
	return p;
}

static struct trace_reader *open_fixture(void)
{
	struct trace_reader *r;
	struct heft_error err;
	assert_int_equal(trace_reader_open(&r, fixture_path, &err), 0);
	return r;
}

/* ---- made-up lists */

struct made_up {
	int32_t pid;
	const char *command; /* words apart by blanks */
	uint64_t peak, left, start_ns, end_ns;
	enum profile_end end;
};

static void add_process(struct profile *p, const struct made_up *m)
{
	char words[200], *argv[16], *rest = words, *word;
	uint32_t argc = 0, id;
	snprintf(words, sizeof words, "%s", m->command);
	while ((word = strsep(&rest, " ")) && argc < 16)
		argv[argc++] = word;
	struct profile_process q = {.pid = m->pid,
				    .number = p->process_count,
				    .exe = "",
				    .argv = profile_copy_strings(p, argv, argc),
				    .argc = argc,
				    .start_ns = m->start_ns,
				    .end_ns = m->end_ns,
				    .end = m->end,
				    .totals = {.peak_bytes = m->peak,
					       .left_bytes = m->left,
					       .left_blocks = m->left ? 1 : 0,
					       .allocations = m->peak ? 1 : 0,
					       .allocated_bytes = m->peak,
					       .threads = m->peak ? 1 : 0}};
	assert_non_null(q.argv);
	assert_int_equal(profile_add_process(p, &q, &id), 0);
	struct profile_thread t = {
		.pid = m->pid, .tid = m->pid, .process = id, .allocations = q.totals.allocations};
	t.name = name_pool_add(p->names, argv[0]);
	if (q.totals.threads)
		assert_int_equal(profile_add_thread(p, &t), 0);
}

static struct profile *made_up_profile(const struct made_up *list, size_t count)
{
	static const char *argv[] = {"./build.sh"};
	struct profile *p = profile_new();
	assert_non_null(p);
	p->run.argv = argv;
	p->run.argc = 1;
	p->run.format = "heft";
	p->run.has = PROFILE_HAS_ALL;
	p->run.end = PROFILE_END_EXIT;
	p->run.complete = true;
	p->run.duration_ns = 10000;
	for (size_t i = 0; i < count; i++)
		add_process(p, &list[i]);
	return p;
}

/* A shell, its copy that becomes seq by exec, 24 echos one after the other, one number used twice. */
static struct profile *shell_loop(void)
{
	struct made_up list[27] = {
		{10, "sh -c loop", 4000, 0, 0, 10000, PROFILE_END_EXIT},
		{11, "sh -c loop", 0, 0, 100, 300, PROFILE_END_EXEC},
		{11, "/usr/bin/seq 24", 9000, 50, 200, 400, PROFILE_END_EXIT},
	};
	for (int i = 0; i < 24; i++)
		list[3 + i] = (struct made_up){.pid = 100 + i,
					       .command = i % 2 ? "/bin/echo -n b" : "echo -n a",
					       .peak = 100 + (uint64_t)i,
					       .left = 10,
					       .start_ns = 400 + 100 * (uint64_t)i,
					       .end_ns = 450 + 100 * (uint64_t)i,
					       .end = PROFILE_END_EXIT};
	list[26].pid = 100; /* the number of the first, long gone */
	return made_up_profile(list, 27);
}

/* One process that was three programs; the first had a second thread, which its exec ended. The next
 * process got the same number. */
TEST(test_images)
{
	static const struct made_up list[] = {
		{10, "env work", 300, 5, 0, 100, PROFILE_END_EXEC},
		{10, "work hard", 900, 7, 100, 200, PROFILE_END_EXEC},
		{20, "other", 50, 0, 150, 400, PROFILE_END_EXIT},
		{10, "rest", 200, 1, 200, 500, PROFILE_END_EXIT},
		{10, "stranger", 40, 2, 600, 700, PROFILE_END_EXIT},
	};
	struct profile *p = made_up_profile(list, 5);
	struct profile_thread second = {.pid = 10, .tid = 12, .name = "helper", .process = 0};
	assert_int_equal(profile_add_thread(p, &second), 0);
	assert_true(profile_is_of_several(p));
	assert_int_equal(profile_count_processes(p), 3);
	assert_int_equal(profile_count_threads(p), 4); /* 10, its helper, 20, the other 10 */
	struct process_images x;
	assert_int_equal(process_images_init(&x, p), 0);
	struct profile_process q = process_of_images(&x, p, 0);
	assert_string_equal(q.argv[0], "rest");
	assert_int_equal(q.start_ns, 0);
	assert_int_equal(q.end_ns, 500);
	assert_int_equal(q.end, PROFILE_END_EXIT);
	assert_int_equal(q.totals.peak_bytes, 900);
	assert_int_equal(q.totals.left_bytes, 5 + 7 + 1);
	assert_int_equal(q.totals.allocations, 3);
	assert_int_equal(q.totals.threads, 2);
	struct profile_thread t = thread_of_images(&x, p, 0);
	assert_string_equal(t.name, "rest");
	assert_int_equal(t.allocations, 3);
	assert_int_equal(process_of_images(&x, p, 4).totals.peak_bytes, 40);
	process_images_fini(&x);
	profile_free(p);
}

TEST(test_counts)
{
	struct profile *p = shell_loop();
	/* 27 images: 11 is one process in two of them, 100 is two. */
	assert_int_equal(profile_count_processes(p), 26);
	assert_int_equal(profile_count_threads(p), 26);
	assert_string_equal(words_threads(p).text, "26 threads in 26 processes");
	profile_free(p);

	/* exec keeps the thread that calls it. */
	static const struct made_up chain[] = {
		{5, "sh", 1, 0, 0, 500, PROFILE_END_EXEC},
		{5, "env", 2, 0, 500, 700, PROFILE_END_EXEC},
		{5, "python3", 3, 0, 700, 900, PROFILE_END_EXIT},
	};
	p = made_up_profile(chain, 3);
	assert_int_equal(profile_count_processes(p), 1);
	assert_string_equal(words_threads(p).text, "1 thread in 1 process");
	profile_free(p);

	/* Two at a time under one number: each is the first of a namespace. */
	static const struct made_up two[] = {
		{1, "busy", 1, 0, 0, 600, PROFILE_END_EXIT},
		{1, "busy", 2, 0, 500, 700, PROFILE_END_EXIT},
	};
	p = made_up_profile(two, 2);
	assert_int_equal(profile_count_processes(p), 2);
	profile_free(p);
}

static void expect_words(uint64_t threads, uint32_t processes, const char *words)
{
	struct profile *p = made_up_profile(NULL, 0);
	for (uint32_t i = 0; i < processes; i++)
		add_process(p, &(struct made_up){.pid = (int32_t)i + 1, .command = "x"});
	p->totals.threads = threads;
	assert_string_equal(words_threads(p).text, words);
	profile_free(p);
}

TEST(test_words)
{
	expect_words(0, 201, "201 processes"); /* samples name few threads, or none */
	expect_words(0, 1, "1 process");
	expect_words(0, 0, "");
	expect_words(1, 0, "1 thread");
	expect_words(1234, 0, "1,234 threads");
	expect_words(1, 1, "1 thread in 1 process");
	expect_words(2, 1, "2 threads in 1 process");
	expect_words(201, 201, "201 threads in 201 processes");
	assert_string_equal(words_processes(1).text, "1 process");
	assert_string_equal(words_processes(0).text, "0 processes");
}

static void expect_name(const struct profile *p, const struct process_group *g, const char *name)
{
	char *text = process_group_name(p, g, 40);
	assert_string_equal(text, name);
	free(text);
}

TEST(test_groups)
{
	struct process_groups g;
	struct profile *p = shell_loop();
	assert_int_equal(process_groups_init(&g, p, PROCESSES_AS_FIT), 0);
	/* The copy that only calls exec is in no list, but belongs to what it became. */
	assert_int_equal(g.count, 3);
	expect_name(p, &g.list[0], "seq 24 (pid 11)");
	expect_name(p, &g.list[1], "sh -c loop (pid 10)");
	expect_name(p, &g.list[2], "echo -n (24 processes)"); /* whatever the folder */
	assert_int_equal(g.of[1], g.of[2]);
	assert_int_equal(g.list[2].greatest, 26);
	assert_int_equal(g.list[2].left_bytes, 240);
	assert_int_equal(g.list[2].run_ns, 24 * 50);
	assert_int_equal(g.list[2].allocated_bytes, 24 * 100 + 23 * 24 / 2);
	process_groups_fini(&g);
	assert_int_equal(process_groups_init(&g, p, PROCESSES_EACH), 0);
	assert_int_equal(g.count, 26);
	expect_name(p, &g.list[2], "echo -n b (pid 100)");
	process_groups_fini(&g);
	profile_free(p);

	/* Four of one program stay apart beside many of another, five do not. */
	for (int servers = 4; servers <= 5; servers++) {
		struct made_up list[30];
		for (int i = 0; i < 30; i++)
			list[i] = (struct made_up){.pid = i + 1,
						   .command = i < servers ? "server" : "echo",
						   .peak = 1000 - (uint64_t)i,
						   .end_ns = 10,
						   .end = PROFILE_END_EXIT};
		p = made_up_profile(list, 30);
		assert_int_equal(process_groups_init(&g, p, PROCESSES_AS_FIT), 0);
		assert_int_equal(g.count, servers == 4 ? 5 : 2);
		expect_name(p, &g.list[0],
			    servers == 4 ? "server (pid 1)" : "server (5 processes)");
		process_groups_fini(&g);
		profile_free(p);
	}

	/* Few of one program stand apart. */
	static const struct made_up few[] = {
		{1, "server", 5, 0, 0, 10, PROFILE_END_EXIT},
		{2, "server", 7, 0, 0, 10, PROFILE_END_EXIT},
	};
	p = made_up_profile(few, 2);
	assert_int_equal(process_groups_init(&g, p, PROCESSES_AS_FIT), 0);
	assert_int_equal(g.count, 2);
	expect_name(p, &g.list[0], "server (pid 2)");
	process_groups_fini(&g);
	profile_free(p);
}

/* ---- the table */

static char *report_of(const struct profile *p, size_t rows)
{
	struct report_options o = {.path = "x.heft", .limit = 20, .processes = rows};
	return text_of(report_text, p, &o);
}

static void expect_table(const struct profile *p, size_t rows, const char *table)
{
	char *text = report_of(p, rows);
	char *at = strstr(text, " by peak\n"), *end = at ? strstr(at, "\n\n") : NULL;
	if (!table) {
		assert_null(at);
	} else {
		assert_non_null(end);
		while (at > text && at[-1] != '\n')
			at--;
		end[1] = 0;
		assert_string_equal(at, table);
	}
	free(text);
}

static void expect_title(const struct profile *p, size_t rows, const char *title)
{
	char *text = report_of(p, rows);
	char *at = strstr(text, " by peak\n");
	assert_non_null(at);
	while (at > text && at[-1] != '\n')
		at--;
	strchr(at, '\n')[1] = 0;
	assert_string_equal(at, title);
	free(text);
}

TEST(test_table)
{
	struct profile *p = shell_loop();
	p->processes[2].totals.peak_rss_bytes = 2048;
	expect_table(
		p, 10,
		"3 programs in 26 processes by peak\n"
		"       peak    peak RSS        left       ran       pid  command\n"
		"    8.8 KiB     2.0 KiB        50 B    200 ns        11  seq 24\n"
		"    3.9 KiB           -         0 B     10 us        10  sh -c loop\n"
		"      123 B           -        10 B     50 ns       100  echo -n (24 processes)\n"
		"                                                         the largest of 24; "
		"together they "
		"allocated\n"
		"                                                         2.6 KiB and left 240 B "
		"in "
		"24 blocks\n"
		"  - --pid PID reports on one process alone\n");
	expect_table(p, 1,
		     "Top 1 of 3 programs in 26 processes by peak\n"
		     "       peak    peak RSS        left       ran       pid  command\n"
		     "    8.8 KiB     2.0 KiB        50 B    200 ns        11  seq 24\n"
		     "... 2 more\n"
		     "  - --pid PID reports on one process alone\n");
	expect_table(p, 0, NULL);
	p->process_count = 1;
	expect_table(p, 10, NULL);
	profile_free(p);
}

/* Five copies of one program, of which one became another: two programs, six rows. */
TEST(test_table_counts_programs)
{
	static const struct made_up list[] = {
		{1, "/usr/bin/perl", 5, 0, 0, 10, PROFILE_END_EXIT},
		{2, "perl", 4000, 0, 0, 10, PROFILE_END_EXIT},
		{3, "perl", 3000, 0, 0, 10, PROFILE_END_EXIT},
		{4, "perl", 2000, 0, 0, 10, PROFILE_END_EXIT},
		{5, "perl", 1000, 0, 0, 5, PROFILE_END_EXEC},
		{5, "sh", 7, 0, 5, 10, PROFILE_END_EXIT},
	};
	struct profile *p = made_up_profile(list, 6);
	struct process_groups g;
	uint32_t programs;
	assert_int_equal(process_groups_init(&g, p, PROCESSES_AS_FIT), 0);
	assert_int_equal(g.count, 6);
	assert_int_equal(process_groups_programs(&g, p, &programs), 0);
	assert_int_equal(programs, 2);
	process_groups_fini(&g);
	expect_title(p, 10, "2 programs in 5 processes by peak\n");
	expect_title(p, 3, "Top 3 of 6 rows: 2 programs in 5 processes by peak\n");
	p->process_count = 4; /* without the one that became another */
	expect_title(p, 10, "4 processes by peak\n");
	expect_title(p, 1, "Top 1 of 4 processes by peak\n");
	profile_free(p);
}

/* ---- sites apart by process */

static const struct profile_site *site_of(const struct profile *p, const char *process,
					  uint32_t via, uint64_t allocations)
{
	const struct profile_site *found = NULL;
	for (uint32_t i = 0; i < p->site_count; i++) {
		const struct profile_site *s = &p->sites[i];
		const char *name =
			profile_find_label(&p->label_sets[s->labels], PROFILE_LABEL_PROCESS)->text;
		if (s->via == via && s->allocations == allocations && strstr(name, process)) {
			assert_null(found);
			found = s;
		}
	}
	assert_non_null(found);
	return found;
}

TEST(test_split)
{
	struct trace_reader *r = open_fixture();
	struct profile *p = load_from(r, &(struct profile_selection){.by_process = true});
	assert_true(p->chosen.by_process);
	assert_int_equal(p->totals.peak_bytes, 630);
	/* At the peak of both together: 100 + 30 in the parent, 500 in the child. */
	assert_int_equal(site_of(p, "(pid 100)", PROFILE_VIA_MALLOC, 2)->peak_bytes, 100);
	assert_int_equal(site_of(p, "(pid 100)", PROFILE_VIA_CALLOC, 1)->peak_bytes, 30);
	assert_int_equal(site_of(p, "(pid 200)", PROFILE_VIA_REALLOC, 0)->peak_bytes, 500);
	assert_int_equal(site_of(p, "(pid 100)", PROFILE_VIA_MALLOC, 1)->left_bytes, 10);
	profile_free(p);

	/* From 2000 to 5000: main makes and frees 50, worker makes 30, the child 200. */
	p = load_from(
		r, &(struct profile_selection){
			   .by_process = true, .has_window = true, .from_ns = 2000, .to_ns = 5000});
	const struct profile_site *s = site_of(p, "(pid 100)", PROFILE_VIA_MALLOC, 1);
	assert_int_equal(s->start_bytes, 100);
	assert_int_equal(s->live_bytes, 100);
	assert_int_equal(s->temporary, 1);
	assert_int_equal(site_of(p, "(pid 200)", PROFILE_VIA_MALLOC, 1)->live_bytes, 200);
	assert_int_equal(site_of(p, "(pid 200)", PROFILE_VIA_MALLOC, 1)->start_bytes, 0);
	profile_free(p);

	/* As a part of the whole, its sites are called as there. */
	struct profile *whole = load_from(r, &(struct profile_selection){.keep = true});
	p = load_from(r, &(struct profile_selection){.by_process = true, .part_of = whole});
	s = site_of(p, "(pid 200)", PROFILE_VIA_REALLOC, 0);
	assert_int_equal(whole->sites[s->id - 1].via, PROFILE_VIA_REALLOC);
	assert_int_equal(whole->sites[s->id - 1].peak_bytes, 500);
	profile_free(p);
	/* One process has nothing to tell apart. */
	p = load_from(r,
		      &(struct profile_selection){
			      .by_process = true, .has_pid = true, .pid = 200, .part_of = whole});
	assert_false(p->chosen.by_process);
	assert_int_equal(p->totals.peak_bytes, 500);
	profile_free(p);
	profile_free(whole);
	trace_reader_close(r);
}

TEST(test_roots)
{
	struct trace_reader *r = open_fixture();
	struct profile *p = load_from(r, &(struct profile_selection){.by_process = true});
	struct call_tree t;
	assert_int_equal(call_tree_of(&t, p, MEASURE_PEAK_BYTES, 0), 0);
	assert_int_equal(t.first[1], 2);
	for (uint32_t i = 0; i < 2; i++) { /* the greater one stands first */
		uint32_t root = t.children[i];
		assert_string_equal(call_tree_name(&t, root),
				    i ? "prog \\x1b[31mred \\xff\" (pid 100)" : "prog (pid 200)");
		assert_int_equal(t.nodes[root].total, i ? 130 : 500);
		assert_int_equal(t.nodes[root].self, 0);
		assert_string_equal(call_tree_name(&t, t.children[t.first[root]]), "main");
	}
	call_tree_fini(&t);
	/* The block without a stack is below its process. */
	assert_int_equal(call_tree_of(&t, p, MEASURE_ALLOCATED_BYTES, 0), 0);
	uint32_t unknown = 0;
	for (uint32_t i = 1; i < t.count; i++)
		if (t.nodes[i].function == PROFILE_NONE) {
			unknown++;
			assert_int_equal(t.nodes[i].self, 10);
			assert_int_equal(t.nodes[t.nodes[i].parent].parent, 0);
		}
	assert_int_equal(unknown, 1);
	call_tree_fini(&t);
	profile_free(p);
	trace_reader_close(r);
}

/* ---- one process over time */

TEST(test_course)
{
	struct trace_reader *r = open_fixture();
	struct profile *whole = load_from(r, &(struct profile_selection){.keep = true});
	struct profile_selection sel = {
		.has_process = true, .process = 1, .history = true, .part_of = whole};
	struct profile *p = load_from(r, &sel);
	const struct profile_history *h = &p->behaviour.history;
	assert_string_equal(p->chosen.words, "process 200");
	assert_int_equal(p->process_count, 1);
	assert_int_equal(p->processes[0].number, 1);
	assert_int_equal(p->totals.peak_bytes, 500);
	/* From 4000 to 9500, in 400 slots of 13 ns. */
	assert_int_equal(h->start_ns, 4000);
	assert_int_equal(h->slot_ns, 13);
	assert_int_equal(h->slot_count, 400);
	assert_int_equal(h->bytes[37], 0);    /* 4494 */
	assert_int_equal(h->bytes[100], 200); /* 5313 */
	assert_int_equal(h->bytes[200], 500); /* 6613 */
	assert_int_equal(h->blocks[200], 1);
	assert_int_equal(h->bytes[399], 0);
	assert_int_equal(h->events[399], 3);
	uint64_t at_5313 = 0;
	for (uint32_t i = 0; i < h->row_count; i++)
		at_5313 += h->rows[i].bytes[100];
	assert_int_equal(at_5313, 200);
	profile_free(p);

	/* The parent ends last: its line ends with what it left. From 0 to 10000 in slots of 25 ns. */
	sel.process = 0;
	p = load_from(r, &sel);
	h = &p->behaviour.history;
	assert_int_equal(h->start_ns, 0);
	assert_int_equal(h->bytes[38], 0);    /* 975 */
	assert_int_equal(h->bytes[39], 100);  /* 1000: with what happens then */
	assert_int_equal(h->bytes[130], 180); /* 3275 */
	assert_int_equal(h->bytes[300], 100); /* 7525 */
	assert_int_equal(h->bytes[399], 110);
	profile_free(p);

	struct heft_error err;
	sel = (struct profile_selection){.has_process = true, .process = 2};
	assert_int_equal(profile_from_trace(&p, r, &sel, &err), HEFT_ENOTFOUND);
	assert_non_null(strstr(err.message, "no process number 2"));
	sel = (struct profile_selection){.program = "prog", .history = true, .part_of = whole};
	p = load_from(r, &sel); /* both */
	assert_int_equal(p->process_count, 2);
	assert_int_equal(p->behaviour.history.bytes[249], 630); /* 6250 */
	assert_int_equal(p->behaviour.history.bytes[300], 600); /* 7525 */
	assert_int_equal(p->behaviour.history.bytes[399], 110);
	profile_free(p);
	sel.program = "other";
	assert_int_equal(profile_from_trace(&p, r, &sel, &err), HEFT_ENOTFOUND);
	profile_free(whole);
	trace_reader_close(r);
}

UNIT_TESTS(fixture_make, fixture_remove)
