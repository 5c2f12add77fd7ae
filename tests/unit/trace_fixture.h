/* Making events for the tests of the recording file: a small simulated heap
 * whose matched events are consistent (what is freed was allocated), and a
 * brute-force account of them that shares nothing with tally.c. */
#ifndef HEFT_TESTS_TRACE_FIXTURE_H
#define HEFT_TESTS_TRACE_FIXTURE_H

#include "trace/trace.h"
#include "unit_test.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEAP_BLOCKS = 4096 };

struct heap_block {
	uint64_t size, birth_ns;
	uint32_t site, thread, slack, unknown;
};

struct heap {
	struct heap_block blocks[HEAP_BLOCKS];
	uint32_t live;
	uint64_t time_ns;
	uint64_t random;
	uint32_t sites, threads;
	uint32_t last[64]; /* by thread: its last allocation, while it may be temporary */
};

static inline uint32_t heap_random(struct heap *h, uint32_t below)
{
	h->random = h->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((h->random >> 33) % below);
}

static inline void heap_block_new(struct heap *h, struct heap_block *b)
{
	static const uint64_t odd[] = {0, 1, 24, 25, 1 << 20, 1ull << 33, 1ull << 57};
	b->size = heap_random(h, 4) ? 16 + 8 * (b->site % 50) : heap_random(h, 300);
	if (heap_random(h, 200) == 0)
		b->size = odd[heap_random(h, 7)];
	b->slack = heap_random(h, 100) ? (uint32_t)(-b->size & 15) : heap_random(h, UINT32_MAX);
	b->unknown = heap_random(h, 60) == 0;
	if (b->unknown)
		b->slack = 0;
}

/* The next event; all kinds occur, more or less as they do in life. */
static inline struct trace_event heap_step(struct heap *h)
{
	struct trace_event e = {0};
	if (heap_random(h, 8) == 0)
		h->time_ns += heap_random(h, 100) ? heap_random(h, 5000) : 10000000;
	uint32_t thread = heap_random(h, h->threads);
	uint32_t what = heap_random(h, 16);
	e.time_ns = h->time_ns;
	e.thread = e.birth_thread = thread;
	if (h->live < HEAP_BLOCKS && (what < 8 || !h->live)) {
		struct heap_block *b = &h->blocks[h->live++];
		b->site = heap_random(h, heap_random(h, h->sites) + 1);
		b->thread = thread;
		b->birth_ns = h->time_ns;
		heap_block_new(h, b);
		e.op = TRACE_ALLOC;
		e.site = b->site;
		e.size = b->size;
		e.slack = b->slack;
		e.flags = b->unknown ? TRACE_SLACK_UNKNOWN : 0;
		h->last[thread] = h->live;
		return e;
	}
	uint32_t i = heap_random(h, 3) ? h->live - 1 : heap_random(h, h->live);
	struct heap_block *b = &h->blocks[i];
	e.birth_thread = b->thread;
	if (what == 8) {
		e.op = TRACE_REALLOC;
		e.old_site = b->site;
		e.old_size = b->size;
		e.old_slack = b->slack;
		b->site = heap_random(h, h->sites);
		heap_block_new(h, b);
		e.site = b->site;
		e.size = b->size;
		e.slack = b->slack;
		e.flags = b->unknown ? TRACE_SLACK_UNKNOWN : 0;
		return e;
	}
	e.op = heap_random(h, 40) ? TRACE_FREE : TRACE_GONE;
	if (e.op == TRACE_GONE)
		e.thread = b->thread;
	e.site = b->site;
	e.size = b->size;
	e.slack = b->slack;
	e.lifetime_ns = h->time_ns - b->birth_ns;
	e.flags = b->unknown ? TRACE_SLACK_UNKNOWN : 0;
	if (e.op == TRACE_FREE && i == h->live - 1 && b->thread == thread &&
	    h->last[thread] == h->live)
		e.flags |= TRACE_TEMPORARY;
	*b = h->blocks[--h->live];
	return e;
}

static inline struct trace_event *heap_events(uint64_t seed, uint32_t sites, uint32_t threads,
					      size_t count)
{
	struct heap *h = calloc(1, sizeof *h);
	struct trace_event *events = calloc(count, sizeof *events);
	assert(h && events);
	h->random = seed;
	h->sites = sites;
	h->threads = threads;
	for (size_t i = 0; i < count; i++)
		events[i] = heap_step(h);
	free(h);
	return events;
}

/* An event as it comes back: times are rounded down to ticks. */
static inline struct trace_event rounded(struct trace_event e, uint64_t tick_ns)
{
	uint64_t born = (e.time_ns - e.lifetime_ns) / tick_ns * tick_ns;
	e.time_ns = e.time_ns / tick_ns * tick_ns;
	if (e.op == TRACE_FREE || e.op == TRACE_GONE)
		e.lifetime_ns = e.time_ns - born;
	return e;
}

