/* Behaviour in a profile: of stacks that read the same it is one, which is what a
 * brute-force account of their steps together says, and what filters leave of it
 * still belongs to its sites. */
#include "behaviour_recording.h"

/* The line through all waits of a place, from the steps themselves. Births before the first one
 * freed of their stack count as at its time, as the recorder takes them. */
static void check_line(const struct history *h, const struct account *a, uint32_t place,
		       const struct profile_handover *p)
{
	long double n = 0, x = 0, y = 0, xx = 0, xy = 0, yy = 0;
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < h->count; i++) {
			const struct trace_event *e = &h->steps[i].e;
			if (e->op != TRACE_FREE || e->thread == e->birth_thread ||
			    e->site % PLACES != place)
				continue;
			uint64_t birth = h->blocks[h->steps[i].block].birth_ns;
			long double wait = e->time_ns - birth;
			if (birth < a->handovers[e->site].first_birth_ns)
				birth = a->handovers[e->site].first_birth_ns;
			if (pass == 0) {
				n++, x += birth, y += wait;
				continue;
			}
			xx += (birth - x / n) * (birth - x / n);
			xy += (birth - x / n) * (wait - y / n);
			yy += (wait - y / n) * (wait - y / n);
		}
	}
	near(p->wait_mean_ns, y / n);
	if (n > 5) {
		near(p->wait_slope, xx > 0 ? xy / xx : 0);
		near(p->wait_fit, xx > 0 && yy > 0 ? xy * xy / (xx * yy) : 0);
	}
}

static void check_handover(const struct profile *p, const struct history *h,
			   const struct account *a, uint32_t site, uint32_t place)
{
	struct account_handover sum = {.first_birth_ns = UINT64_MAX, .first_free_ns = UINT64_MAX};
	uint64_t pairs[MODEL_THREADS][MODEL_THREADS] = {0};
	uint32_t different = 0;
	for (uint32_t s = place; s < SITES; s += PLACES) {
		const struct account_handover *x = &a->handovers[s];
		if (!x->frees)
			continue;
		sum.frees += x->frees, sum.bytes += x->bytes, sum.in_order += x->in_order;
		sum.backlog_blocks += x->backlog_blocks, sum.backlog_bytes += x->backlog_bytes;
#define LESS(f) sum.f = x->f < sum.f ? x->f : sum.f
#define MORE(f) sum.f = x->f > sum.f ? x->f : sum.f
		LESS(first_birth_ns), LESS(first_free_ns);
		MORE(last_birth_ns), MORE(last_free_ns), MORE(backlog_time_ns);
		for (uint32_t f = 0; f < h->threads; f++)
			for (uint32_t t = 0; t < h->threads; t++)
				pairs[f][t] += a->pairs[s][f][t];
	}
	for (uint32_t f = 0; f < h->threads; f++)
		for (uint32_t t = 0; t < h->threads; t++)
			different += pairs[f][t] != 0;
	if (!sum.frees) {
		assert_int_equal(p->sites[site].handover, PROFILE_NONE);
		return;
	}
	assert_true(p->sites[site].handover < p->behaviour.handover_count);
	const struct profile_handover *x = &p->behaviour.handovers[p->sites[site].handover];
	assert_int_equal(x->site, site);
	assert_int_equal(x->frees, sum.frees);
	assert_int_equal(x->frees, p->sites[site].cross_thread_frees);
	assert_int_equal(x->bytes, sum.bytes);
	assert_int_equal(x->in_order, sum.in_order);
	assert_int_equal(x->backlog_blocks, sum.backlog_blocks);
	assert_int_equal(x->backlog_bytes, sum.backlog_bytes);
	assert_int_equal(x->backlog_time_ns, sum.backlog_time_ns);
	assert_int_equal(x->first_birth_ns, sum.first_birth_ns);
	assert_int_equal(x->last_birth_ns, sum.last_birth_ns);
	assert_int_equal(x->first_free_ns, sum.first_free_ns);
	assert_int_equal(x->last_free_ns, sum.last_free_ns);
	check_line(h, a, place, x);
	assert_int_equal(x->threads_count, different);
	for (uint32_t i = 0; i < different; i++) {
		const struct profile_handover_threads *t =
			&p->behaviour.handover_threads[x->threads_first + i];
		/* Threads of the profile are those of the recording, all and in order. */
		assert_int_equal(t->frees, pairs[t->from][t->to]);
		pairs[t->from][t->to] = 0; /* each once */
		assert_true(t->frees);
		if (i)
			assert_true(t[-1].frees >= t->frees); /* most frequent first */
	}
}

