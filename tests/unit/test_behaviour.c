/* Behaviour against a brute-force replay of the same events (behaviour_model.h):
 * hand-overs and their line, pairs, who frees, growth, history, its rows; its form
 * in the file, going on after it was read, and what a hostile one can do. */
#include "behaviour_model.h"
#include "trace/behaviour_block.h"
#include "trace/tally_block.h"
#include "unit_test.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

enum { SITES = 12, STEPS = 1500 };

/* A tally with its behaviour */
struct kept {
	struct tally t;
	struct behaviour b;
};

static void kept_init(struct kept *k, const struct history *h)
{
	tally_init(&k->t);
	behaviour_init(&k->b);
	assert_int_equal(tally_reserve(&k->t, h->sites, h->threads), 0);
	k->t.behaviour = &k->b;
}

static void kept_fini(struct kept *k)
{
	tally_fini(&k->t);
	behaviour_fini(&k->b);
}

/* Each event alone: then a slot is the state at its end exactly. */
static void kept_apply(struct kept *k, const struct history *h, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		tally_apply(&k->t, &h->steps[i].e, 1);
}

static void assert_near(double is, long double should, long double scale)
{
	long double far = is - should;
	if (far < 0)
		far = -far;
	if (far > scale * 1e-9L + 1e-9L)
		fail_msg("%.17g instead of %.17Lg", is, should);
}

/* ---- entries */

static void check_waits(const struct behaviour_waits *h, const struct account_handover *a)
{
	assert_int_equal(h->frees, a->frees);
	assert_int_equal(h->bytes, a->bytes);
	assert_int_equal(h->in_order, a->in_order);
	assert_int_equal(h->backlog_blocks, a->backlog_blocks);
	assert_int_equal(h->backlog_bytes, a->backlog_bytes);
	assert_int_equal(h->backlog_time_ns, a->backlog_time_ns);
	assert_int_equal(h->first_birth_ns, a->first_birth_ns);
	assert_int_equal(h->last_birth_ns, a->last_birth_ns);
	assert_int_equal(h->first_free_ns, a->first_free_ns);
	assert_int_equal(h->last_free_ns, a->last_free_ns);
	assert_near(h->birth, a->x, a->x);
	assert_near(h->wait, a->y, a->y);
	assert_near(h->birth_birth, a->xx, a->xx);
	assert_near(h->birth_wait, a->xy, a->xy);
	assert_near(h->wait_wait, a->yy, a->yy);
}

static void check_growth(const struct behaviour_growth *g, const struct account_growth *a)
{
	assert_int_equal(g->steps, a->steps);
	assert_int_equal(g->moved_steps, a->moved);
	assert_int_equal(g->copied_bytes, a->copied);
	assert_int_equal(g->blocks, a->blocks);
	assert_int_equal(g->final_bytes, a->final);
	assert_int_equal(g->largest_bytes, a->largest);
	assert_int_equal(g->measured_blocks, a->measured);
	assert_int_equal(g->measured_bytes, a->measured_bytes);
	assert_int_equal(g->unused_bytes, a->unused);
}

static void check_entries(const struct behaviour *b, const struct account *a,
			  const struct history *h)
{
	uint32_t handovers = 0, pairs = 0, releases = 0, growths = 0;
	for (uint32_t s = 0; s < h->sites; s++) {
		handovers += a->handovers[s].frees != 0;
		growths += a->growths[s].steps || a->growths[s].blocks;
		for (uint32_t x = 0; x < h->threads; x++)
			for (uint32_t y = 0; y < h->threads; y++)
				pairs += a->pairs[s][x][y] != 0;
		for (int f = 0; f < MODEL_FREE_SITES; f++)
			releases += a->releases[s][f] != 0;
	}
	/* As many, all different (the keys of a map), and each as it should be: so none is missing. */
	assert_int_equal(b->handover_count, handovers);
	assert_int_equal(b->pair_count, pairs);
	assert_int_equal(b->release_count, releases);
	assert_int_equal(b->growth_count, growths);
	for (uint32_t i = 0; i < handovers; i++)
		check_waits(&b->handovers[i].waits, &a->handovers[b->handovers[i].site]);
	for (uint32_t i = 0; i < pairs; i++)
		assert_int_equal(b->pairs[i].frees,
				 a->pairs[b->pairs[i].site][b->pairs[i].from][b->pairs[i].to]);
	for (uint32_t i = 0; i < releases; i++)
		assert_int_equal(
			b->releases[i].samples,
			a->releases[b->releases[i].site][h->sites - 1 - b->releases[i].free_site]);
	for (uint32_t i = 0; i < growths; i++)
		check_growth(&b->growths[i], &a->growths[b->growths[i].site]);
}

