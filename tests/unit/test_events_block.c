/* Events blocks from batches: whether an event stands in brief or in full makes no difference to the
 * bytes, and what was put in comes out. Heaps are simulated (trace_fixture.h), or loop as programs do,
 * with more threads than fit a byte. Files around the blocks are in test_trace.c. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/events_block.h"
#include "trace_fixture.h"

enum { TICK_SHIFT = 11 };

static struct events_encoder brief_encoder, full_encoder;
static struct events_decoder decoder;

static bool fits_brief(const struct trace_event *e)
{
	return (e->op == TRACE_ALLOC || e->op == TRACE_FREE) && !(e->flags & ~TRACE_TEMPORARY) &&
	       !(e->flags && e->birth_thread != e->thread) && e->size < 1u << BLOCK_SIZE_BITS &&
	       e->slack < (1u << BLOCK_SLACK_BITS) - 1;
}

static void add(struct trace_batch *batch, const struct trace_event *e, bool brief)
{
	struct trace_brief *b = &batch->brief[batch->count++];
	*b = (struct trace_brief){.time_ns = e->time_ns, .thread = e->thread};
	if (!brief) {
		b->block = batch->full_count;
		batch->full[batch->full_count++] = *e;
		return;
	}
	uint32_t kind = e->op == TRACE_ALLOC           ? TRACE_BRIEF_ALLOC
			: e->birth_thread != e->thread ? TRACE_BRIEF_FREE_CROSS
			: e->flags & TRACE_TEMPORARY   ? TRACE_BRIEF_FREE_TEMP
						       : TRACE_BRIEF_FREE;
	b->lifetime_ns = e->lifetime_ns;
	b->block = block_word(e->site, e->size, e->slack);
	b->birth_kind = e->birth_thread << 8 | kind;
}

/* What may be told as a pair sometimes is. */
static void mark_pairs(struct trace_batch *batch, struct heap *random)
{
	for (uint32_t i = 0; i + 1 < batch->count; i++) {
		struct trace_brief *b = &batch->brief[i];
		if (trace_brief_kind(b) == TRACE_BRIEF_ALLOC &&
		    trace_brief_kind(b + 1) == TRACE_BRIEF_FREE_TEMP && b[1].block == b->block &&
		    b[1].thread == b->thread && b[1].time_ns - b[1].lifetime_ns == b->time_ns &&
		    heap_random(random, 4))
			b->birth_kind |= TRACE_BRIEF_PAIR;
	}
}

/* Batches of odd lengths; one in `full_one_in` of what could be brief is in full. */
static void encode_in_batches(const struct trace_event *events, size_t count, struct heap *random,
			      uint32_t full_one_in)
{
	static struct trace_batch batch;
	for (size_t i = 0; i < count;) {
		uint32_t n = 1 + heap_random(random, TRACE_BATCH);
		batch.count = batch.full_count = 0;
		for (; batch.count < n && i < count; i++)
			add(&batch, &events[i],
			    fits_brief(&events[i]) && heap_random(random, full_one_in));
		mark_pairs(&batch, random);
		assert_int_equal(events_encode_batch(&brief_encoder, &batch, 0), batch.count);
	}
}

static void check_block(const uint8_t *payload, size_t len, const struct trace_event *events,
			size_t count, uint32_t sites, uint32_t threads)
{
	static struct trace_event batch[EVENTS_BATCH];
	size_t n, at = 0;
	assert_null(events_decode_begin(&decoder, payload, len, sites, threads));
	for (;;) {
		const char *wrong = events_decode(&decoder, batch, &n);
		if (wrong)
			fail_msg("%s", wrong);
		if (!n)
			break;
		for (size_t i = 0; i < n; i++, at++) {
			assert_true(at < count);
			struct trace_event e = rounded(events[at], 1 << TICK_SHIFT);
			assert_true(
				batch[i].time_ns == e.time_ns && batch[i].size == e.size &&
				batch[i].lifetime_ns == e.lifetime_ns &&
				batch[i].old_size == e.old_size && batch[i].site == e.site &&
				batch[i].old_site == e.old_site && batch[i].thread == e.thread &&
				batch[i].birth_thread == e.birth_thread &&
				batch[i].slack == e.slack && batch[i].old_slack == e.old_slack &&
				batch[i].op == e.op && batch[i].flags == e.flags);
		}
	}
	assert_int_equal(at, count);
}

/* Ends the encoder's block; its payload, with room behind it for the decoder. */
static size_t payload_of(struct events_encoder *e, const struct trace_event *events, size_t count,
			 uint8_t **bytes)
{
	struct events_payload p;
	size_t len = 0;
	events_encoder_end(e, &p);
	assert_int_equal(p.first_tick, events[0].time_ns >> TICK_SHIFT);
	assert_int_equal(p.last_tick, events[count - 1].time_ns >> TICK_SHIFT);
	for (int i = 0; i <= COLUMN_COUNT; i++)
		len += p.pieces[i].len;
	uint8_t *to = *bytes = calloc(1, len + EVENTS_READ_SLACK);
	for (int i = 0; i <= COLUMN_COUNT; i++) {
		memcpy(to, p.pieces[i].data, p.pieces[i].len);
		to += p.pieces[i].len;
	}
	events_encoder_begin(e);
	return len;
}

static void check(const struct trace_event *events, size_t count, uint32_t sites, uint32_t threads,
		  struct heap *random, uint32_t full_one_in)
{
	assert_int_equal(events_encoder_reserve(&brief_encoder, sites, threads), 0);
	assert_int_equal(events_encoder_reserve(&full_encoder, sites, threads), 0);
	encode_in_batches(events, count, random, full_one_in);
	assert_int_equal(events_encode(&full_encoder, events, count), count);
	uint8_t *a, *b;
	size_t len = payload_of(&full_encoder, events, count, &a);
	assert_int_equal(payload_of(&brief_encoder, events, count, &b), len);
	assert_memory_equal(a, b, len);
	check_block(b, len, events, count, sites, threads);
	free(a);
	free(b);
}

