/* The recording file when nothing goes wrong: what was put in comes out. Values
 * are chosen by hand, or come from a simulated heap (trace_fixture.h) and are
 * compared with a brute-force account. Damage is in test_trace_damage.c. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/prefix_varint.h"
#include "trace/trace.h"
#include "trace/unseen_memory.h"
#include "trace_fixture.h"
#include "unit_test.h"

#include <sys/stat.h>

static char path[] = "/tmp/heft-test-trace.XXXXXX";

static int make_path(void **state)
{
	(void)state;
	int fd = mkstemp(path);
	if (fd >= 0)
		close(fd);
	return fd < 0;
}

static int remove_path(void **state)
{
	(void)state;
	return unlink(path);
}

TEST(test_varint)
{
	static const struct {
		uint64_t value;
		int length;
	} cases[] = {
		{0, 1},
		{1, 1},
		{127, 1},
		{128, 2},
		{16383, 2},
		{16384, 3},
		{(1ull << 21) - 1, 3},
		{1ull << 21, 4},
		{(1ull << 49) - 1, 7},
		{1ull << 49, 8},
		{(1ull << 56) - 1, 8},
		{1ull << 56, 9},
		{UINT64_MAX, 9},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		uint8_t bytes[32] = {0};
		uint64_t back = 1234;
		assert_int_equal(prefix_put(bytes, cases[i].value) - bytes, cases[i].length);
		assert_int_equal(prefix_get(bytes, &back) - bytes, cases[i].length);
		assert_true(back == cases[i].value);
	}
	/* By hand: 5 << 1 | 1; 300 << 2 | 2 = 0x4b2. */
	uint8_t bytes[32];
	prefix_put(bytes, 5);
	assert_int_equal(bytes[0], 0x0b);
	prefix_put(bytes, 300);
	assert_int_equal(bytes[0], 0xb2);
	assert_int_equal(bytes[1], 0x04);
	assert_int_equal(unzigzag(zigzag(-3)), -3);
	assert_int_equal(zigzag(-1), 1);
	assert_true(unzigzag(zigzag(INT64_MIN)) == INT64_MIN);
}