static void check_sites(struct tally *t, const struct account *a, const struct history *h)
{
	tally_update_peaks(t);
	uint64_t slack = 0;
	for (uint32_t s = 0; s < h->sites; s++) {
		assert_int_equal(t->sites[s].live_bytes, a->now[s].bytes);
		assert_int_equal(t->sites[s].live_blocks, a->now[s].blocks);
		assert_int_equal(t->sites[s].live_slack, a->now[s].slack);
		assert_int_equal(t->sites[s].peak_bytes, a->at_peak[s].bytes);
		assert_int_equal(t->sites[s].peak_blocks, a->at_peak[s].blocks);
		assert_int_equal(t->sites[s].peak_slack, a->at_peak[s].slack);
		assert_int_equal(t->sites[s].own_peak_bytes, a->own_peak[s]);
		slack += t->sites[s].peak_slack;
	}
	assert_int_equal(t->peak_bytes, a->peak.bytes);
	assert_int_equal(t->peak_blocks, a->peak.blocks);
	assert_int_equal(t->peak_time_ns, a->peak_time_ns);
	assert_int_equal(slack, a->peak.slack);
}

/* ---- history */

/* The state after every step */
struct film {
	const struct history *h;
	struct account_state *total, *site; /* [step], [step * sites + site] */
	uint64_t *peak, *own;               /* as they were then */
};

static void film_take(void *ctx, const struct account *a, size_t i)
{
	struct film *f = ctx;
	f->total[i] = a->total;
	f->peak[i] = a->peak.bytes;
	for (uint32_t s = 0; s < f->h->sites; s++) {
		f->site[i * f->h->sites + s] = a->now[s];
		f->own[i * f->h->sites + s] = a->own_peak[s];
	}
}

static struct account *film_new(struct film *f, const struct history *h)
{
	f->h = h;
	f->total = calloc(h->count, sizeof *f->total);
	f->site = calloc(h->count * h->sites, sizeof *f->site);
	f->peak = calloc(h->count, sizeof *f->peak);
	f->own = calloc(h->count * h->sites, sizeof *f->own);
	return account_new(h, h->count, film_take, f);
}

static void film_free(struct film *f)
{
	free(f->total);
	free(f->site);
	free(f->peak);
	free(f->own);
}

/* The last step before time_ns; -1: none. */
static long step_before(const struct history *h, uint64_t time_ns)
{
	long i = (long)h->count - 1;
	while (i >= 0 && h->steps[i].e.time_ns >= time_ns)
		i--;
	return i;
}

static void check_history(const struct behaviour *b, const struct film *f)
{
	const struct history *h = f->h;
	uint64_t last = h->steps[h->count - 1].e.time_ns, slot = 65536;
	while (last / slot > BEHAVIOUR_SLOTS)
		slot *= 2;
	assert_int_equal(b->slot_ns, slot);
	assert_int_equal(b->slot_count, last / slot);
	for (uint32_t i = 0; i < b->slot_count; i++) {
		long at = step_before(h, (i + 1) * slot);
		assert_int_equal(b->bytes[i], at < 0 ? 0 : f->total[at].bytes);
		assert_int_equal(b->blocks[i], at < 0 ? 0 : f->total[at].blocks);
		for (uint32_t k = 0; k < b->row_count; k++) {
			const struct behaviour_row *r = b->rows[k];
			size_t cell = (size_t)at * h->sites + r->site;
			if (i >= r->first) {
				assert_int_equal(r->bytes[i], at < 0 ? 0 : f->site[cell].bytes);
				assert_int_equal(r->blocks[i], at < 0 ? 0 : f->site[cell].blocks);
			} else {
				assert_int_equal(r->bytes[i] + r->blocks[i], 0);
				/* Not watched then: it had never been large. */
				if (at >= 0 && h->sites <= BEHAVIOUR_ROWS)
					assert_true(f->own[cell] <
							    f->peak[at] / BEHAVIOUR_NOTABLE ||
						    !f->own[cell]);
			}
		}
	}
}