static void check_releases(const struct profile *p, const struct account *a, uint32_t site,
			   uint32_t place)
{
	uint64_t samples[FREE_PLACES] = {0};
	uint32_t different = 0;
	for (uint32_t s = place; s < SITES; s += PLACES)
		for (int f = 0; f < MODEL_FREE_SITES; f++)
			/* site sites - 1 - f frees at place ((sites - 1 - f) - SITES) % 2 */
			samples[(MODEL_FREE_SITES - 1 - f) % FREE_PLACES] += a->releases[s][f];
	for (int f = 0; f < FREE_PLACES; f++)
		different += samples[f] != 0;
	assert_int_equal(p->sites[site].release_count, different);
	for (uint32_t i = 0; i < different; i++) {
		const struct profile_release *x =
			&p->behaviour.releases[p->sites[site].release_first + i];
		uint32_t at = place_of(p, x->node) - 100;
		assert_int_equal(x->site, site);
		assert_int_equal(x->samples, samples[at]);
		samples[at] = 0;
		if (i)
			assert_true(x[-1].samples >= x->samples);
	}
}

static void check_growth(const struct profile *p, const struct account *a, uint32_t site,
			 uint32_t place)
{
	struct account_growth sum = {0};
	for (uint32_t s = place; s < SITES; s += PLACES) {
		const struct account_growth *x = &a->growths[s];
		sum.steps += x->steps, sum.moved += x->moved, sum.copied += x->copied;
		sum.blocks += x->blocks, sum.final += x->final;
		sum.largest = x->largest > sum.largest ? x->largest : sum.largest;
		sum.measured += x->measured, sum.measured_bytes += x->measured_bytes;
		sum.unused += x->unused;
	}
	if (!sum.steps && !sum.blocks) {
		assert_int_equal(p->sites[site].growth, PROFILE_NONE);
		return;
	}
	assert_true(p->sites[site].growth < p->behaviour.growth_count);
	const struct profile_growth *g = &p->behaviour.growths[p->sites[site].growth];
	assert_int_equal(g->site, site);
	assert_int_equal(g->steps, sum.steps);
	assert_int_equal(g->moved_steps, sum.moved);
	assert_int_equal(g->copied_bytes, sum.copied);
	assert_int_equal(g->blocks, sum.blocks);
	assert_int_equal(g->final_bytes, sum.final);
	assert_int_equal(g->largest_bytes, sum.largest);
	assert_int_equal(g->measured_blocks, sum.measured);
	assert_int_equal(g->measured_bytes, sum.measured_bytes);
	assert_int_equal(g->unused_bytes, sum.unused);
}

