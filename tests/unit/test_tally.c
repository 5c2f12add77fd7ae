/* The tally against brute force: random histories, with every live block kept in
 * a plain list and every sum made anew after every event. */
#include "tally/tally.h"
#include "unit_test.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { SITES = 7, THREADS = 3, BLOCKS = 64 };

struct block {
	uint64_t size, birth;
	uint32_t site, thread, slack;
	int live;
};

static uint64_t rng;
static uint32_t draw(uint32_t n)
{
	rng = rng * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(rng >> 33) % n;
}

static void one_history(unsigned seed, unsigned steps)
{
	struct block b[BLOCKS] = {0};
	uint64_t peak = 0, peak_time = 0, at_peak[SITES] = {0}, own[SITES] = {0},
		 allocated[SITES] = {0};
	uint64_t reallocated[SITES] = {0}, ends[SITES] = {0}, frees = 0, cross = 0,
		 longest[SITES] = {0};
	struct tally t;
	rng = seed;
	tally_init(&t);
	assert_int_equal(tally_reserve(&t, SITES, THREADS), 0);
	for (unsigned step = 1; step <= steps; step++) {
		struct block *k = &b[draw(BLOCKS)];
		struct trace_event e = {.time_ns = step * 1000, .thread = draw(THREADS)};
		if (!k->live) {
			*k = (struct block){draw(1000), step * 1000, draw(SITES),
					    e.thread,   draw(16),    1};
			e.op = TRACE_ALLOC;
			e.size = k->size;
			e.site = k->site;
			e.birth_thread = k->thread;
			e.slack = k->slack;
			allocated[k->site] += k->size;
		} else if (draw(4) == 0) {
			e.op = TRACE_REALLOC;
			e.old_size = k->size;
			e.old_site = k->site;
			e.old_slack = k->slack;
			e.birth_thread = k->thread;
			k->size = draw(1000);
			k->site = draw(SITES);
			k->slack = draw(16);
			e.size = k->size;
			e.site = k->site;
			e.slack = k->slack;
			reallocated[k->site] += k->size;
			if (e.size > e.old_size)
				allocated[k->site] += e.size - e.old_size;
		} else {
			int gone = draw(10) == 0;
			e.op = gone ? TRACE_GONE : TRACE_FREE;
			e.size = k->size;
			e.site = k->site;
			e.slack = k->slack;
			e.birth_thread = k->thread;
			e.lifetime_ns = e.time_ns - k->birth;
			if (e.lifetime_ns > longest[k->site])
				longest[k->site] = e.lifetime_ns;
			k->live = 0;
			frees += !gone;
			cross += !gone && e.thread != k->thread;
			ends[k->site] += gone ? k->size : 0;
		}
		tally_apply(&t, &e, 1);
		uint64_t sum = 0, site[SITES] = {0};
		for (int i = 0; i < BLOCKS; i++)
			if (b[i].live) {
				sum += b[i].size;
				site[b[i].site] += b[i].size;
			}
		for (int i = 0; i < SITES; i++)
			if (site[i] > own[i])
				own[i] = site[i];
		if (sum > peak) { /* the first instant of the greatest sum */
			peak = sum;
			peak_time = e.time_ns;
			memcpy(at_peak, site, sizeof site);
		}
		assert_int_equal(t.live_bytes, sum);
		if (step % 97 == 0) { /* settling in between must change nothing */
			tally_update_peaks(&t);
			for (int i = 0; i < SITES; i++)
				assert_int_equal(t.sites[i].peak_bytes, at_peak[i]);
		}
	}
	tally_update_peaks(&t);
	assert_int_equal(t.peak_bytes, peak);
	assert_int_equal(t.peak_time_ns, peak_time);
	uint64_t f = 0, c = 0;
	for (int i = 0; i < SITES; i++) {
		const struct tally_site *s = &t.sites[i];
		uint64_t in_histogram = 0;
		for (int k = 0; k < TALLY_BUCKETS; k++)
			in_histogram += s->lifetime[k];
		assert_int_equal(s->peak_bytes, at_peak[i]);
		assert_int_equal(s->own_peak_bytes, own[i]);
		assert_int_equal(s->allocated_bytes, allocated[i]);
		assert_int_equal(s->reallocated_bytes, reallocated[i]);
		assert_int_equal(s->end_bytes, ends[i]);
		assert_int_equal(s->lifetime_max_ns, longest[i]);
		assert_int_equal(in_histogram, s->frees + s->end_blocks);
		assert_true(tally_lifetime_quantile(s, 1.0) <= s->lifetime_max_ns);
		assert_true(tally_lifetime_quantile(s, 0.5) <= tally_lifetime_quantile(s, 0.99));
		f += s->frees;
		c += s->cross_thread_frees;
	}
	assert_int_equal(f, frees);
	assert_int_equal(c, cross);
	tally_fini(&t);
}

TEST(test_against_brute_force)
{
	for (unsigned seed = 1; seed <= 60; seed++)
		one_history(seed, 50 + seed * 20);
}

TEST(test_first_of_two_equal_peaks)
{
	/* 100 at site 0, gone, then 100 at site 1: the peak is the first instant, site 0's. */
	struct trace_event e[] = {
		{.time_ns = 1, .size = 100, .site = 0, .op = TRACE_ALLOC},
		{.time_ns = 2, .size = 100, .site = 0, .op = TRACE_FREE},
		{.time_ns = 3, .size = 100, .site = 1, .op = TRACE_ALLOC},
	};
	struct tally t;
	tally_init(&t);
	assert_int_equal(tally_reserve(&t, 2, 1), 0);
	tally_apply(&t, e, 3);
	tally_update_peaks(&t);
	assert_int_equal(t.peak_time_ns, 1);
	assert_int_equal(t.sites[0].peak_bytes, 100);
	assert_int_equal(t.sites[1].peak_bytes, 0);
	assert_int_equal(t.sites[1].own_peak_bytes, 100);
	tally_fini(&t);
}