/* Brute force: after every event the whole state, and a copy of it at each new maximum. */
struct brute {
	uint64_t live[64], blocks[64], peak[64], own_peak[64], allocations[64], frees[64];
	uint64_t temporary[64], cross[64], end_bytes[64], reallocated[64];
	uint64_t total, peak_total, peak_time_ns;
};

static inline void brute_replay(struct brute *b, const struct trace_event *events, size_t count)
{
	memset(b, 0, sizeof *b);
	for (size_t i = 0; i < count; i++) {
		const struct trace_event *e = &events[i];
		assert(e->site < 64 && e->old_site < 64);
		if (e->op == TRACE_ALLOC) {
			b->live[e->site] += e->size;
			b->blocks[e->site]++;
			b->allocations[e->site]++;
		} else if (e->op == TRACE_REALLOC) {
			b->live[e->old_site] -= e->old_size;
			b->blocks[e->old_site]--;
			b->live[e->site] += e->size;
			b->blocks[e->site]++;
			b->reallocated[e->site] += e->size;
		} else {
			b->live[e->site] -= e->size;
			b->blocks[e->site]--;
			if (e->op == TRACE_GONE) {
				b->end_bytes[e->site] += e->size;
			} else {
				b->frees[e->site]++;
				b->temporary[e->site] += e->flags & TRACE_TEMPORARY;
				b->cross[e->site] += e->thread != e->birth_thread;
			}
		}
		b->total = 0;
		for (int s = 0; s < 64; s++) {
			b->total += b->live[s];
			if (b->live[s] > b->own_peak[s])
				b->own_peak[s] = b->live[s];
		}
		if (b->total > b->peak_total) {
			b->peak_total = b->total;
			b->peak_time_ns = e->time_ns;
			memcpy(b->peak, b->live, sizeof b->peak);
		}
	}
}

static inline void assert_brute(const struct brute *b, const struct tally *t, uint64_t tick_ns)
{
	assert_int_equal(t->live_bytes, b->total);
	assert_int_equal(t->peak_bytes, b->peak_total);
	assert_int_equal(t->peak_time_ns / tick_ns, b->peak_time_ns / tick_ns);
	for (uint32_t s = 0; s < t->site_count; s++) {
		const struct tally_site *x = &t->sites[s];
		assert_int_equal(x->live_bytes, b->live[s]);
		assert_int_equal(x->live_blocks, b->blocks[s]);
		assert_int_equal(x->peak_bytes, b->peak[s]);
		assert_int_equal(x->own_peak_bytes, b->own_peak[s]);
		assert_int_equal(x->allocations, b->allocations[s]);
		assert_int_equal(x->frees, b->frees[s]);
		assert_int_equal(x->temporary, b->temporary[s]);
		assert_int_equal(x->cross_thread_frees, b->cross[s]);
		assert_int_equal(x->end_bytes, b->end_bytes[s]);
		assert_int_equal(x->reallocated_bytes, b->reallocated[s]);
	}
}

static inline char *read_file(const char *path, size_t *n)
{
	FILE *f = fopen(path, "rb");
	assert(f);
	fseek(f, 0, SEEK_END);
	*n = (size_t)ftell(f);
	rewind(f);
	char *bytes = malloc(*n + 1);
	assert(bytes && fread(bytes, 1, *n, f) == *n);
	fclose(f);
	return bytes;
}

static inline void write_file(const char *path, const void *bytes, size_t n)
{
	FILE *f = fopen(path, "wb");
	assert(f && fwrite(bytes, 1, n, f) == n);
	assert(fclose(f) == 0);
}

/* A writer with one process, `threads` threads, `sites` sites; nothing flushed yet. */
static inline struct trace_writer *open_writer(const char *path, uint32_t sites, uint32_t threads,
					       uint64_t tick_ns)
{
	static char *argv[] = {"./a", "x", NULL};
	struct trace_meta meta = {.heft_version = "0.1.0",
				  .start_unix_ns = 1700000000000000000,
				  .argv = argv,
				  .argc = 2,
				  .page_bytes = 4096,
				  .tick_ns = tick_ns};
	struct heft_error err = {0};
	struct trace_writer *w = NULL;
	if (trace_writer_open(&w, path, true, &meta, &err))
		fail_msg("%s", err.message);
	struct trace_process p = {.pid = 10, .ppid = 9, .exe = "/bin/a", .argv = argv, .argc = 2};
	assert_int_equal(trace_writer_process(w, &p), 0);
	for (uint32_t i = 0; i < threads; i++)
		assert_int_equal(
			trace_writer_thread(w, &(struct trace_thread){0, 10 + (int)i, "t"}), 0);
	struct trace_site *s = calloc(sites + 1, sizeof *s);
	for (uint32_t i = 0; i < sites; i++)
		s[i] = (struct trace_site){TRACE_NONE, TRACE_VIA_MALLOC};
	assert_int_equal(trace_writer_sites(w, s, sites), 0);
	free(s);
	return w;
}

#endif