/* Live numbers of a place at the end of a slot. */
static void check_row(const struct profile *p, const struct history *h, uint32_t site,
		      uint32_t place)
{
	assert_true(p->sites[site].history < p->behaviour.history.row_count);
	const struct profile_history_row *row = &p->behaviour.history.rows[p->sites[site].history];
	assert_int_equal(row->site, site);
	uint64_t bytes = 0, blocks = 0;
	size_t at = 0;
	for (uint32_t i = 0; i < p->behaviour.history.slot_count; i++) {
		for (; at < h->count &&
		       h->steps[at].e.time_ns < (i + 1) * p->behaviour.history.slot_ns;
		     at++) {
			const struct trace_event *e = &h->steps[at].e;
			bool comes = e->op == TRACE_ALLOC || e->op == TRACE_REALLOC;
			if (e->op == TRACE_REALLOC && e->old_site % PLACES == place)
				bytes -= e->old_size, blocks--;
			if (e->site % PLACES == place) {
				bytes += comes ? e->size : -e->size;
				blocks += comes ? 1 : (uint64_t)-1;
			}
		}
		/* One of the three that was never large by then is not in it. */
		if (i >= row->first) {
			assert_true(row->bytes[i] <= bytes && row->blocks[i] <= blocks);
			assert_true(bytes - row->bytes[i] <=
				    (ALIKE - 1) * (p->totals.peak_bytes / BEHAVIOUR_NOTABLE));
		}
		if (i < row->first)
			assert_int_equal(row->bytes[i] + row->blocks[i], 0);
	}
}

static void check_behaviour(const struct profile *p, const struct history *h,
			    const struct account *a, uint32_t places)
{
	uint32_t seen = 0, handovers = 0, growths = 0, rows = 0, releases = 0;
	for (uint32_t i = 0; i < p->site_count; i++) {
		uint32_t place = place_of(p, p->sites[i].node);
		assert_true(place < PLACES);
		seen |= 1u << place;
		check_handover(p, h, a, i, place);
		check_releases(p, a, i, place);
		check_growth(p, a, i, place);
		check_row(p, h, i, place);
		handovers += p->sites[i].handover != PROFILE_NONE;
		growths += p->sites[i].growth != PROFILE_NONE;
		rows += p->sites[i].history != PROFILE_NONE;
		releases += p->sites[i].release_count;
	}
	assert_int_equal(seen, places);
	/* No entry belongs to nobody. */
	assert_int_equal(handovers, p->behaviour.handover_count);
	assert_int_equal(growths, p->behaviour.growth_count);
	assert_int_equal(rows, p->behaviour.history.row_count);
	assert_int_equal(releases, p->behaviour.release_count);
}

TEST(test_merging)
{
	for (int shape = 0; shape < MODEL_MANY_SITES; shape++) {
		struct recording r;
		struct heft_error err;
		struct profile *p;
		record(&r, (enum model_shape)shape, 51, 1500, 1);
		struct account *a = account_new(r.h, r.h->count, NULL, NULL);
		assert_int_equal(profile_from_recording(&p, path, NULL, &err), 0);
		assert_int_equal(p->site_count, PLACES);
		for (uint32_t i = 0; i < p->site_count; i++)
			assert_int_equal(p->sites[i].merged, ALIKE);
		check_behaviour(p, r.h, a, (1u << PLACES) - 1);
		profile_free(p);
		free(a);
		history_free(r.h);
	}
}

TEST(test_filter)
{
	static const struct {
		const char *focus, *ignore;
		uint32_t places;
	} cases[] = {
		{"0x1[0-2]00", NULL, 7},   {NULL, "0x1[0-2]00", 24}, {"0x1[1-3]00", "0x1200", 10},
		{"nothing such", NULL, 0}, {NULL, "prog", 0},        {NULL, "0x9", 31},
		{"0x1400", "nothing", 16},
	};
	struct recording r;
	struct heft_error err;
	record(&r, MODEL_MANY_THREADS, 61, 1500, 1);
	struct account *a = account_new(r.h, r.h->count, NULL, NULL);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct profile *p;
		assert_int_equal(profile_from_recording(&p, path, NULL, &err), 0);
		assert_int_equal(profile_filter(p, cases[i].focus, cases[i].ignore, &err), 0);
		check_behaviour(p, r.h, a, cases[i].places);
		/* And once more: what is left is whole. */
		assert_int_equal(profile_filter(p, NULL, "0x1100", &err), 0);
		check_behaviour(p, r.h, a, cases[i].places & ~2u);
		profile_free(p);
	}
	free(a);
	history_free(r.h);
}

UNIT_TESTS(make_path, remove_path)