TEST(test_tables)
{
	struct heft_error err = {0};
	char *argv[] = {"./server", "", "--port=80", NULL};
	struct trace_meta meta = {.heft_version = "0.1.0",
				  .start_unix_ns = -5,
				  .argv = argv,
				  .argc = 3,
				  .page_bytes = 16384,
				  .attached = true,
				  .tick_ns = 1024};
	struct trace_writer *w;
	assert_int_equal(trace_writer_open(&w, path, true, &meta, &err), 0);
	static const uint8_t id[20] = {0, 1, 2, 0xff};
	assert_int_equal(trace_writer_module(w, &(struct trace_module){"/bin/server", id, 20}), 0);
	assert_int_equal(trace_writer_module(w, &(struct trace_module){"[vdso]", NULL, 0}), 0);
	struct trace_node nodes[] = {
		{TRACE_NONE, 0, 0x1234, 0},
		{0, 1, 0xfffffffffffffff0, TRACE_FRAME_GUESS | TRACE_FRAME_EXACT_PC},
		{TRACE_NONE, TRACE_NONE, 0x7fff00000000, TRACE_FRAME_TRUNCATED},
		{1, 0, 0, TRACE_FRAME_LOST},
	};
	assert_int_equal(trace_writer_nodes(w, nodes, 2), 0);
	assert_int_equal(trace_writer_flush(w), 0);
	assert_int_equal(trace_writer_nodes(w, nodes + 2, 2), 0);
	struct trace_site sites[] = {
		{3, TRACE_VIA_CALLOC}, {TRACE_NONE, TRACE_VIA_NEW_ARRAY}, {0, TRACE_VIA_MALLOC}};
	assert_int_equal(trace_writer_sites(w, sites, 3), 0);
	struct trace_process first = {.pid = 100,
				      .ppid = 1,
				      .start_ns = 7,
				      .exe = "/bin/server",
				      .argv = argv,
				      .argc = 3};
	struct trace_process second = {.pid = 101, .ppid = 100, .start_ns = 9, .exe = ""};
	assert_int_equal(trace_writer_process(w, &first), 0);
	assert_int_equal(trace_writer_process(w, &second), 0);
	assert_int_equal(trace_writer_thread(w, &(struct trace_thread){0, 100, "main"}), 0);
	assert_int_equal(trace_writer_thread(w, &(struct trace_thread){1, -1, ""}), 0);
	assert_int_equal(trace_writer_flush(w), 0);
	assert_int_equal(trace_writer_thread_name(w, 1, "worker"), 0);
	struct trace_process end = {.end_ns = 99,
				    .end = TRACE_END_SIGNAL,
				    .exit_status = -1,
				    .signal = 9,
				    .dropped = 3,
				    .dropped_from_ns = 50,
				    .unknown_frees = 4,
				    .inherited_frees = 5,
				    .lost_stacks = 6,
				    .reentrant = 7,
				    .peak_bytes = 1ull << 40,
				    .peak_blocks = 8,
				    .peak_time_ns = 60};
	assert_int_equal(trace_writer_process_end(w, 0, &end), 0);
	struct trace_rss rss[] = {{10, 0, 4096}, {20, 1, 8192}, {15, 0, 0}};
	assert_int_equal(trace_writer_rss(w, rss, 3), 0);
	struct trace_anonymous memory[] = {{40, 1, 1 << 20, 7, 500, 3},
					   {50, 1, 1ull << 40, 8, 600, 4}};
	assert_int_equal(trace_writer_anonymous(w, &memory[0]), 0);
	assert_int_equal(trace_writer_anonymous(w, &memory[1]), 0);
	assert_int_equal(trace_writer_note(w, &(struct trace_note){TRACE_NOTE_OWN_MALLOC, 1, 30,
								   "it defines malloc"}),
			 0);
	assert_int_equal(
		trace_writer_note(w, &(struct trace_note){TRACE_NOTE_INFO, TRACE_NONE, 31, ""}), 0);
	struct tally tally;
	tally_init(&tally);
	assert_int_equal(trace_writer_close(w, 1000, &tally, &err), 0);

	struct trace_reader *r;
	assert_int_equal(trace_reader_open(&r, path, &err), 0);
	const struct trace_contents *c = trace_reader_contents(r);
	assert_true(c->complete);
	assert_int_equal(c->duration_ns, 1000);
	assert_int_equal(c->events, 0);
	assert_string_equal(c->meta.heft_version, "0.1.0");
	assert_int_equal(c->meta.start_unix_ns, -5);
	assert_int_equal(c->meta.argc, 3);
	assert_string_equal(c->meta.argv[1], "");
	assert_string_equal(c->meta.argv[2], "--port=80");
	assert_null(c->meta.argv[3]);
	assert_int_equal(c->meta.page_bytes, 16384);
	assert_true(c->meta.attached);
	assert_int_equal(c->meta.tick_ns, 1024);
	assert_int_equal(c->module_count, 2);
	assert_string_equal(c->modules[0].path, "/bin/server");
	assert_int_equal(c->modules[0].build_id_len, 20);
	assert_memory_equal(c->modules[0].build_id, id, 20);
	assert_int_equal(c->modules[1].build_id_len, 0);
	assert_int_equal(c->node_count, 4);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(c->nodes[i].parent, nodes[i].parent);
		assert_int_equal(c->nodes[i].module, nodes[i].module);
		assert_true(c->nodes[i].offset == nodes[i].offset);
		assert_int_equal(c->nodes[i].flags, nodes[i].flags);
	}
	assert_int_equal(c->site_count, 3);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(c->sites[i].node, sites[i].node);
		assert_int_equal(c->sites[i].via, sites[i].via);
	}
	assert_int_equal(c->thread_count, 2);
	assert_string_equal(c->threads[0].name, "main");
	assert_int_equal(c->threads[1].process, 1);
	assert_int_equal(c->threads[1].tid, -1);
	assert_string_equal(c->threads[1].name, "worker");
	assert_int_equal(c->process_count, 2);
	const struct trace_process *p = &c->processes[0];
	assert_int_equal(p->pid, 100);
	assert_int_equal(p->ppid, 1);
	assert_int_equal(p->start_ns, 7);
	assert_string_equal(p->exe, "/bin/server");
	assert_int_equal(p->argc, 3);
	assert_string_equal(p->argv[0], "./server");
	assert_int_equal(p->end, TRACE_END_SIGNAL);
	assert_int_equal(p->end_ns, 99);
	assert_int_equal(p->exit_status, -1);
	assert_int_equal(p->signal, 9);
	assert_int_equal(p->dropped, 3);
	assert_int_equal(p->dropped_from_ns, 50);
	assert_int_equal(p->unknown_frees, 4);
	assert_int_equal(p->inherited_frees, 5);
	assert_int_equal(p->lost_stacks, 6);
	assert_int_equal(p->reentrant, 7);
	assert_true(p->peak_bytes == 1ull << 40);
	assert_int_equal(p->peak_blocks, 8);
	assert_int_equal(p->peak_time_ns, 60);
	assert_int_equal(c->processes[1].end, TRACE_END_RUNNING);
	assert_int_equal(c->processes[1].argc, 0);
	assert_int_equal(c->rss_count, 3);
	assert_int_equal(c->rss[1].process, 1);
	assert_int_equal(c->rss[2].time_ns, 15);
	assert_int_equal(c->rss[1].rss_bytes, 8192);
	assert_int_equal(c->anonymous_count, 2);
	assert_int_equal(c->anonymous[0].time_ns, 40);
	assert_int_equal(c->anonymous[0].peak_bytes, 1 << 20);
	assert_int_equal(c->anonymous[0].inherited_bytes, 7);
	assert_int_equal(c->anonymous[0].recorded_bytes, 500);
	assert_true(c->anonymous[1].peak_bytes == 1ull << 40);
	assert_int_equal(c->anonymous[1].process, 1);
	assert_int_equal(c->anonymous[1].recorded_blocks, 4);
	assert_int_equal(c->note_count, 2);
	assert_int_equal(c->notes[0].kind, TRACE_NOTE_OWN_MALLOC);
	assert_int_equal(c->notes[0].process, 1);
	assert_int_equal(c->notes[0].time_ns, 30);
	assert_string_equal(c->notes[0].text, "it defines malloc");
	assert_int_equal(c->notes[1].process, TRACE_NONE);
	assert_int_equal(c->tally->site_count, 3);
	trace_reader_close(r);
	struct trace_verify v;
	assert_int_equal(trace_verify(path, &v, &err), 0);
	assert_true(v.complete);
	assert_int_equal(v.bytes, v.cut_offset);
}