/* Through all sizes, the mapped ones included: what was there stays, what is new is zero. */
TEST(test_reserve_keeps_and_zeroes)
{
	static const uint32_t counts[] = {1, 64, 65, 5000, 13107, 13108, 16385, 131073, 400000};
	struct tally t;
	uint32_t had = 0;
	(void)state;
	tally_init(&t);
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		assert_int_equal(tally_reserve(&t, counts[i], counts[i] / 16), 0);
		assert_int_equal(t.site_count, counts[i]);
		assert_int_equal((uintptr_t)t.sites % 64, 0);
		for (uint32_t k = 0; k < had; k++)
			assert_true(t.sites[k].allocations == k + 1 &&
				    t.sites[k].lifetime[TALLY_BUCKETS - 1] == k);
		for (uint32_t k = had; k < t.site_count; k++) {
			assert_true(t.sites[k].allocations == 0 &&
				    t.sites[k].lifetime[TALLY_BUCKETS - 1] == 0);
			t.sites[k].allocations = k + 1;
			t.sites[k].lifetime[TALLY_BUCKETS - 1] = k;
		}
		had = t.site_count;
		if (t.thread_count)
			assert_int_equal(t.threads[t.thread_count - 1].allocations, 0);
	}
	tally_fini(&t);
	assert_null(t.sites);
}

/* Valid events: every free is of a block that is live. Temporary ones come at once, as pairs. */
static size_t some_events(struct trace_event *events, size_t count)
{
	struct block b[BLOCKS] = {0};
	uint64_t now = 0;
	size_t n = 0;
	while (n + 2 <= count) {
		struct block *k = &b[draw(BLOCKS)];
		struct trace_event e = {.time_ns = now += draw(5000), .thread = draw(THREADS)};
		if (!k->live) {
			*k = (struct block){draw(50) ? draw(5000) : 1ull << 30,
					    now,
					    draw(SITES),
					    e.thread,
					    draw(100),
					    1};
			e.op = TRACE_ALLOC;
		} else {
			e.op = draw(20) ? TRACE_FREE : TRACE_GONE;
			e.lifetime_ns = now - k->birth;
			k->live = 0;
		}
		e.size = k->size;
		e.site = k->site;
		e.slack = k->slack;
		e.birth_thread = k->thread;
		events[n++] = e;
		if (e.op == TRACE_ALLOC && draw(3) == 0) {
			e.op = TRACE_FREE;
			e.flags = TRACE_TEMPORARY;
			e.lifetime_ns = draw(400);
			e.time_ns = now += e.lifetime_ns;
			k->live = 0;
			events[n++] = e;
		}
	}
	return n;
}

/* In brief, in full or as pairs: a batch adds up to the same. */
TEST(test_batches)
{
	enum { EVENTS = 20000 };
	static struct trace_event events[EVENTS];
	static struct trace_batch batch;
	rng = 99;
	size_t count = some_events(events, EVENTS), pairs = 0;
	struct tally one, other;
	struct behaviour first, second;
	behaviour_init(&first);
	behaviour_init(&second);
	tally_init(&one);
	tally_init(&other);
	one.behaviour = &first;
	other.behaviour = &second;
	assert_int_equal(tally_reserve(&one, SITES, THREADS), 0);
	assert_int_equal(tally_reserve(&other, SITES, THREADS), 0);
	for (size_t i = 0; i < count;) {
		size_t n = 1 + draw(TRACE_BATCH), from = i;
		batch.count = batch.full_count = 0;
		for (; i < count && i - from < n; i++) {
			trace_batch_add(&batch, &events[i]);
			struct trace_brief *before = &batch.brief[batch.count - 1] - 1;
			if (i > from && events[i].flags & TRACE_TEMPORARY &&
			    trace_brief_kind(before) == TRACE_BRIEF_ALLOC && draw(4)) {
				before->birth_kind |= TRACE_BRIEF_PAIR;
				pairs++;
			}
		}
		tally_apply(&one, events + from, i - from);
		tally_apply_batch(&other, &batch);
	}
	tally_update_peaks(&one);
	tally_update_peaks(&other);
	assert_true(pairs > 1000);
	for (unsigned i = 0; i < SITES; i++) {
		one.sites[i].peak_epoch = other.sites[i].peak_epoch = 0;
		assert_memory_equal(&one.sites[i], &other.sites[i], sizeof *one.sites);
	}
	assert_memory_equal(one.threads, other.threads, THREADS * sizeof *one.threads);
	assert_int_equal(one.live_bytes, other.live_bytes);
	assert_int_equal(one.live_blocks, other.live_blocks);
	assert_int_equal(one.peak_bytes, other.peak_bytes);
	assert_int_equal(one.peak_blocks, other.peak_blocks);
	assert_int_equal(one.peak_time_ns, other.peak_time_ns);
	assert_int_equal(one.events, other.events);
	assert_int_equal(first.handover_count, second.handover_count);
	assert_memory_equal(first.handovers, second.handovers,
			    first.handover_count * sizeof *first.handovers);
	tally_fini(&one);
	tally_fini(&other);
	behaviour_fini(&first);
	behaviour_fini(&second);
}

UNIT_TESTS(NULL, NULL)
