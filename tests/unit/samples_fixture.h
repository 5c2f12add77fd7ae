/* The beginning of a recording with samples: one module, and two sites under one root. */
#ifndef HEFT_TESTS_SAMPLES_FIXTURE_H
#define HEFT_TESTS_SAMPLES_FIXTURE_H

#include "trace/trace.h"

#include "unit_test.h"

static char *samples_argv[] = {(char *)"program", NULL};

static inline struct trace_writer *samples_begin(const char *path)
{
	struct trace_writer *w;
	struct heft_error err;
	struct trace_meta meta = {.heft_version = "test",
				  .argv = samples_argv,
				  .argc = 1,
				  .page_bytes = 4096,
				  .tick_ns = 2048};
	if (trace_writer_open(&w, path, true, &meta, &err))
		fail_msg("%s", err.message);
	struct trace_module module = {.path = "/nowhere/program"};
	struct trace_node nodes[] = {
		{TRACE_NONE, 0, 0x1000, 0}, {0, 0, 0x2000, 0}, {0, 0, 0x3000, 0}};
	struct trace_site sites[] = {{1, TRACE_VIA_MALLOC}, {2, TRACE_VIA_CALLOC}};
	trace_writer_module(w, &module);
	trace_writer_nodes(w, nodes, 3);
	trace_writer_sites(w, sites, 2);
	return w;
}

#endif