static void check_rows(const struct kept *k, const struct account *a)
{
	const struct behaviour *b = &k->b;
	uint32_t watched = 0;
	uint64_t least = UINT64_MAX, notable = a->peak.bytes / BEHAVIOUR_NOTABLE;
	assert_true(b->row_count <= BEHAVIOUR_ROWS);
	for (uint32_t i = 0; i < b->row_count; i++) {
		assert_int_equal(k->t.sites[b->rows[i]->site].watched, 1);
		if (a->own_peak[b->rows[i]->site] < least)
			least = a->own_peak[b->rows[i]->site];
	}
	for (uint32_t s = 0; s < k->t.site_count; s++) {
		watched += k->t.sites[s].watched;
		if (k->t.sites[s].watched || !a->own_peak[s])
			continue;
		/* Who has none is small: in the heap, or beside those that have one. */
		if (b->row_count < BEHAVIOUR_ROWS)
			assert_true(a->own_peak[s] < notable);
		else
			assert_true(a->own_peak[s] < notable || a->own_peak[s] <= 2 * least + 1);
	}
	assert_int_equal(watched, b->row_count);
}

static void one_history(enum model_shape shape, unsigned seed, uint32_t sites, size_t steps,
			uint32_t pace)
{
	struct history *h = history_new(shape, seed, steps, sites, pace);
	struct film f;
	struct account *a = film_new(&f, h);
	struct kept k;
	kept_init(&k, h);
	kept_apply(&k, h, 0, h->count);
	check_sites(&k.t, a, h);
	check_entries(&k.b, a, h);
	check_history(&k.b, &f);
	check_rows(&k, a);
	kept_fini(&k);
	free(a);
	film_free(&f);
	history_free(h);
}

TEST(test_against_brute_force)
{
	/* A pace of 200 us: 1500 steps are 0.2 s, so that slots have halved in number several times */
	static const uint32_t paces[] = {100, 20000, 200000};
	for (int shape = 0; shape < MODEL_MANY_SITES; shape++)
		for (unsigned seed = 1; seed <= 3; seed++)
			one_history((enum model_shape)shape, seed, SITES, STEPS, paces[seed - 1]);
}

TEST(test_more_sites_than_rows)
{
	one_history(MODEL_MANY_SITES, 1, 600, 2500, 5000);
	one_history(MODEL_MANY_SITES, 2, 300, 1500,
		    100); /* nearly all before the first slot ends */
	one_history(MODEL_MANY_SITES, 3, 250, 1500, 5000);
}

/* As the recorder does it, pairs marked. */
static void apply_in_batches(struct kept *k, const struct history *h)
{
	struct trace_batch *batch = aligned_alloc(64, sizeof *batch);
	batch->count = batch->full_count = 0;
	for (size_t i = 0; i < h->count; i++) {
		trace_batch_add(batch, &h->steps[i].e);
		struct trace_brief *last = &batch->brief[batch->count - 1];
		if (batch->count > 1 && h->steps[i].block == h->steps[i - 1].block &&
		    trace_brief_kind(last) == TRACE_BRIEF_FREE_TEMP &&
		    trace_brief_kind(last - 1) == TRACE_BRIEF_ALLOC)
			last[-1].birth_kind |= TRACE_BRIEF_PAIR;
		if (batch->count == TRACE_BATCH || i + 1 == h->count) {
			tally_apply_batch(&k->t, batch);
			batch->count = batch->full_count = 0;
		}
	}
	free(batch);
}

static void apply_together(struct kept *k, const struct history *h)
{
	struct trace_event *events = calloc(h->count, sizeof *events);
	for (size_t i = 0; i < h->count; i++)
		events[i] = h->steps[i].e;
	tally_apply(&k->t, events, h->count);
	free(events);
}

/* Events that come together, whether they span no slot, some or all of them: as if each came alone. */
TEST(test_batches)
{
	static const uint32_t paces[] = {100, 20000, 200000, 20000000};
	static void (*const ways[])(struct kept *, const struct history *) = {apply_in_batches,
									      apply_together};
	for (unsigned i = 0; i < 4 * MODEL_MANY_SITES * 2; i++) {
		struct history *h = history_new((enum model_shape)(i / 8), 5 + i, STEPS, SITES,
						paces[i % 4]);
		struct film f;
		struct account *a = film_new(&f, h);
		struct kept k;
		kept_init(&k, h);
		ways[i / 4 % 2](&k, h);
		check_sites(&k.t, a, h);
		check_entries(&k.b, a, h);
		check_history(&k.b, &f);
		check_rows(&k, a);
		kept_fini(&k);
		film_free(&f);
		free(a);
		history_free(h);
	}
}

