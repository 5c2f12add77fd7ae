/* Parts of a recording that borrow the stacks of the whole, and windows that are differences between
 * rungs of a ladder: the same numbers as a part that is loaded by itself (which test_windows.c holds
 * to a brute-force replay). */
#include "behaviour_recording.h"
#include "trace/trace_ladder.h"

static struct profile *load(struct trace_reader *r, const struct profile_selection *sel)
{
	struct heft_error err;
	struct profile *p;
	if (profile_from_trace(&p, r, sel, &err) < 0)
		fail_msg("%s", err.message);
	return p;
}

static const struct profile_site *same_place(const struct profile *p, uint32_t place)
{
	for (uint32_t i = 0; i < p->site_count; i++)
		if (place_of(p, p->sites[i].node) == place)
			return &p->sites[i];
	return NULL;
}

enum { LARGEST_TICK = 2048 };

static void check_site(const struct profile *part, const struct profile_site *s,
		       const struct profile *alone, const struct profile_site *t, bool peaks,
		       bool instant)
{
	assert_int_equal(s->allocations, t->allocations);
	assert_int_equal(s->reallocations, t->reallocations);
	assert_int_equal(s->frees, t->frees);
	assert_int_equal(s->allocated_bytes, t->allocated_bytes);
	assert_int_equal(s->reallocated_bytes, t->reallocated_bytes);
	assert_int_equal(s->live_bytes, t->live_bytes);
	assert_int_equal(s->live_blocks, t->live_blocks);
	assert_int_equal(s->live_slack_bytes, t->live_slack_bytes);
	assert_int_equal(s->start_bytes, t->start_bytes);
	assert_int_equal(s->start_blocks, t->start_blocks);
	assert_int_equal(s->temporary, t->temporary);
	assert_int_equal(s->cross_thread_frees, t->cross_thread_frees);
	/* Lifetimes in events are rounded to less than a tick, those of the recorder's own checkpoints are
	 * not: an instant may begin from either. */
	uint64_t mean = s->lifetime.mean_ns, other = t->lifetime.mean_ns;
	uint64_t apart = mean > other ? mean - other : other - mean;
	assert_true(apart <= (instant ? LARGEST_TICK : 0));
	const uint32_t *lives = part->behaviour.lifetimes[s - part->sites];
	const uint32_t *others = alone->behaviour.lifetimes[t - alone->sites];
	uint64_t all = 0, all_others = 0;
	for (int i = 0; i < PROFILE_LIFE_BUCKETS; i++) {
		all += lives[i];
		all_others += others[i];
		assert_true(instant || lives[i] == others[i]);
	}
	assert_int_equal(all, all_others);
	if (!peaks)
		return;
	assert_int_equal(s->peak_bytes, t->peak_bytes);
	assert_int_equal(s->own_peak_bytes, t->own_peak_bytes);
}

/* Sites that a difference has and a replay has not would be empty ones. */
static bool is_empty(const struct profile_site *s)
{
	return !s->allocations && !s->reallocations && !s->frees && !s->live_blocks;
}

static void check_part(struct trace_reader *r, const struct profile *whole,
		       struct trace_ladder *ladder, const struct profile_selection *selection)
{
	struct profile_selection sel = *selection;
	struct profile *alone = load(r, &sel);
	sel.part_of = whole;
	sel.ladder = ladder;
	struct profile *part = load(r, &sel);
	bool peaks = part->run.has & PROFILE_HAS_PEAK;
	assert_true(peaks || (ladder && sel.from_ns < sel.to_ns));
	assert_ptr_equal(part->stacks.frames, whole->stacks.frames);
	for (uint32_t place = 0; place < PLACES; place++) {
		const struct profile_site *s = same_place(part, place),
					  *t = same_place(alone, place);
		if (!s || !t) {
			assert_true((!s || is_empty(s)) && (!t || is_empty(t)));
			continue;
		}
		check_site(part, s, alone, t, peaks, sel.has_window && sel.from_ns == sel.to_ns);
		assert_int_equal(s->id, same_place(whole, place)->id);
	}
	assert_int_equal(part->totals.allocations, alone->totals.allocations);
	assert_int_equal(part->totals.live_bytes, alone->totals.live_bytes);
	assert_int_equal(part->totals.start_bytes, alone->totals.start_bytes);
	assert_int_equal(part->thread_count, alone->thread_count);
	for (uint32_t i = 0; i < part->thread_count; i++) {
		assert_int_equal(part->threads[i].allocations, alone->threads[i].allocations);
		assert_int_equal(part->threads[i].frees, alone->threads[i].frees);
	}
	profile_free(alone);
	profile_free(part);
}