struct collected {
	const struct trace_event *expect;
	size_t at, count;
	uint64_t tick_ns;
};

static int compare_events(void *ctx, const struct trace_event *events, size_t count)
{
	struct collected *c = ctx;
	for (size_t i = 0; i < count; i++, c->at++) {
		assert_true(c->at < c->count);
		struct trace_event e = rounded(c->expect[c->at], c->tick_ns);
		assert_true(events[i].time_ns == e.time_ns);
		assert_true(events[i].size == e.size);
		assert_true(events[i].lifetime_ns == e.lifetime_ns);
		assert_true(events[i].old_size == e.old_size);
		assert_int_equal(events[i].site, e.site);
		assert_int_equal(events[i].old_site, e.old_site);
		assert_int_equal(events[i].thread, e.thread);
		assert_int_equal(events[i].birth_thread, e.birth_thread);
		assert_int_equal(events[i].slack, e.slack);
		assert_int_equal(events[i].old_slack, e.old_slack);
		assert_int_equal(events[i].op, e.op);
		assert_int_equal(events[i].flags, e.flags);
	}
	return 0;
}

/* Writes the events in pieces of odd lengths, with a checkpoint every `every` events (0: none). */
static void record(const struct trace_event *events, size_t count, uint32_t sites, uint32_t threads,
		   uint64_t tick_ns, size_t every)
{
	struct heft_error err = {0};
	struct tally tally;
	tally_init(&tally);
	assert_int_equal(tally_reserve(&tally, sites, threads), 0);
	struct trace_writer *w = open_writer(path, sites, threads, tick_ns);
	size_t piece = 1;
	for (size_t i = 0; i < count; i += piece) {
		piece = (piece * 7 + 3) % 1000 + 1;
		if (piece > count - i)
			piece = count - i;
		assert_int_equal(trace_writer_events(w, events + i, piece), 0);
		tally_apply(&tally, events + i, piece);
		if (every && (i + piece) / every != i / every)
			assert_int_equal(trace_writer_checkpoint(w, events[i].time_ns, &tally), 0);
	}
	uint64_t end = count ? events[count - 1].time_ns : 0;
	assert_int_equal(trace_writer_close(w, end + 1, &tally, &err), 0);
	tally_fini(&tally);
}