static struct trace_event event_of(enum trace_op op, uint64_t time_ns, uint64_t size)
{
	return (struct trace_event){.op = (uint8_t)op, .time_ns = time_ns, .size = size};
}

/* Slots of 65,536 ns. One batch: 100 bytes in the first, a temporary 40 from the second to the third,
 * nothing in the fourth, the 100 freed in the fifth. */
TEST(test_a_batch_over_five_slots)
{
	struct history h = {.sites = 1, .threads = 1};
	struct trace_batch *batch = aligned_alloc(64, sizeof *batch);
	batch->count = batch->full_count = 0;
	struct trace_event e[] = {
		event_of(TRACE_ALLOC, 10, 100),           event_of(TRACE_ALLOC, 65536 + 10, 40),
		event_of(TRACE_FREE, 2 * 65536 + 10, 40), event_of(TRACE_FREE, 4 * 65536 + 10, 100),
		event_of(TRACE_ALLOC, 5 * 65536 + 10, 1),
	};
	e[2].flags = TRACE_TEMPORARY;
	e[2].lifetime_ns = 65536;
	for (unsigned i = 0; i < 5; i++)
		trace_batch_add(batch, &e[i]);
	batch->brief[1].birth_kind |= TRACE_BRIEF_PAIR;
	struct kept k;
	kept_init(&k, &h);
	/* Both have been larger before: then a pair takes its shorter way. */
	k.t.peak_bytes = k.t.sites[0].own_peak_bytes = 1000;
	tally_apply_batch(&k.t, batch);
	static const uint64_t bytes[] = {100, 140, 100, 100, 0}, events[] = {1, 2, 3, 3, 4};
	assert_int_equal(k.b.slot_count, 5);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(k.b.bytes[i], bytes[i]);
		assert_int_equal(k.b.events[i], events[i]);
	}
	assert_int_equal(k.t.live_bytes, 1);
	assert_int_equal(k.t.sites[0].temporary, 1);
	assert_int_equal(k.t.events, 5);
	kept_fini(&k);
	free(batch);
}

/* Numbers that can be followed by eye: thread 0 makes one block a millisecond, thread 1 frees them
 * in order, each 1 ms later after its birth than the one before. */
TEST(test_a_queue_that_falls_behind)
{
	enum { N = 100 };
	struct trace_event e[2 * N];
	struct history h = {.sites = 1, .threads = 2};
	struct kept k;
	size_t n = 0;
	kept_init(&k, &h);
	for (unsigned t = 1; t <= 2 * N; t++) { /* block i: born at i ms, freed at 2i ms */
		if (t % 2 == 0)
			e[n++] = (struct trace_event){.time_ns = t * 1000000ull,
						      .size = 10,
						      .lifetime_ns = t / 2 * 1000000ull,
						      .thread = 1,
						      .op = TRACE_FREE};
		if (t <= N)
			e[n++] = (struct trace_event){
				.time_ns = t * 1000000ull, .size = 10, .op = TRACE_ALLOC};
	}
	assert_int_equal(n, 2 * N);
	for (size_t i = 0; i < n; i++)
		tally_apply(&k.t, &e[i], 1);
	assert_int_equal(k.b.handover_count, 1);
	const struct behaviour_waits *q = &k.b.handovers->waits;
	assert_int_equal(q->frees, N);
	assert_int_equal(q->in_order, N);
	/* Before the free at 100 ms: blocks 50 to 99 are there; 100 is born just after it. At 102 ms
	 * 51 to 100 are: not more. */
	assert_int_equal(q->backlog_blocks, 50);
	assert_int_equal(q->backlog_time_ns, 100 * 1000000ull);
	assert_int_equal(q->first_birth_ns, 1000000);
	/* wait = birth: slope 1 */
	double xx = N * q->birth_birth - q->birth * q->birth;
	double xy = N * q->birth_wait - q->birth * q->wait;
	assert_near(xy / xx, 1, 1);
	assert_int_equal(k.b.pair_count, 1);
	assert_int_equal(k.b.pairs[0].frees, N);
	kept_fini(&k);
}

