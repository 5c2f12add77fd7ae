/* A recording of a random history (behaviour_model.h), with several checkpoints.
 *
 * Sites are made in threes that read the same: one place in one module that two
 * processes loaded, and the same place as an exact pc. Their names are addresses,
 * since the module does not exist. */
#ifndef HEFT_TESTS_BEHAVIOUR_RECORDING_H
#define HEFT_TESTS_BEHAVIOUR_RECORDING_H

#include "behaviour_model.h"
#include "profile/profile_from_trace.h"
#include "trace/trace_block.h"
#include "unit_test.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

enum { PLACES = 5, ALIKE = 3, SITES = PLACES * ALIKE, FREE_PLACES = 2, CHECKPOINTS = 12 };

static char path[64];

struct recording {
	struct history *h;
	uint64_t tick_ns, bytes, duration_ns;
	size_t checkpoints; /* and the tally at the end is at[checkpoints] */
	struct {
		size_t steps; /* before it */
		uint64_t end; /* offset behind it */
	} at[CHECKPOINTS + 1];
};

/* ---- making one */

static inline uint64_t address_of_place(uint32_t site)
{
	if (site < SITES)
		return 0x1000 + site % PLACES * 0x100;
	return 0x9000 + (site - SITES) % FREE_PLACES * 0x100;
}

static inline uint32_t place_of(const struct profile *p, uint32_t node)
{
	const char *name = p->stacks.frames[p->stacks.nodes[node].frame].function;
	uint64_t address = strtoull(strstr(name, "+0x") + 3, NULL, 16);
	return (uint32_t)((address & 0xfff) / 0x100) + (address >= 0x9000 ? 100 : 0);
}

static inline struct trace_writer *open_recording(const struct history *h, uint64_t tick_ns)
{
	static char *argv[] = {"./prog", NULL};
	struct trace_meta meta = {.heft_version = "0",
				  .argv = argv,
				  .argc = 1,
				  .page_bytes = 4096,
				  .tick_ns = tick_ns};
	struct heft_error err;
	struct trace_writer *w;
	assert_int_equal(trace_writer_open(&w, path, true, &meta, &err), 0);
	for (int i = 0; i < 2; i++) {
		struct trace_process process = {
			.pid = 100 + i, .ppid = 1, .exe = "/nowhere/prog", .argv = argv, .argc = 1};
		assert_int_equal(trace_writer_process(w, &process), 0);
		assert_int_equal(
			trace_writer_module(w, &(struct trace_module){"/nowhere/prog", NULL, 0}),
			0);
	}
	for (uint32_t i = 0; i < h->threads; i++) {
		char name[16];
		snprintf(name, sizeof name, "t%u", i);
		struct trace_thread thread = {i % 2, 100 + (int32_t)i, name};
		assert_int_equal(trace_writer_thread(w, &thread), 0);
	}
	for (uint32_t i = 0; i < h->sites; i++) {
		bool exact = i < SITES && i / PLACES == 2;
		struct trace_node node = {TRACE_NONE, i < SITES && i / PLACES == 1,
					  address_of_place(i) + !exact,
					  exact ? TRACE_FRAME_EXACT_PC : 0};
		struct trace_site site = {i, i < SITES ? TRACE_VIA_MALLOC : TRACE_VIA_FREE};
		assert_int_equal(trace_writer_nodes(w, &node, 1), 0);
		assert_int_equal(trace_writer_sites(w, &site, 1), 0);
	}
	return w;
}

/* Where the tally at the end ends. */
static inline void find_tally(struct recording *r)
{
	struct trace_block_header b;
	FILE *f = fopen(path, "rb");
	r->bytes = TRACE_FILE_HEADER_BYTES;
	while (!fseek(f, (long)r->bytes, SEEK_SET) && fread(&b, sizeof b, 1, f) == 1) {
		r->bytes += sizeof b + b.stored_bytes;
		if (b.type == TRACE_BLOCK_TALLY)
			r->at[r->checkpoints].end = r->bytes;
	}
	fclose(f);
	r->at[r->checkpoints].steps = r->h->count;
	assert_true(r->at[r->checkpoints].end);
}

static inline void record(struct recording *r, enum model_shape shape, unsigned seed, size_t steps,
			  uint64_t tick_ns)
{
	struct history *h = history_new(shape, seed, steps, SITES, 20000);
	struct trace_writer *w = open_recording(h, tick_ns);
	struct behaviour b;
	struct tally t;
	struct heft_error err;
	*r = (struct recording){.h = h, .tick_ns = tick_ns};
	tally_init(&t);
	behaviour_init(&b);
	assert_int_equal(tally_reserve(&t, h->sites, h->threads), 0);
	t.behaviour = &b;
	uint64_t now = 0;
	for (size_t i = 0; i < h->count; i++) {
		tally_apply(&t, &h->steps[i].e, 1);
		assert_int_equal(trace_writer_events(w, &h->steps[i].e, 1), 0);
		now = h->steps[i].e.time_ns;
		if (model_draw(h, 200) == 0)
			assert_int_equal(trace_writer_flush(w), 0);
		if (r->checkpoints < CHECKPOINTS && model_draw(h, (uint32_t)steps / 8) == 0) {
			assert_int_equal(trace_writer_checkpoint(w, now, &t), 0);
			r->at[r->checkpoints].steps = i + 1;
			r->at[r->checkpoints++].end = trace_writer_bytes(w);
		}
	}
	r->duration_ns = now + 5000000;
	assert_int_equal(trace_writer_close(w, r->duration_ns, &t, &err), 0);
	find_tally(r);
	tally_fini(&t);
	behaviour_fini(&b);
}

/* An event as it comes back from the file. */
static inline struct trace_event stored(const struct recording *r, size_t i)
{
	struct trace_event e = r->h->steps[i].e;
	uint64_t birth = (e.time_ns - e.lifetime_ns) / r->tick_ns * r->tick_ns;
	e.time_ns = e.time_ns / r->tick_ns * r->tick_ns;
	if (e.op == TRACE_FREE || e.op == TRACE_GONE)
		e.lifetime_ns = e.time_ns - birth;
	e.flags &= TRACE_KEPT_FLAGS;
	return e;
}

static inline size_t steps_before(const struct recording *r, uint64_t before_ns)
{
	size_t n = 0;
	while (n < r->h->count && stored(r, n).time_ns < before_ns)
		n++;
	return n;
}

static inline void near(double is, long double should)
{
	if (fabsl(is - should) > 1e-6L * (1 + fabsl(should)))
		fail_msg("%.12g instead of %.12Lg", is, should);
}

static inline int make_path(void **state)
{
	(void)state;
	strcpy(path, "/tmp/heft-behaviour-XXXXXX");
	int fd = mkstemp(path);
	return fd < 0 ? -1 : close(fd);
}

static inline int remove_path(void **state)
{
	(void)state;
	return unlink(path);
}

#endif