static void check_recorded(const struct trace_event *events, size_t count, uint64_t tick_ns)
{
	struct heft_error err = {0};
	struct trace_verify v;
	if (trace_verify(path, &v, &err))
		fail_msg("%s", err.message);
	assert_true(v.complete);
	assert_int_equal(v.events, count);
	struct trace_reader *r;
	assert_int_equal(trace_reader_open(&r, path, &err), 0);
	struct collected c = {events, 0, count, tick_ns};
	assert_int_equal(trace_reader_events(r, 0, UINT64_MAX, compare_events, &c, &err), 0);
	assert_int_equal(c.at, count);
	assert_int_equal(trace_reader_contents(r)->events, count);
	trace_reader_close(r);
}

TEST(test_every_kind)
{
	/* Every operation and flag, slack known and unknown, other threads, equal times, extremes. */
	struct trace_event events[] = {
		{.time_ns = 0, .size = 24, .site = 0, .op = TRACE_ALLOC},
		{.time_ns = 2047, .size = 25, .site = 1, .slack = 15, .op = TRACE_ALLOC},
		{.time_ns = 2048, .size = 24, .lifetime_ns = 2048, .site = 0, .op = TRACE_FREE},
		{.time_ns = 4095,
		 .size = 100,
		 .site = 2,
		 .thread = 1,
		 .birth_thread = 1,
		 .slack = 4,
		 .op = TRACE_ALLOC},
		{.time_ns = 4095,
		 .size = 100,
		 .site = 2,
		 .thread = 1,
		 .birth_thread = 1,
		 .slack = 4,
		 .op = TRACE_FREE,
		 .flags = TRACE_TEMPORARY},
		{.time_ns = 9000,
		 .size = 50,
		 .old_size = 25,
		 .site = 3,
		 .old_site = 1,
		 .slack = 6,
		 .old_slack = 15,
		 .op = TRACE_REALLOC},
		{.time_ns = 9001,
		 .size = 50,
		 .lifetime_ns = 6954,
		 .site = 3,
		 .thread = 2,
		 .birth_thread = 0,
		 .slack = 6,
		 .op = TRACE_FREE},
		{.time_ns = 9002,
		 .size = UINT64_MAX / 4,
		 .site = 3,
		 .slack = UINT32_MAX,
		 .op = TRACE_ALLOC},
		{.time_ns = 9003,
		 .size = 0,
		 .site = 3,
		 .op = TRACE_ALLOC,
		 .flags = TRACE_SLACK_UNKNOWN},
		{.time_ns = 9003,
		 .size = 8,
		 .old_size = 0,
		 .site = 3,
		 .old_site = 3,
		 .thread = 2,
		 .birth_thread = 0,
		 .op = TRACE_REALLOC,
		 .flags = TRACE_SLACK_UNKNOWN},
		{.time_ns = 1ull << 40,
		 .size = 8,
		 .lifetime_ns = (1ull << 40) - 9003,
		 .site = 3,
		 .op = TRACE_GONE,
		 .flags = TRACE_SLACK_UNKNOWN},
		{.time_ns = 1ull << 40,
		 .size = UINT64_MAX / 4,
		 .lifetime_ns = (1ull << 40) - 9002,
		 .site = 3,
		 .slack = UINT32_MAX,
		 .op = TRACE_GONE},
	};
	size_t count = sizeof events / sizeof events[0];
	record(events, count, 4, 3, 2048, 0);
	check_recorded(events, count, 2048);

	struct heft_error err;
	struct trace_reader *r;
	assert_int_equal(trace_reader_open(&r, path, &err), 0);
	const struct tally *t = trace_reader_contents(r)->tally;
	/* Worked out by hand. The peak is at 9003: UINT64_MAX/4 + 8, all of it at site 3. */
	assert_true(t->peak_bytes == UINT64_MAX / 4 + 8);
	assert_int_equal(t->peak_blocks, 2);
	assert_int_equal(t->peak_time_ns, 9003);
	assert_true(t->sites[3].peak_bytes == UINT64_MAX / 4 + 8);
	assert_int_equal(t->sites[0].peak_bytes, 0);
	assert_int_equal(t->sites[0].own_peak_bytes, 24);
	assert_int_equal(t->live_bytes, 0);
	assert_int_equal(t->sites[2].temporary, 1);
	assert_int_equal(t->sites[3].cross_thread_frees, 1);
	assert_int_equal(t->sites[3].reallocations, 2);
	assert_int_equal(t->sites[3].reallocated_bytes, 58);
	assert_int_equal(t->sites[3].end_blocks, 2);
	assert_int_equal(t->sites[0].lifetime_sum_ns, 2048);
	assert_int_equal(t->sites[3].lifetime_max_ns, (1ull << 40) - 9002);
	assert_int_equal(t->threads[0].allocations, 4);
	assert_int_equal(t->threads[2].reallocations, 1);
	trace_reader_close(r);
}