/* The same queue within one thread: block i is born at i ms and freed at 2i ms. */
TEST(test_a_queue_within_one_thread)
{
	enum { N = 6000 };
	struct history h = {.sites = 1, .threads = 1};
	struct kept k;
	kept_init(&k, &h);
	for (uint64_t t = 1; t <= 2ull * N; t++) {
		struct trace_event born = {.time_ns = t * 1000000, .size = 10, .op = TRACE_ALLOC};
		struct trace_event freed = {.time_ns = t * 1000000,
					    .size = 10,
					    .lifetime_ns = t / 2 * 1000000,
					    .op = TRACE_FREE};
		if (t <= N)
			tally_apply(&k.t, &born, 1);
		if (t % 2 == 0)
			tally_apply(&k.t, &freed, 1);
	}
	assert_int_equal(k.b.handover_count, 0);
	assert_int_equal(k.b.stay_count, 1);
	const struct behaviour_waits *q = &k.b.stays->waits;
	/* All of the first 1024, then every sixteenth for sixteen: 4976 more are 311 of them. */
	assert_int_equal(q->frees, N);
	assert_int_equal(q->in_order, N);
	assert_int_equal(q->bytes, 10 * N);
	/* At N ms blocks 3000 to 6000 are there; one free in 16 looks. */
	assert_in_range(q->backlog_blocks, N / 2 + 1 - 16, N / 2 + 1);
	double n = N, xx = n * q->birth_birth - q->birth * q->birth;
	assert_near((n * q->birth_wait - q->birth * q->wait) / xx, 1, 1);
	/* A temporary does not wait. */
	struct trace_event brief[2] = {
		{.time_ns = 3ull * N * 1000000, .size = 10, .op = TRACE_ALLOC},
		{.time_ns = 3ull * N * 1000000,
		 .size = 10,
		 .op = TRACE_FREE,
		 .flags = TRACE_TEMPORARY}};
	tally_apply(&k.t, brief, 2);
	assert_int_equal(q->frees, N);
	kept_fini(&k);
}

/* ---- in the file */

static struct byte_cursor cursor_over(uint8_t **copy, const uint8_t *data, size_t n)
{
	*copy = calloc(1, n + PREFIX_SCRATCH); /* no longer: ASan sees what goes beyond */
	memcpy(*copy, data, n);
	return (struct byte_cursor){.at = *copy, .end = *copy + n};
}

static const char *reload(struct behaviour *b, const struct byte_buffer *from, size_t n,
			  const struct history *h)
{
	uint8_t *copy;
	struct byte_cursor c = cursor_over(&copy, from->data, n);
	behaviour_init(b);
	const char *expected = behaviour_get(&c, b, h->sites, h->threads);
	free(copy);
	return expected;
}

static void reload_tally(struct tally *t, struct tally *from, const struct history *h)
{
	struct byte_buffer out = {0};
	uint8_t *copy;
	uint32_t left;
	tally_update_peaks(from);
	tally_block_put(&out, from, 0);
	struct byte_cursor c = cursor_over(&copy, out.data, out.len);
	tally_init(t);
	assert_null(tally_block_get(&c, t, h->sites, h->threads, &left));
	assert_int_equal(left, 0);
	free(copy);
	buffer_fini(&out);
}

static void watch_rows(struct kept *k)
{
	for (uint32_t i = 0; i < k->b.row_count; i++)
		k->t.sites[k->b.rows[i]->site].watched = 1;
	k->t.behaviour = &k->b;
}

static const struct behaviour_row *row_of(const struct behaviour *b, uint32_t site)
{
	for (uint32_t i = 0; i < b->row_count; i++)
		if (b->rows[i]->site == site)
			return b->rows[i];
	return NULL;
}

static void same_rows(const struct kept *whole, const struct kept *again)
{
	uint64_t notable = whole->t.peak_bytes / BEHAVIOUR_NOTABLE;
	for (uint32_t s = 0; s < whole->t.site_count; s++) {
		const struct behaviour_row *x = row_of(&whole->b, s), *y = row_of(&again->b, s);
		if (!whole->t.sites[s].own_peak_bytes || whole->t.sites[s].own_peak_bytes < notable)
			continue; /* not stored in the end */
		assert_non_null(x);
		assert_non_null(y);
		for (uint32_t i = x->first > y->first ? x->first : y->first;
		     i < whole->b.slot_count; i++) {
			assert_int_equal(x->bytes[i], y->bytes[i]);
			assert_int_equal(x->blocks[i], y->blocks[i]);
		}
	}
}

