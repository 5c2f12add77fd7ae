/* A small recording whose every number is worked out by hand, for the tests of profile and report.
 *
 *   time  event                                   live  blocks
 *   1000  main    malloc  100  at f, line 5        100     1
 *   2000  main    malloc   50  at f, line 5 too    150     2     (another call on the same line)
 *   3000  worker  calloc   30  at f, line 5 too    180     3
 *   4000  main    frees the 50: temporary          130     2
 *   5000  child   malloc  200  at f, line 6        330     3
 *   6000  child   realloc 500  in unknown code     630     3     the peak
 *   7000  main    frees the 30 of worker           600     2
 *   8000  worker  malloc   10  stack unknown       610     3
 *   9000  child   frees the 500                    110     2
 *  10000  the 100 and the 10 are still there at the end
 */
#ifndef HEFT_TESTS_RECORDING_FIXTURE_H
#define HEFT_TESTS_RECORDING_FIXTURE_H

#include "trace/trace.h"
#include "elf_fixture.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIXTURE_MAIN, FIXTURE_SAME_1, FIXTURE_SAME_2, FIXTURE_OTHER, FIXTURE_UNKNOWN };

static char fixture_folder[64], fixture_path[128], fixture_program[128];

static const char fixture_source[] = "#define MARK(name) __asm__ volatile(#name \": nop\")\n"
				     "__attribute__((noinline)) void f(void);\n"
				     "void f(void)\n"
				     "{\n"
				     "	MARK(mark_1); MARK(mark_2);\n" /* 5 */
				     "	MARK(mark_3);\n"
				     "}\n"
				     "int main(void)\n"
				     "{\n"
				     "	f();\n" /* 10 */
				     "	MARK(mark_main);\n"
				     "}\n";

static inline void fixture_tables(struct trace_writer *w)
{
	const void *id;
	int fd = open(fixture_program, O_RDONLY);
	elf_version(EV_CURRENT);
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	assert_non_null(elf);
	ssize_t length = dwelf_elf_gnu_build_id(elf, &id);
	assert_true(length > 0);
	/* Twice, as two processes load it. */
	struct trace_module module = {fixture_program, id, (uint32_t)length};
	assert_int_equal(trace_writer_module(w, &module), 0);
	assert_int_equal(trace_writer_module(w, &module), 0);
	/* Return addresses: the byte after the instruction meant. */
	struct trace_node nodes[] = {
		{TRACE_NONE, 0, elf_symbol_value(elf, "mark_main") + 1, 0},
		{FIXTURE_MAIN, 0, elf_symbol_value(elf, "mark_1") + 1, 0},
		{FIXTURE_MAIN, 1, elf_symbol_value(elf, "mark_2"), TRACE_FRAME_EXACT_PC},
		{FIXTURE_MAIN, 1, elf_symbol_value(elf, "mark_3") + 1, 0},
		{FIXTURE_OTHER, TRACE_NONE, 0x1235, TRACE_FRAME_GUESS},
	};
	struct trace_site sites[] = {
		{FIXTURE_SAME_1, TRACE_VIA_MALLOC}, {FIXTURE_SAME_2, TRACE_VIA_MALLOC},
		{FIXTURE_SAME_2, TRACE_VIA_CALLOC}, {FIXTURE_OTHER, TRACE_VIA_MALLOC},
		{TRACE_NONE, TRACE_VIA_MALLOC},     {FIXTURE_UNKNOWN, TRACE_VIA_REALLOC},
	};
	assert_int_equal(trace_writer_nodes(w, nodes, 5), 0);
	assert_int_equal(trace_writer_sites(w, sites, 6), 0);
	elf_end(elf);
	close(fd);
}