TEST(test_simulated_heaps)
{
	static const struct {
		uint32_t sites, threads;
		size_t count;
		uint64_t tick_ns;
	} cases[] = {
		{1, 1, 1, 2048},
		{40, 1, 5000, 2048},
		{60, 7, 5000, 1},
		{64, 3, 20000, 1ull << 30},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct trace_event *events = heap_events(i + 1, cases[i].sites, cases[i].threads,
							 cases[i].count);
		record(events, cases[i].count, cases[i].sites, cases[i].threads, cases[i].tick_ns,
		       1500);
		check_recorded(events, cases[i].count, cases[i].tick_ns);
		struct brute brute;
		brute_replay(&brute, events, cases[i].count);
		struct heft_error err;
		struct trace_reader *r;
		assert_int_equal(trace_reader_open(&r, path, &err), 0);
		assert_brute(&brute, trace_reader_contents(r)->tally, cases[i].tick_ns);
		trace_reader_close(r);
		free(events);
	}
}

TEST(test_large)
{
	/* Several events blocks (1048576 each), and tallies of several parts (65536 sites each). */
	size_t count = 1200000;
	uint32_t sites = 140000;
	struct trace_event *events = heap_events(5, sites, 4, count);
	record(events, count, sites, 4, 2048, 100000);
	check_recorded(events, count, 2048);
	free(events);
}

struct window {
	uint64_t from, to;
	size_t count;
};