/* Everything but the rows of history is the same to the last bit. */
static void same_entries(const struct behaviour *x, const struct behaviour *y)
{
	assert_int_equal(x->handover_count, y->handover_count);
	assert_int_equal(x->pair_count, y->pair_count);
	assert_int_equal(x->release_count, y->release_count);
	assert_int_equal(x->growth_count, y->growth_count);
	for (uint32_t i = 0; i < x->handover_count; i++) {
		struct behaviour_handover a = x->handovers[i], b = y->handovers[i];
		a.last_pair = b.last_pair = 0; /* a memory of the running one */
		assert_memory_equal(&a, &b, sizeof a);
	}
	for (uint32_t i = 0; i < x->pair_count; i++) {
		assert_int_equal(x->pairs[i].site, y->pairs[i].site);
		assert_int_equal(x->pairs[i].from, y->pairs[i].from);
		assert_int_equal(x->pairs[i].to, y->pairs[i].to);
		assert_int_equal(x->pairs[i].frees, y->pairs[i].frees);
	}
	for (uint32_t i = 0; i < x->release_count; i++) {
		assert_int_equal(x->releases[i].site, y->releases[i].site);
		assert_int_equal(x->releases[i].free_site, y->releases[i].free_site);
		assert_int_equal(x->releases[i].samples, y->releases[i].samples);
	}
	for (uint32_t i = 0; i < x->growth_count; i++) {
		assert_int_equal(x->growths[i].site, y->growths[i].site);
		assert_memory_equal(&x->growths[i].steps, &y->growths[i].steps,
				    sizeof x->growths[i] -
					    offsetof(struct behaviour_growth, steps));
	}
	assert_int_equal(x->slot_ns, y->slot_ns);
	assert_int_equal(x->slot_count, y->slot_count);
	assert_memory_equal(x->bytes, y->bytes, x->slot_count * sizeof *x->bytes);
	assert_memory_equal(x->blocks, y->blocks, x->slot_count * sizeof *x->blocks);
}

/* The file leaves rows out, and only sites with a row are followed: so these are the same only in what was
 * just read. */
static void same_stays(const struct behaviour *x, const struct behaviour *y)
{
	assert_int_equal(x->stay_count, y->stay_count);
	for (uint32_t i = 0; i < x->stay_count; i++)
		assert_memory_equal(&x->stays[i], &y->stays[i], sizeof x->stays[i]);
}

static void stop_and_go_on(enum model_shape shape, unsigned seed, uint32_t sites, uint32_t pace)
{
	struct history *h = history_new(shape, seed, STEPS, sites, pace);
	struct kept whole;
	kept_init(&whole, h);
	kept_apply(&whole, h, 0, h->count);
	struct kept k;
	kept_init(&k, h);
	size_t done = 0;
	while (done < h->count) {
		size_t to = done + 1 + model_draw(h, STEPS / 4);
		to = to < h->count ? to : h->count;
		kept_apply(&k, h, done, to);
		done = to;
		/* Stored and read: the same again, and stored again the same bytes. */
		struct byte_buffer out = {0}, twice = {0};
		behaviour_put(&out, &k.b, &k.t);
		struct kept next;
		reload_tally(&next.t, &k.t, h);
		assert_null(reload(&next.b, &out, out.len, h));
		same_entries(&k.b, &next.b);
		same_stays(&k.b, &next.b);
		same_rows(&k, &next);
		behaviour_put(&twice, &next.b, &next.t);
		assert_int_equal(twice.len, out.len);
		assert_memory_equal(twice.data, out.data, out.len);
		buffer_fini(&out);
		buffer_fini(&twice);
		kept_fini(&k);
		k = next;
		watch_rows(&k);
	}
	same_entries(&whole.b, &k.b);
	same_rows(&whole, &k);
	kept_fini(&whole);
	kept_fini(&k);
	history_free(h);
}

TEST(test_going_on_after_a_reload)
{
	for (int shape = 0; shape < MODEL_MANY_SITES; shape++)
		for (unsigned seed = 11; seed <= 12; seed++)
			stop_and_go_on((enum model_shape)shape, seed, SITES, 30000);
	stop_and_go_on(MODEL_MANY_SITES, 13, 200, 3000);
}