/* complete: false leaves it without an end. */
static inline void fixture_record(const char *path, bool complete)
{
	static char *argv[] = {"./prog", "\033[31mred", "\xff\"", NULL};
	struct trace_meta meta = {.heft_version = "0.1.0",
				  .start_unix_ns = 1700000000000000000,
				  .argv = argv,
				  .argc = 3,
				  .page_bytes = 4096,
				  .tick_ns = 8};
	struct trace_writer *w;
	struct heft_error err;
	struct tally tally;
	assert_int_equal(trace_writer_open(&w, path, true, &meta, &err), 0);
	struct trace_process processes[] = {
		{.pid = 100, .ppid = 1, .exe = "/bin/prog", .argv = argv, .argc = 3},
		{.pid = 200,
		 .ppid = 100,
		 .start_ns = 4000,
		 .exe = "/bin/prog",
		 .argv = argv,
		 .argc = 1},
	};
	struct trace_thread threads[] = {{0, 100, "main"}, {0, 101, "worker"}, {1, 200, "child"}};
	for (int i = 0; i < 2; i++)
		assert_int_equal(trace_writer_process(w, &processes[i]), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(trace_writer_thread(w, &threads[i]), 0);
	fixture_tables(w);
	struct trace_event events[] = {
		{.op = TRACE_ALLOC, .time_ns = 1000, .site = 0, .size = 100, .slack = 4},
		{.op = TRACE_ALLOC, .time_ns = 2000, .site = 1, .size = 50},
		{.op = TRACE_ALLOC,
		 .time_ns = 3000,
		 .site = 2,
		 .size = 30,
		 .thread = 1,
		 .birth_thread = 1},
		{.op = TRACE_FREE,
		 .time_ns = 4000,
		 .site = 1,
		 .size = 50,
		 .lifetime_ns = 2000,
		 .flags = TRACE_TEMPORARY},
		{.op = TRACE_ALLOC,
		 .time_ns = 5000,
		 .site = 3,
		 .size = 200,
		 .thread = 2,
		 .birth_thread = 2},
		{.op = TRACE_REALLOC,
		 .time_ns = 6000,
		 .site = 5,
		 .size = 500,
		 .old_site = 3,
		 .old_size = 200,
		 .thread = 2,
		 .birth_thread = 2},
		{.op = TRACE_FREE,
		 .time_ns = 7000,
		 .site = 2,
		 .size = 30,
		 .birth_thread = 1,
		 .lifetime_ns = 4000},
		{.op = TRACE_ALLOC,
		 .time_ns = 8000,
		 .site = 4,
		 .size = 10,
		 .thread = 1,
		 .birth_thread = 1},
		{.op = TRACE_FREE,
		 .time_ns = 9000,
		 .site = 5,
		 .size = 500,
		 .thread = 2,
		 .birth_thread = 2,
		 .lifetime_ns = 4000},
		{.op = TRACE_GONE,
		 .time_ns = 10000,
		 .site = 0,
		 .size = 100,
		 .lifetime_ns = 9000,
		 .slack = 4},
		{.op = TRACE_GONE,
		 .time_ns = 10000,
		 .site = 4,
		 .size = 10,
		 .thread = 1,
		 .birth_thread = 1,
		 .lifetime_ns = 2000},
	};
	size_t count = sizeof events / sizeof *events - (complete ? 0 : 2);
	tally_init(&tally);
	assert_int_equal(tally_reserve(&tally, 6, 3), 0);
	tally_apply(&tally, events, count);
	tally_update_peaks(&tally);
	assert_int_equal(trace_writer_events(w, events, count), 0);
	struct trace_rss rss[] = {
		{1000, 0, 1000}, {2000, 1, 500}, {3000, 0, 2000}, {9600, 0, 2200}};
	assert_int_equal(trace_writer_rss(w, rss, 4), 0);
	struct trace_note note = {TRACE_NOTE_UNFOLLOWED, 0, 5000,
				  "pid 300 was not followed: static"};
	assert_int_equal(trace_writer_note(w, &note), 0);
	if (!complete) {
		assert_int_equal(trace_writer_flush(w), 0);
		trace_writer_abandon(w);
		tally_fini(&tally);
		return;
	}
	processes[0].end = TRACE_END_EXIT;
	processes[0].exit_status = 3;
	processes[0].end_ns = 10000;
	processes[0].peak_bytes = 180;
	processes[0].unknown_frees = 2;
	processes[1].end = TRACE_END_SIGNAL;
	processes[1].signal = 9;
	processes[1].end_ns = 9500;
	processes[1].peak_bytes = 500;
	processes[1].dropped = 7;
	processes[1].dropped_from_ns = 9400;
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(trace_writer_process_end(w, i, &processes[i]), 0);
	assert_int_equal(trace_writer_close(w, 20000, &tally, &err), 0);
	tally_fini(&tally);
}

static inline int fixture_make(void **state)
{
	char command[512];
	(void)state;
	strcpy(fixture_folder, "/tmp/heft-profile-XXXXXX");
	if (!mkdtemp(fixture_folder))
		return -1;
	snprintf(fixture_path, sizeof fixture_path, "%s/recording.heft", fixture_folder);
	snprintf(fixture_program, sizeof fixture_program, "%s/prog", fixture_folder);
	snprintf(command, sizeof command, "%s/prog.c", fixture_folder);
	FILE *f = fopen(command, "w");
	fputs(fixture_source, f);
	fclose(f);
	snprintf(command, sizeof command, "cd %s && cc -O1 -g -Wl,--build-id=sha1 -o prog prog.c",
		 fixture_folder);
	if (system(command) != 0)
		return -1;
	fixture_record(fixture_path, true);
	return 0;
}

static inline int fixture_remove(void **state)
{
	char command[128];
	(void)state;
	snprintf(command, sizeof command, "rm -rf %s", fixture_folder);
	return system(command);
}

#endif