static int count_window(void *ctx, const struct trace_event *events, size_t count)
{
	struct window *w = ctx;
	for (size_t i = 0; i < count; i++)
		assert_true(events[i].time_ns >= w->from && events[i].time_ns <= w->to);
	w->count += count;
	return 0;
}

static int stop_at_once(void *ctx, const struct trace_event *events, size_t count)
{
	(void)events;
	(void)count;
	++*(int *)ctx;
	return -77;
}

TEST(test_windows)
{
	/* One event every 1024 ns, so two in a tick of 2048. Blocks of 1000 events. */
	size_t count = 5000;
	struct trace_event *events = calloc(count, sizeof *events);
	for (size_t i = 0; i < count; i++)
		events[i] = (struct trace_event){
			.time_ns = i * 1024, .size = 24, .op = TRACE_ALLOC};
	struct tally tally;
	tally_init(&tally);
	assert_int_equal(tally_reserve(&tally, 1, 1), 0);
	struct trace_writer *w = open_writer(path, 1, 1, 2048);
	for (size_t i = 0; i < count; i += 1000) {
		assert_int_equal(trace_writer_events(w, events + i, 1000), 0);
		assert_int_equal(trace_writer_flush(w), 0);
	}
	tally_apply(&tally, events, count);
	struct heft_error err = {0};
	assert_int_equal(trace_writer_close(w, count * 1024, &tally, &err), 0);
	tally_fini(&tally);
	free(events);

	struct trace_reader *r;
	assert_int_equal(trace_reader_open(&r, path, &err), 0);
	static const struct window windows[] = {
		{0, UINT64_MAX, 5000},
		{0, 0, 2},
		{1, 2047, 0},
		{2048, 2048, 2},
		{2048, 4096, 4},
		{1999 * 1024, 2000 * 1024, 2}, /* 1998 and 1999 are at 1998 * 1024; 2000, 2001 */
		{4998 * 1024, UINT64_MAX, 2},
		{4999 * 1024, UINT64_MAX, 0},
		{10, 5, 0},
		{1000 * 1024, 2999 * 1024, 2000},
	};
	for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
		struct window got = {windows[i].from, windows[i].to, 0};
		assert_int_equal(trace_reader_events(r, got.from, got.to, count_window, &got, &err),
				 0);
		assert_int_equal(got.count, windows[i].count);
	}
	int calls = 0;
	assert_int_equal(trace_reader_events(r, 0, UINT64_MAX, stop_at_once, &calls, &err), -77);
	assert_int_equal(calls, 1);
	trace_reader_close(r);
}

TEST(test_opening)
{
	struct heft_error err = {0};
	struct trace_meta meta = {.heft_version = "0", .tick_ns = 2048};
	struct trace_writer *w;
	assert_int_equal(trace_writer_open(&w, path, false, &meta, &err), HEFT_EREFUSED);
	assert_non_null(strstr(err.message, path));
	assert_non_null(strstr(err.message, "--force"));
	assert_int_equal(trace_writer_open(&w, "/tmp", false, &meta, &err), HEFT_EREFUSED);
	assert_non_null(strstr(err.message, "directory"));
	assert_int_equal(trace_writer_open(&w, "/tmp", true, &meta, &err), HEFT_EREFUSED);
	assert_non_null(strstr(err.message, "directory"));
	assert_int_equal(trace_writer_open(&w, "/nonexistent/x.heft", false, &meta, &err),
			 HEFT_EIO);
	assert_non_null(strstr(err.message, "/nonexistent/x.heft"));
	assert_non_null(strstr(err.message, "-o"));
	meta.tick_ns = 2000;
	assert_int_equal(trace_writer_open(&w, path, true, &meta, &err), HEFT_EUSAGE);
	/* The mode is 0644 under the umask, and a new file is made without --force. */
	assert_int_equal(unlink(path), 0);
	meta.tick_ns = 2048;
	mode_t before = umask(027);
	assert_int_equal(trace_writer_open(&w, path, false, &meta, &err), 0);
	umask(before);
	trace_writer_abandon(w);
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	/* Readers name what they were given. */
	struct trace_reader *r;
	assert_int_equal(trace_reader_open(&r, "/nonexistent", &err), HEFT_EIO);
	assert_int_equal(trace_reader_open(&r, "/tmp", &err), HEFT_EFORMAT);
	assert_non_null(strstr(err.message, "directory"));
	write_file(path, "not a recording at all, but long enough to be one", 49);
	assert_int_equal(trace_reader_open(&r, path, &err), HEFT_EFORMAT);
	assert_non_null(strstr(err.message, "at offset 0: expected the first bytes of a heft"));
}

