/* For tests of record/reorder.c: three threads that call malloc, and what comes of it. Times are in
 * nanoseconds, of 16 cycles each, since births are kept to that: so every expected number can be worked
 * out by hand. */
#ifndef HEFT_TESTS_REORDER_FIXTURE_H
#define HEFT_TESTS_REORDER_FIXTURE_H

#include "record/reorder.h"

#include "hosted/error.h"
#include "unit_test.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { A = 0x10000, B = 0x20000, C = 0x30000, EVENTS = 40000 };
enum { T1, T2, T3, THREADS };
enum { CYCLES = 16 }; /* a nanosecond */

struct world {
	struct reorder r;
	struct reorder_output out;
	struct trace_batch batch;
	struct tsc_clock clock;
	struct reorder_thread threads[THREADS];
	struct trace_event events[EVENTS];
	uint32_t count, read; /* events that came, and were looked at */
	unsigned flushes;
	uint64_t last_ns;
};

static inline void flush(void *ctx)
{
	struct world *w = ctx;
	for (uint32_t i = 0; i < w->batch.count; i++) {
		assert_true(w->count < EVENTS);
		w->events[w->count++] = trace_batch_event(&w->batch, i);
	}
	w->batch.count = w->batch.full_count = 0;
	w->flushes++;
}

static inline int set_up(void **state)
{
	struct world *w = aligned_alloc(64, sizeof *w);
	assert_non_null(w);
	memset(w, 0, sizeof *w);
	w->clock.mult = (1ull << 32) / CYCLES;
	w->out = (struct reorder_output){&w->batch, flush, w, &w->clock, 0};
	assert_int_equal(reorder_init(&w->r), 0);
	w->r.several_threads = true;
	for (uint32_t i = 0; i < THREADS; i++)
		w->threads[i].number = i;
	*state = w;
	return 0;
}

static inline int tear_down(void **state)
{
	struct world *w = *state;
	assert_int_equal(w->out.failed, 0);
	reorder_fini(&w->r);
	free(w);
	return 0;
}

static inline struct reorder_now at(struct world *w, uint64_t ns)
{
	if (ns > w->last_ns)
		w->last_ns = ns;
	return (struct reorder_now){&w->out, ns * CYCLES, w->last_ns};
}

/* A block of the thread's own site: its number + first_site. */
static inline struct live_block new_block(const struct reorder_now *now, int thread,
					  uint32_t first_site, uint64_t addr, uint64_t size)
{
	return (struct live_block){.addr = addr,
				   .birth_tsc = now->tsc,
				   .size = size & 0xffffff,
				   .site = (uint32_t)thread + first_site,
				   .thread = (uint32_t)thread};
}

static inline void allocate(struct world *w, int thread, uint64_t ns, uint64_t addr, uint64_t size)
{
	struct reorder_now now = at(w, ns);
	struct live_block b = new_block(&now, thread, 1, addr, size);
	reorder_alloc(&w->r, &now, &w->threads[thread], &b, 0);
}

static inline void release(struct world *w, int thread, uint64_t ns, uint64_t addr)
{
	struct reorder_now now = at(w, ns);
	reorder_free(&w->r, &now, &w->threads[thread], addr, 0, 0);
}

static inline void announce(struct world *w, int thread, uint64_t ns, uint64_t addr)
{
	struct reorder_now now = at(w, ns);
	reorder_realloc_begin(&w->r, &now, &w->threads[thread], addr);
}

static inline void complete(struct world *w, int thread, uint64_t ns, uint64_t addr, uint64_t size)
{
	struct reorder_now now = at(w, ns);
	struct live_block b = new_block(&now, thread, 11, addr, size);
	reorder_realloc_end(&w->r, &now, &w->threads[thread], &b, 0);
}

static inline void expire(struct world *w, uint64_t ns)
{
	struct reorder_now now = at(w, ns);
	reorder_expire(&w->r, &now);
}

static inline void end(struct world *w, uint64_t ns)
{
	struct reorder_now now = at(w, ns);
	reorder_end_waiting(&w->r, &now);
	for (int i = 0; i < THREADS; i++)
		reorder_end_thread(&w->r, &now, &w->threads[i]);
	reorder_end_blocks(&w->r, &now);
}

/* ---- what came of it */

static inline const struct trace_event *next(struct world *w, enum trace_op op, int thread,
					     uint64_t time_ns, uint64_t size)
{
	flush(w);
	assert_true(w->read < w->count);
	const struct trace_event *e = &w->events[w->read++];
	assert_int_equal(e->op, op);
	assert_int_equal(e->thread, thread);
	assert_int_equal(e->time_ns, time_ns);
	assert_int_equal(e->size, size);
	return e;
}

static inline void next_free(struct world *w, int thread, uint64_t time_ns, uint64_t size,
			     uint64_t lifetime_ns, unsigned flags)
{
	const struct trace_event *e = next(w, TRACE_FREE, thread, time_ns, size);
	assert_int_equal(e->lifetime_ns, lifetime_ns);
	assert_int_equal(e->flags, flags);
}

static inline void nothing_more(struct world *w)
{
	flush(w);
	assert_int_equal(w->read, w->count);
}

static inline void live_is(struct world *w, uint64_t bytes, uint64_t blocks)
{
	assert_int_equal(w->r.live_bytes, bytes);
	assert_int_equal(w->r.live_blocks, blocks);
}

/* From the first realloc of a process with several threads on, frees of young blocks are held. */
static inline void resize_something(struct world *w)
{
	allocate(w, T1, 10, C, 1);
	announce(w, T1, 20, C);
	complete(w, T1, 30, C, 1);
	flush(w);
	w->read = w->count;
}

#define CASE(name) TEST_WITH(name, set_up, tear_down)

#endif