static void check_parts(const struct recording *r, struct trace_reader *reader,
			const struct profile *whole, struct trace_ladder *ladder)
{
	struct history *h = r->h;
	uint64_t last = h->steps[h->count - 1].e.time_ns;
	for (int i = 0; i < 30; i++) {
		struct profile_selection sel = {.has_window = true};
		sel.from_ns = model_draw(h, (uint32_t)last);
		sel.to_ns = sel.from_ns + model_draw(h, (uint32_t)(last - sel.from_ns) + 1);
		if (i % 3 == 0) /* an instant, of an event */
			sel.from_ns = sel.to_ns =
				stored(r, model_draw(h, (uint32_t)h->count)).time_ns;
		if (i % 5 == 0)
			sel.from_ns = 0;
		if (i % 7 == 0)
			sel.to_ns = r->duration_ns;
		char name[16];
		snprintf(name, sizeof name, "t%u", model_draw(h, h->threads));
		if (i % 6 == 1)
			sel.thread = name;
		check_part(reader, whole, ladder, &sel);
	}
	check_part(reader, whole, ladder, &(struct profile_selection){.has_pid = true, .pid = 101});
	check_part(reader, whole, ladder, &(struct profile_selection){0});
}

TEST(test_parts)
{
	static const uint64_t ticks[] = {1, LARGEST_TICK};
	static const struct profile_selection keeping = {.keep = true};
	for (unsigned k = 0; k < 2; k++) {
		struct recording r;
		struct trace_reader *reader, *own;
		struct heft_error err;
		record(&r, k ? MODEL_CHAINS : MODEL_MANY_THREADS, 11 + k, 3000, ticks[k]);
		assert_int_equal(trace_reader_open(&reader, path, &err), 0);
		assert_int_equal(trace_reader_open(&own, path, &err), 0);
		struct profile *whole = load(reader, &keeping);
		check_parts(&r, reader, whole, NULL);
		for (uint64_t apart = 1; apart < 3000; apart *= 7) {
			const struct trace_contents *c = trace_reader_contents(own);
			struct trace_ladder *ladder = trace_ladder_new(c, 10 << 20, apart);
			assert_non_null(ladder);
			assert_int_equal(trace_ladder_lay(ladder, own, NULL, &err), 0);
			check_parts(&r, reader, whole, ladder);
			trace_ladder_free(ladder);
		}
		profile_free(whole);
		trace_reader_close(own);
		trace_reader_close(reader);
		history_free(r.h);
	}
}

/* A part of another recording is refused, not read wildly. */
TEST(test_foreign_part)
{
	struct recording r;
	struct trace_reader *reader;
	struct heft_error err;
	struct profile *p, *stranger = profile_new();
	record(&r, MODEL_CHAINS, 5, 300, 1);
	assert_int_equal(trace_reader_open(&reader, path, &err), 0);
	assert_int_equal(profile_from_trace(&p, reader,
					    &(struct profile_selection){.part_of = stranger}, &err),
			 HEFT_EUSAGE);
	profile_free(stranger);
	trace_reader_close(reader);
	history_free(r.h);
}

/* No rung where none helps; a ladder that was stopped at once still answers. */
TEST(test_ladder_bounds)
{
	struct recording r;
	struct trace_reader *reader, *own;
	struct heft_error err;
	struct tally a, b;
	atomic_bool stop = true;
	record(&r, MODEL_CHAINS, 6, 500, 1);
	assert_int_equal(trace_reader_open(&reader, path, &err), 0);
	assert_int_equal(trace_reader_open(&own, path, &err), 0);
	const struct trace_contents *c = trace_reader_contents(own);
	assert_null(trace_ladder_new(c, 10 << 20, c->events + 1));
	assert_null(trace_ladder_new(c, 100, 1));
	struct trace_ladder *ladder = trace_ladder_new(c, 10 << 20, 10);
	assert_int_equal(trace_ladder_lay(ladder, own, &stop, &err), 0);
	tally_init(&a);
	tally_init(&b);
	uint64_t middle = r.h->steps[r.h->count / 2].e.time_ns;
	assert_int_equal(trace_ladder_before(ladder, reader, middle, &a, &err), 0);
	assert_int_equal(trace_reader_tally_before(reader, middle, &b, &err), 0);
	assert_int_equal(a.events, b.events);
	assert_int_equal(a.live_bytes, b.live_bytes);
	tally_fini(&a);
	tally_fini(&b);
	trace_ladder_free(ladder);
	trace_reader_close(own);
	trace_reader_close(reader);
	history_free(r.h);
}

UNIT_TESTS(make_path, remove_path)