TEST(test_simulated)
{
	static struct heap random;
	for (uint32_t seed = 1; seed <= 40; seed++) {
		uint32_t sites = 1 + heap_random(&random, seed * 20);
		uint32_t threads = 1 + heap_random(&random, seed % 2 ? 2 : 60);
		size_t count = 1 + heap_random(&random, seed * 1000);
		struct trace_event *events = heap_events(seed, sites, threads, count);
		check(events, count, sites, threads, &random, 2 + seed);
		free(events);
	}
}

/* Decodes what may be anything: ids stay below their limits, and it ends. */
static size_t decode_damaged(const uint8_t *payload, size_t len, uint32_t sites, uint32_t threads)
{
	static struct trace_event batch[EVENTS_BATCH];
	size_t n, total = 0;
	if (events_decode_begin(&decoder, payload, len, sites, threads))
		return 0;
	while (!events_decode(&decoder, batch, &n) && n) {
		total += n;
		for (size_t i = 0; i < n; i++)
			assert_true(batch[i].site < sites && batch[i].old_site < sites &&
				    batch[i].thread < threads && batch[i].birth_thread < threads &&
				    batch[i].lifetime_ns <= batch[i].time_ns);
	}
	return total;
}

TEST(test_damaged)
{
	static struct heap random;
	uint32_t sites = 40, threads = 5;
	size_t count = 1500, decoded = 0;
	struct trace_event *events = heap_events(7, sites, threads, count);
	assert_int_equal(events_encoder_reserve(&full_encoder, sites, threads), 0);
	assert_int_equal(events_encode(&full_encoder, events, count), count);
	uint8_t *bytes;
	size_t len = payload_of(&full_encoder, events, count, &bytes);
	uint8_t *copy = malloc(len + EVENTS_READ_SLACK);
	for (int round = 0; round < 20000; round++) {
		memcpy(copy, bytes, len + EVENTS_READ_SLACK);
		for (uint32_t i = 0; i <= heap_random(&random, 3); i++)
			copy[heap_random(&random, (uint32_t)len)] ^= (uint8_t)(1u << heap_random(
										       &random, 8));
		decoded += decode_damaged(copy, len, sites, threads);
	}
	assert_true(decoded > 100 * count); /* much of it is still readable */
	/* Cut anywhere it is not a block. */
	for (size_t cut = 0; cut < len; cut += 1 + cut / 50) {
		memset(copy, 0, len + EVENTS_READ_SLACK);
		memcpy(copy, bytes, cut);
		assert_non_null(events_decode_begin(&decoder, copy, cut, sites, threads));
	}
	free(copy);
	free(bytes);
	free(events);
}

enum { LOOP_THREADS = 600, LOOP_SITES = 50 };

/* Threads that repeat themselves, in stretches and by turns: what prediction is made for. */
static void loop_events(struct trace_event *events, size_t count, struct heap *random)
{
	uint64_t time_ns = 0;
	uint32_t thread = 0, other = 0, turns = 0, slack_off = 0;
	for (size_t i = 0; i < count; i++) {
		struct trace_event *e = &events[i];
		*e = (struct trace_event){0};
		time_ns += heap_random(random, 2000);
		if (heap_random(random, 200) == 0) {
			thread = heap_random(random, LOOP_THREADS);
			other = heap_random(random, LOOP_THREADS);
			turns = heap_random(random, 3);
			slack_off = heap_random(random, 10) ? 0 : heap_random(random, 5000);
		}
		e->time_ns = time_ns;
		e->thread = turns && heap_random(random, turns + 1) ? other : thread;
		e->birth_thread = e->thread;
		e->site = (uint32_t)(i / 2 * 7 % LOOP_SITES);
		e->size = e->site == 3 ? heap_random(random, 3000) : 20 * e->site;
		e->slack = slack_guess(e->size) + slack_off;
		e->op = i % 2 ? TRACE_FREE : TRACE_ALLOC;
		if (e->op == TRACE_ALLOC)
			continue;
		e->lifetime_ns = heap_random(random, 4) ? heap_random(random, 3000)
							: heap_random(random, 1u << 30);
		if (e->lifetime_ns > time_ns)
			e->lifetime_ns = time_ns;
		if (e->site % 5 == 0)
			e->birth_thread = other;
		else if (e->site % 3 == 0)
			e->flags = TRACE_TEMPORARY;
		if (e->flags && e[-1].thread == e->thread && heap_random(random, 4)) { /* a pair */
			e->size = e[-1].size;
			e->slack = e[-1].slack;
			e->lifetime_ns = time_ns - e[-1].time_ns;
		}
	}
}

TEST(test_loops)
{
	static struct heap random;
	static struct trace_event events[60000];
	size_t count = sizeof events / sizeof events[0];
	for (int round = 0; round < 5; round++) {
		loop_events(events, count, &random);
		check(events, count, LOOP_SITES, LOOP_THREADS, &random, round ? 50 : UINT32_MAX);
	}
}

int main(void)
{
	events_decoder_init(&decoder, TICK_SHIFT);
	if (events_encoder_init(&brief_encoder, TICK_SHIFT) ||
	    events_encoder_init(&full_encoder, TICK_SHIFT))
		return 1;
	int failed = unit_tests_run(NULL, NULL);
	events_encoder_fini(&brief_encoder);
	events_encoder_fini(&full_encoder);
	events_decoder_fini(&decoder);
	return failed;
}
