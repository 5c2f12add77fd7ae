/* A recording of a program that says things (heft.h), whose every number is worked out by hand. */
#ifndef HEFT_TESTS_REMARKS_FIXTURE_H
#define HEFT_TESTS_REMARKS_FIXTURE_H

#include "profile_fixture.h"

enum { NAME_A = 1, NAME_B, LOAD, REQUEST, QUEUED, HANDLED, TICK, BOOM, CELLS, ODD };
static const char *const remark_names[] = {"A",       "B",    "load", "request", "queued",
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

static inline void remarks_record(const struct trace_remark *list, size_t count)
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
	for (size_t i = 0; i < sizeof remark_names / sizeof *remark_names; i++)
		trace_writer_remark_name(w, remark_names[i]);
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

static inline struct profile *load_remarks(const struct profile_selection *sel)
{
	struct profile *p;
	struct heft_error err;
	if (profile_from_recording(&p, remarks_path, sel, &err) < 0)
		fail_msg("%s", err.message);
	return p;
}

#endif
