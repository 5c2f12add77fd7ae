/* What programs said, in the model: made-up remarks, whose numbers are worked out by hand. */
#include "profile/profile_from_trace.h"

#include "profile_fixture.h"

#include <unistd.h>

enum { NAME_A = 1, NAME_B, LOAD, REQUEST, QUEUED, HANDLED, TICK, BOOM, CELLS, ODD };
static const char *const names[] = {"A",       "B",    "load", "request", "queued",
				    "handled", "tick", "boom", "cells",   "A#2\033[31m"};
enum { MAIN, WORKER, CHILD };

#define SAID(remark, time, by, ...)                                                                \
	{.kind = TRACE_REMARK_##remark, .time_ns = (time), .thread = (by), __VA_ARGS__}

/* Site 0 and site 1 are f, line 5; site 3 is f, line 6; site 4 has no stack. */
static const struct trace_remark said[] = {
	SAID(MARK, 1000, MAIN, .name = NAME_A),
	SAID(POOL_CREATE, 1000, MAIN, .a = 0x1000, .name = CELLS),
	SAID(REGION_BEGIN, 2000, MAIN, .a = 1, .name = LOAD),
	SAID(POOL_ALLOC, 2000, MAIN, .a = 0x1000, .b = 0x1001, .c = 100, .site = 3),
	SAID(REGION_BEGIN, 3000, WORKER, .a = 2, .b = 1, .name = REQUEST),
	SAID(POOL_ALLOC, 3000, MAIN, .a = 0x1000, .b = 0x1002, .c = 50, .site = 3),
	SAID(POOL_ALLOC, 4000, MAIN, .a = 0x1000, .b = 0x1003, .c = 30, .site = 0),
	SAID(EVENT, 4500, MAIN, .a = 5, .name = TICK, .site = 3),
	SAID(STAGE, 5000, MAIN, .a = 0x10, .b = 1001, .born_at = 1, .name = QUEUED),
	SAID(POOL_FREE, 5000, MAIN, .a = 0x1000, .b = 0x1002),
	SAID(EVENT, 5000, WORKER, .a = 7, .name = TICK, .site = 3),
	SAID(EVENT, 5200, WORKER, .a = 1, .name = TICK, .site = 0),
	SAID(STAGE, 6000, MAIN, .a = 0x20, .b = 3001, .born_at = 2, .name = QUEUED),
	SAID(REGION_END, 6000, CHILD, .a = 1, .name = LOAD), /* began before the fork */
	SAID(POOL_ALLOC, 6000, MAIN, .a = 0x1000, .b = 0x1004, .c = 10, .site = 0),
	SAID(POOL_FREE, 6500, MAIN, .a = 0x1000, .b = 0x9999), /* nobody took it */
	SAID(REGION_END, 7000, MAIN, .a = 1, .name = LOAD),
	SAID(POOL_CREATE, 7000, MAIN, .a = 0x2000, .name = CELLS),
	SAID(POOL_ALLOC, 7000, MAIN, .a = 0x2000, .b = 0x2001, .c = 20, .site = 4),
	SAID(STAGE, 8000, WORKER, .a = 0x10, .b = 4001, .born_at = 1, .name = HANDLED),
	SAID(POOL_DESTROY, 8000, MAIN, .a = 0x2000),
	SAID(STAGE_END, 8500, WORKER, .a = 0x10),
	SAID(MARK, 9001, CHILD, .name = NAME_B),
	SAID(POOL_ALLOC, 9000, CHILD, .a = 0x1000, .b = 0x1005, .c = 60, .site = 3),
	SAID(POOL_FREE, 9500, CHILD, .a = 0x1000, .b = 0x1001), /* its copy */
	SAID(STAGE, 12000, WORKER, .a = 0x20, .b = 9001, .born_at = 2, .name = HANDLED),
	SAID(STAGE_END, 13000, CHILD, .a = 0x20), /* its copy */
	SAID(EVENT, 14000, CHILD, .a = 100, .name = BOOM, .site = 4),
	SAID(MARK, 15000, WORKER, .name = NAME_A),
	SAID(MARK, 16000, MAIN, .name = ODD),
	SAID(STAGE, 20000, MAIN, .a = 0x10, .b = 501, .born_at = 1, .name = QUEUED),
	SAID(STAGE, 30000, MAIN, .a = 0x10, .b = 101, .born_at = 1, .name = QUEUED), /* another */
	SAID(STAGE_END, 30500, WORKER, .a = 0x10),
	SAID(STAGE, 40000, MAIN, .a = 0x30, .name = QUEUED), /* its age is not known */
	SAID(STAGE_END, 41000, MAIN, .a = 0x30),
	SAID(POOL_ALLOC, 42000, MAIN, .a = 0x3000, .b = 0x3001, .c = 8, .site = 4),
};
enum { SAID_COUNT = sizeof said / sizeof *said };

static char remarks_path[192];

static void record(const struct trace_remark *list, size_t count)
{
	static char *argv[] = {"./prog", NULL};
	struct trace_meta meta = {
		.heft_version = "0", .argv = argv, .argc = 1, .page_bytes = 4096, .tick_ns = 8};
	struct trace_process processes[] = {
		{.pid = 100, .exe = "/p", .argv = argv, .argc = 1},
		{.pid = 200, .ppid = 100, .start_ns = 4000, .exe = "/p", .argv = argv, .argc = 1}};
	const struct trace_thread threads[] = {
		{0, 100, "main"}, {0, 101, "worker"}, {1, 200, "child"}};
	const struct trace_event events[] = {
		{.op = TRACE_ALLOC, .time_ns = 4000, .site = 0, .size = 100},
		{.op = TRACE_ALLOC, .time_ns = 4000, .site = 1, .size = 50},
		{.op = TRACE_ALLOC, .time_ns = 9000, .site = 3, .size = 9},
	};
	struct trace_writer *w;
	struct heft_error err;
	struct tally tally;
	snprintf(remarks_path, sizeof remarks_path, "%s/remarks.heft", fixture_folder);
	assert_int_equal(trace_writer_open(&w, remarks_path, true, &meta, &err), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(trace_writer_process(w, &processes[i]), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(trace_writer_thread(w, &threads[i]), 0);
	fixture_tables(w);
	tally_init(&tally);
	assert_int_equal(tally_reserve(&tally, 6, 3), 0);
	tally_apply(&tally, events, 3);
	assert_int_equal(trace_writer_events(w, events, 3), 0);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		trace_writer_remark_name(w, names[i]);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(trace_writer_remark(w, &list[i]), 0);
	const uint64_t ends[] = {100000, 50000};
	for (uint32_t i = 0; i < 2; i++) {
		processes[i].end = TRACE_END_EXIT;
		processes[i].end_ns = ends[i];
		assert_int_equal(trace_writer_process_end(w, i, &processes[i]), 0);
	}
	assert_int_equal(trace_writer_close(w, 200000, &tally, &err), 0);
	tally_fini(&tally);
}

static struct profile *load_remarks(const struct profile_selection *sel)
{
	struct profile *p;
	struct heft_error err;
	if (profile_from_recording(&p, remarks_path, sel, &err) < 0)
		fail_msg("%s", err.message);
	return p;
}

static void expect_hop(const struct profile_hop *h, const char *from, const char *to,
		       bool still_there, uint64_t blocks, uint64_t total_ns, uint64_t p50_ns,
		       uint64_t p99_ns, uint64_t max_ns)
{
	assert_string_equal(h->from ? h->from : "allocated", from);
	assert_string_equal(h->to ? h->to : "no stage", to);
	assert_int_equal(h->still_there, still_there);
	assert_int_equal(h->blocks, blocks);
	assert_int_equal(h->total_ns, total_ns);
	assert_int_equal(h->p50_ns, p50_ns);
	assert_int_equal(h->p99_ns, p99_ns);
	assert_int_equal(h->max_ns, max_ns);
}

TEST(test_marks_and_regions)
{
	record(said, SAID_COUNT);
	struct profile *p = load_remarks(NULL);
	const struct profile_remarks *r = &p->remarks;
	assert_int_equal(r->mark_count, 4);
	assert_string_equal(r->marks[0].name, "A");
	assert_int_equal(r->marks[0].time_ns, 1000);
	assert_int_equal(r->marks[1].time_ns, 9001);
	assert_int_equal(p->processes[r->marks[1].process].pid, 200);
	assert_int_equal(p->threads[r->marks[2].thread].tid, 101);
	assert_int_equal(r->region_count, 3);
	assert_string_equal(r->regions[0].name, "load");
	assert_int_equal(r->regions[0].begin_ns, 2000);
	assert_int_equal(r->regions[0].end_ns, 7000);
	assert_false(r->regions[0].is_open);
	/* Nobody ended it: it lasts as long as its process. */
	assert_string_equal(r->regions[1].name, "request");
	assert_true(r->regions[1].of_thread && r->regions[1].is_open);
	assert_int_equal(r->regions[1].end_ns, 100000);
	/* The child's copy began with the child. */
	assert_string_equal(r->regions[2].name, "load");
	assert_int_equal(p->processes[r->regions[2].process].pid, 200);
	assert_true(r->regions[2].is_inherited);
	assert_int_equal(r->regions[2].begin_ns, 4000);
	assert_int_equal(r->regions[2].end_ns, 6000);
	profile_free(p);
}

TEST(test_stages)
{
	record(said, SAID_COUNT);
	struct profile *p = load_remarks(NULL);
	const struct profile_remarks *r = &p->remarks;
	assert_int_equal(r->hop_count, 5);
	expect_hop(&r->hops[0], "allocated", "queued", false, 4, 4600, 500, 3000, 3000);
	expect_hop(&r->hops[1], "queued", "handled", false, 2, 9000, 3000, 6000, 6000);
	expect_hop(&r->hops[2], "queued", "no stage", false, 2, 1500, 500, 1000, 1000);
	expect_hop(&r->hops[3], "handled", "no stage", false, 1, 500, 500, 500, 500);
	expect_hop(&r->hops[4], "handled", "no stage", true, 1, 88000, 88000, 88000, 88000);
	assert_int_equal(profile_hop_mean_ns(&r->hops[0]), 1150);
	assert_int_equal(r->lost_blocks, 1);
	/* Sites 0 and 1 read the same. */
	assert_int_equal(r->hop_site_count, 5);
	assert_int_equal(r->hop_sites[0].hop, 0);
	assert_int_equal(r->hop_sites[0].blocks, 4);
	assert_int_equal(p->sites[r->hop_sites[0].site].allocations, 2);
	assert_int_equal(r->hop_sites[2].blocks, 1); /* nobody knows where 0x30 was allocated */
	profile_free(p);
}

TEST(test_events)
{
	record(said, SAID_COUNT);
	struct profile *p = load_remarks(NULL);
	const struct profile_remarks *r = &p->remarks;
	assert_int_equal(r->event_count, 2);
	assert_string_equal(r->events[0].name, "boom");
	assert_int_equal(r->events[0].weight, 100);
	assert_int_equal(r->event_sites[r->events[0].first].node, PROFILE_NONE);
	assert_string_equal(r->events[1].name, "tick");
	assert_int_equal(r->events[1].count, 3);
	assert_int_equal(r->events[1].weight, 13);
	assert_int_equal(r->events[1].sites, 2);
	const struct profile_event_site *s = &r->event_sites[r->events[1].first];
	assert_int_equal(s[0].count, 2);
	assert_int_equal(s[0].weight, 12);
	assert_int_equal(profile_node_frame(p, s[0].node)->line, 6);
	assert_int_equal(s[1].weight, 1);
	assert_int_equal(profile_node_frame(p, s[1].node)->line, 5);
	profile_free(p);
}

/* At 9000: 100 and 60 of line 6, 30 and 10 of line 5. */
TEST(test_pools)
{
	record(said, SAID_COUNT);
	struct profile *p = load_remarks(NULL);
	const struct profile_remarks *r = &p->remarks;
	assert_int_equal(r->pool_count, 2);
	const struct profile_pool *cells = &r->pools[0];
	assert_string_equal(cells->name, "cells");
	assert_int_equal(cells->pools, 2);
	assert_int_equal(cells->destroyed, 1);
	assert_int_equal(cells->objects, 6);
	assert_int_equal(cells->bytes, 270);
	assert_int_equal(cells->freed, 1);
	assert_int_equal(cells->unknown_frees, 1);
	assert_int_equal(cells->peak_bytes, 200);
	assert_int_equal(cells->peak_objects, 4);
	assert_int_equal(cells->peak_time_ns, 9000);
	assert_int_equal(cells->left_bytes, 200);
	assert_int_equal(cells->left_objects, 4);
	assert_int_equal(cells->sites, 3);
	const struct profile_pool_site *s = &r->pool_sites[cells->first];
	assert_int_equal(profile_node_frame(p, s[0].node)->line, 6);
	assert_int_equal(s[0].objects, 3);
	assert_int_equal(s[0].bytes, 210);
	assert_int_equal(s[0].freed, 1);
	assert_int_equal(s[0].left_objects, 2);
	assert_int_equal(s[0].left_bytes, 160);
	assert_int_equal(s[0].peak_objects, 2);
	assert_int_equal(s[0].peak_bytes, 160);
	assert_int_equal(s[0].left_parts[0], 2);
	assert_int_equal(profile_node_frame(p, s[1].node)->line, 5);
	assert_int_equal(s[1].left_bytes, 40);
	assert_int_equal(s[1].peak_bytes, 40);
	assert_int_equal(s[2].node, PROFILE_NONE);
	assert_int_equal(s[2].bytes, 20);
	assert_int_equal(s[2].left_bytes, 0); /* its pool was destroyed */
	assert_int_equal(s[2].peak_bytes, 0);
	assert_string_equal(r->pools[1].name, "pool 0x3000");
	assert_int_equal(r->pools[1].pools, 0);
	assert_int_equal(r->pools[1].left_bytes, 8);
	/* Of 42000 to 100000: the fourth eighth */
	assert_int_equal(r->pool_sites[r->pools[1].first].left_parts[3], 1);
	profile_free(p);
}

TEST(test_a_window)
{
	record(said, SAID_COUNT);
	struct profile *p = load_remarks(
		&(struct profile_selection){.has_window = true, .from_ns = 5504, .to_ns = 13000});
	const struct profile_remarks *r = &p->remarks;
	assert_int_equal(r->mark_count, 1);
	assert_string_equal(r->marks[0].name, "B");
	assert_int_equal(r->region_count, 3); /* they reach into it */
	assert_int_equal(r->regions[1].end_ns, 100000);
	assert_int_equal(r->hop_count, 4);
	expect_hop(&r->hops[0], "allocated", "queued", false, 1, 3000, 3000, 3000, 3000);
	expect_hop(&r->hops[1], "queued", "handled", false, 2, 9000, 3000, 6000, 6000);
	expect_hop(&r->hops[2], "handled", "no stage", false, 1, 500, 500, 500, 500);
	expect_hop(&r->hops[3], "handled", "no stage", true, 1, 1000, 1000, 1000, 1000);
	assert_int_equal(r->event_count, 0);
	assert_int_equal(r->pool_count, 1);
	assert_int_equal(r->pools[0].objects, 3); /* 10, 20, 60 */
	assert_int_equal(r->pools[0].bytes, 90);
	assert_int_equal(r->pools[0].peak_bytes, 200);
	assert_int_equal(r->pools[0].left_bytes, 200); /* live when the window ends */
	profile_free(p);
	/* Nothing is allocated in it: the peak is what it began with. */
	p = load_remarks(
		&(struct profile_selection){.has_window = true, .from_ns = 10000, .to_ns = 20000});
	assert_int_equal(p->remarks.pools[0].objects, 0);
	assert_int_equal(p->remarks.pools[0].peak_bytes, 200);
	assert_int_equal(p->remarks.pools[0].peak_time_ns, 10000);
	profile_free(p);
}

TEST(test_one_process)
{
	record(said, SAID_COUNT);
	struct profile *p = load_remarks(
		&(struct profile_selection){.has_pid = true, .pid = 200, .own_time = true});
	const struct profile_remarks *r = &p->remarks;
	assert_int_equal(r->mark_count, 1);
	assert_int_equal(r->marks[0].time_ns, 5001); /* since it began */
	assert_int_equal(r->region_count, 1);
	assert_int_equal(r->regions[0].begin_ns, 0);
	assert_int_equal(r->hop_count, 0);
	assert_int_equal(r->pools[0].left_bytes, 60);
	assert_int_equal(r->pools[0].peak_time_ns, 5000);
	profile_free(p);
	p = load_remarks(&(struct profile_selection){.thread = "worker"});
	assert_int_equal(p->remarks.mark_count, 1);
	assert_int_equal(p->remarks.pool_count, 0);
	assert_int_equal(p->remarks.event_count, 1);
	assert_int_equal(p->remarks.events[0].weight, 8);
	profile_free(p);
}

/* Beyond 65,536 blocks of a hop, every second one is kept: 1, 3, 5 ... of 1 to 100,000 ns. */
TEST(test_quantiles_of_many)
{
	enum { BLOCKS = 100000 };
	struct trace_remark *list = calloc(2 * BLOCKS, sizeof *list);
	for (uint64_t i = 0; i < BLOCKS; i++) {
		list[2 * i] = (struct trace_remark)SAID(STAGE, 200000 * i, MAIN, .a = 16 * i,
							.name = QUEUED);
		list[2 * i + 1] = (struct trace_remark)SAID(STAGE_END, 200000 * i + i + 1, MAIN,
							    .a = 16 * i);
	}
	record(list, 2 * BLOCKS);
	struct profile *p = load_remarks(NULL);
	assert_int_equal(p->remarks.hop_count, 1);
	expect_hop(&p->remarks.hops[0], "queued", "no stage", false, BLOCKS, 5000050000, 49999,
		   98999, 100000);
	profile_free(p);
	free(list);
}

static uint64_t time_of(const char *text, const struct profile_selection *sel, char *message)
{
	static const struct profile_selection all;
	struct trace_reader *r;
	struct heft_error err = {0};
	uint64_t time_ns = 0;
	assert_int_equal(trace_reader_open(&r, remarks_path, &err), 0);
	int rc = trace_mark_time(r, sel ? sel : &all, text, &time_ns, &err);
	trace_reader_close(r);
	assert_int_equal(rc, message ? HEFT_ENOTFOUND : 0);
	if (message)
		strcpy(message, err.message);
	return time_ns;
}

TEST(test_times_of_marks)
{
	char message[1024];
	record(said, SAID_COUNT);
	assert_int_equal(time_of("A", NULL, NULL), 1000);
	assert_int_equal(time_of("A#1", NULL, NULL), 1000);
	assert_int_equal(time_of("A#2", NULL, NULL), 15000);
	assert_int_equal(time_of("B", NULL, NULL), 9000);            /* a tick is 8 ns */
	assert_int_equal(time_of("A#2\033[31m", NULL, NULL), 16000); /* its whole name */
	time_of("A#3", NULL, message);
	assert_string_equal(message, "there is no mark 'A#3' in this recording\n"
				     "its marks are: A (2 times), B, A#2\033[31m");
	time_of("A", &(struct profile_selection){.has_pid = true, .pid = 200}, message);
	assert_string_equal(message, "there is no mark 'A' in this recording\nits marks are: B");
	record(said + 1, 1);
	time_of("A", NULL, message);
	assert_string_equal(message, "there is no mark 'A': this recording has no marks\n"
				     "a program makes them with heft_mark(\"NAME\") of heft.h");
}

UNIT_TESTS(fixture_make, fixture_remove)