/* Recorded bytes and blocks beside resident MiB, inherited MiB, and the MiB ever allocated. */
static enum unseen_memory judge(uint64_t recorded, uint64_t blocks, uint64_t resident,
				uint64_t inherited, double allocated)
{
	struct trace_anonymous a = {.peak_bytes = resident << 20,
				    .inherited_bytes = inherited << 20,
				    .recorded_bytes = recorded,
				    .recorded_blocks = blocks};
	return unseen_memory(&a, allocated * (1 << 20));
}

TEST(unseen_memory_is_a_lot)
{
	const uint64_t mib = 1 << 20;
	/* The mimalloc crate's example, and a program that maps 10 MiB and allocates nothing. */
	assert_int_equal(judge(1700, 3, 26, 0, 0.1), UNSEEN_MOST);
	assert_int_equal(judge(0, 0, 10, 0, 0), UNSEEN_MOST);
	/* Few MiB are what every program has; 16 are not, at three times what blocks need. */
	assert_int_equal(judge(0, 0, 7, 0, 0), UNSEEN_NOTHING);
	assert_int_equal(judge(3 * mib, 1000, 15, 0, 4), UNSEEN_NOTHING);
	assert_int_equal(judge(3 * mib, 1000, 17, 0, 4), UNSEEN_MOST);
	assert_int_equal(judge(5 * mib, 1000, 17, 0, 4), UNSEEN_NOTHING); /* 3 * 6.25 MiB is more */
	/* Three million blocks of a byte need 96 MB. */
	assert_int_equal(judge(3000000, 3000000, 92, 0, 95), UNSEEN_NOTHING);
	/* What was given out may be kept: half of the memory is the border. */
	assert_int_equal(judge(mib, 1000, 64, 0, 31), UNSEEN_MOST);
	assert_int_equal(judge(mib, 1000, 64, 0, 33), UNSEEN_OR_KEPT);
	/* A forked child has its parent's. */
	assert_int_equal(judge(0, 0, 64, 64, 0), UNSEEN_NOTHING);
	assert_int_equal(judge(0, 0, 64, 70, 0), UNSEEN_NOTHING);
	assert_int_equal(judge(0, 0, 84, 64, 0), UNSEEN_MOST);
}

TEST(unseen_memory_in_words)
{
	char text[1024];
	struct trace_anonymous a = {.peak_bytes = 27787264, .recorded_bytes = 1741};
	unseen_memory_words(&a, UNSEEN_MOST, "/usr/bin/x", true, text, sizeof text);
	assert_string_equal(text,
			    "heft recorded a peak of 1.7 KiB, but 26.5 MiB of anonymous memory "
			    "were resident: most of this program's memory does not come from "
			    "malloc");
	unseen_memory_words(&a, UNSEEN_MOST, "/usr/bin/python3.11", false, text, sizeof text);
	assert_non_null(strstr(text, "\nPython has arenas of its own"));
	unseen_memory_words(&a, UNSEEN_OR_KEPT, "x", false, text, sizeof text);
	assert_non_null(
		strstr(text, "or malloc keeps it after it was freed.\nIt maps memory itself"));
	unseen_memory_words(&a, UNSEEN_OR_KEPT, "x", false, text, 40);
	assert_int_equal(strlen(text), 39);
}

UNIT_TESTS(make_path, remove_path)