/* What was read names only what is defined. */
static void check_ids(const struct behaviour *b, const struct history *h)
{
	for (uint32_t i = 0; i < b->handover_count; i++)
		assert_true(b->handovers[i].site < h->sites);
	for (uint32_t i = 0; i < b->pair_count; i++)
		assert_true(b->pairs[i].site < h->sites && b->pairs[i].from < h->threads &&
			    b->pairs[i].to < h->threads);
	for (uint32_t i = 0; i < b->stay_count; i++)
		assert_true(b->stays[i].site < h->sites && b->stays[i].thread < h->threads);
	for (uint32_t i = 0; i < b->release_count; i++)
		assert_true(b->releases[i].site < h->sites && b->releases[i].free_site < h->sites);
	for (uint32_t i = 0; i < b->growth_count; i++)
		assert_true(b->growths[i].site < h->sites);
	for (uint32_t i = 0; i < b->row_count; i++)
		assert_true(b->rows[i]->site < h->sites && b->rows[i]->first <= b->slot_count);
}

/* And it can be used: continued, and stored again. */
static void use(struct behaviour *b, const struct history *h)
{
	struct kept k;
	struct byte_buffer out = {0};
	k.b = *b;
	tally_init(&k.t);
	assert_int_equal(tally_reserve(&k.t, h->sites, h->threads), 0);
	watch_rows(&k);
	kept_apply(&k, h, 0, h->count);
	behaviour_put(&out, &k.b, &k.t);
	assert_false(out.failed);
	buffer_fini(&out);
	*b = k.b;
	tally_fini(&k.t);
}

TEST(test_hostile_payloads)
{
	struct history *h = history_new(MODEL_MANY_THREADS, 3, 80, 8, 30000);
	struct kept k;
	struct byte_buffer good = {0};
	struct behaviour b;
	unsigned refused = 0, taken = 0, whole = 0;
	kept_init(&k, h);
	kept_apply(&k, h, 0, h->count);
	behaviour_put(&good, &k.b, &k.t);
	assert_true(k.b.handover_count && k.b.pair_count && k.b.release_count && k.b.row_count &&
		    k.b.stay_count);
	assert_true(good.len > 200);
	for (size_t n = 0; n < good.len;
	     n++) { /* cut: taken for whole only where version 3 ended */
		whole += !reload(&b, &good, n, h);
		behaviour_fini(&b);
	}
	assert_int_equal(whole, 1);
	for (size_t i = 0; i < good.len; i++) {
		uint8_t was = good.data[i];
		for (unsigned x = 1; x < 256; x++) {
			good.data[i] = was ^ (uint8_t)x;
			if (reload(&b, &good, good.len, h))
				refused++;
			else {
				taken++;
				check_ids(&b, h);
				if (x % 16 == 1)
					use(&b, h);
			}
			behaviour_fini(&b);
		}
		good.data[i] = was;
	}
	assert_true(refused > 1000 && taken > 1000); /* both ways were gone */
	/* Ids beyond what is defined */
	struct history less = *h;
	less.sites = k.b.handovers[0].site;
	assert_non_null(reload(&b, &good, good.len, &less));
	behaviour_fini(&b);
	less = *h;
	less.threads = 1;
	assert_non_null(reload(&b, &good, good.len, &less));
	behaviour_fini(&b);
	kept_fini(&k);
	buffer_fini(&good);
	history_free(h);
}

/* Numbers of entries that would take much memory, from a few bytes. */
TEST(test_hostile_counts)
{
	struct history h = {.sites = 10, .threads = 2};
	struct behaviour b;
	for (unsigned list = 0; list < 7; list++) {
		struct byte_buffer out = {0};
		/* four counts, slot_ns, slot_count, rows: one of them is a lie */
		for (unsigned i = 0; i < 7; i++)
			buffer_put(&out, i == list ? 131072 : i == 4 ? 65536 : 0);
		const char *expected = reload(&b, &out, out.len, &h);
		if (list == 4) /* a slot of another length is none */
			assert_null(expected);
		else
			assert_non_null(expected);
		behaviour_fini(&b);
		buffer_fini(&out);
	}
	/* No slot at all would be a division by zero later. */
	struct byte_buffer out = {0};
	for (unsigned i = 0; i < 7; i++)
		buffer_put(&out, 0);
	assert_non_null(reload(&b, &out, out.len, &h));
	behaviour_fini(&b);
	buffer_fini(&out);
}

UNIT_TESTS(NULL, NULL)
