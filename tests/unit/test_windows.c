/* Recordings with several checkpoints (behaviour_recording.h) against a brute-force
 * replay of the same steps: the tally before any moment, windows and instants of a
 * profile, sizes in them, and files that were cut. */
#include "behaviour_recording.h"
#include "trace/tally_block.h"

/* ---- the tally before a moment */

static void check_before(const struct recording *r, struct trace_reader *reader, uint64_t before_ns)
{
	struct heft_error err;
	struct tally t, fresh;
	size_t n = steps_before(r, before_ns);
	struct account *a = account_new(r->h, n, NULL, NULL);
	tally_init(&t);
	assert_int_equal(trace_reader_tally_before(reader, before_ns, &t, &err), 0);
	tally_update_peaks(&t);
	assert_int_equal(t.events, n);
	assert_int_equal(t.live_bytes, a->total.bytes);
	assert_int_equal(t.live_blocks, a->total.blocks);
	assert_int_equal(t.peak_bytes, a->peak.bytes);
	assert_int_equal(t.peak_time_ns / r->tick_ns, a->peak_time_ns / r->tick_ns);
	for (uint32_t s = 0; s < r->h->sites; s++) {
		assert_int_equal(t.sites[s].live_bytes, a->now[s].bytes);
		assert_int_equal(t.sites[s].live_blocks, a->now[s].blocks);
		assert_int_equal(t.sites[s].live_slack, a->now[s].slack);
		assert_int_equal(t.sites[s].peak_bytes, a->at_peak[s].bytes);
		assert_int_equal(t.sites[s].peak_slack, a->at_peak[s].slack);
		assert_int_equal(t.sites[s].own_peak_bytes, a->own_peak[s]);
	}
	/* And the columns that the account has not: from the first event on. */
	tally_init(&fresh);
	assert_int_equal(tally_reserve(&fresh, r->h->sites, r->h->threads), 0);
	for (size_t i = 0; i < n; i++) {
		struct trace_event e = stored(r, i);
		tally_apply(&fresh, &e, 1);
	}
	tally_update_peaks(&fresh);
	const char *difference = tally_block_difference(&t, &fresh, r->tick_ns);
	if (difference)
		fail_msg("before %llu: %s", (unsigned long long)before_ns, difference);
	tally_fini(&t);
	tally_fini(&fresh);
	free(a);
}

static void check_moments(const struct recording *r)
{
	struct heft_error err;
	struct trace_reader *reader;
	struct history *h = r->h;
	assert_int_equal(trace_reader_open(&reader, path, &err), 0);
	for (size_t i = 0; i < r->checkpoints; i++)
		for (int away = -1; away <= 1; away++)
			check_before(r, reader,
				     h->steps[r->at[i].steps - 1].e.time_ns + (uint64_t)away);
	for (int i = 0; i < 10; i++) {
		uint64_t moment = h->steps[model_draw(h, (uint32_t)h->count)].e.time_ns;
		check_before(r, reader, moment + model_draw(h, 3) - 1);
	}
	check_before(r, reader, 0);
	check_before(r, reader, 1);
	check_before(r, reader, UINT64_MAX);
	trace_reader_close(reader);
}

TEST(test_tally_before)
{
	static const uint64_t ticks[] = {1, 2048};
	for (unsigned i = 0; i < 2; i++) {
		struct recording r;
		record(&r, i ? MODEL_CHAINS : MODEL_MANY_THREADS, 31 + i, 1200, ticks[i]);
		assert_true(r.checkpoints >= 3);
		check_moments(&r);
		history_free(r.h);
	}
}

/* ---- windows of a profile */

struct measures {
	uint64_t start_bytes, start_blocks, allocations, reallocations, frees, allocated,
		reallocated;
	uint64_t temporary, cross, peak_bytes, peak_blocks, peak_slack;
	uint64_t bytes, blocks, slack, end_bytes, end_blocks, end_slack, own_peak;
};

struct window {
	struct measures sites[SITES], all;
	uint64_t peak_time_ns;
};

static void keep_window_peak(struct window *w, uint64_t time_ns)
{
	for (int s = 0; s < SITES; s++) {
		w->sites[s].peak_bytes = w->sites[s].bytes;
		w->sites[s].peak_blocks = w->sites[s].blocks;
		w->sites[s].peak_slack = w->sites[s].slack;
	}
	w->all.peak_bytes = w->all.bytes;
	w->all.peak_blocks = w->all.blocks;
	w->all.peak_slack = w->all.slack;
	w->peak_time_ns = time_ns;
}

static void begin_brute_window(struct window *w, uint64_t from_ns)
{
	for (int s = 0; s <= SITES; s++) {
		struct measures *m = s < SITES ? &w->sites[s] : &w->all;
		*m = (struct measures){.start_bytes = m->bytes,
				       .start_blocks = m->blocks,
				       .bytes = m->bytes,
				       .blocks = m->blocks,
				       .slack = m->slack,
				       .own_peak = m->bytes};
	}
	keep_window_peak(w, from_ns);
}

static void count_in(struct measures *m, const struct trace_event *e)
{
	uint64_t growth = e->size > e->old_size ? e->size - e->old_size : 0;
	switch ((enum trace_op)e->op) {
	case TRACE_ALLOC: m->allocations++, m->allocated += e->size; break;
	case TRACE_REALLOC:
		m->reallocations++, m->reallocated += e->size, m->allocated += growth;
		break;
	case TRACE_FREE:
		m->frees++, m->cross += e->thread != e->birth_thread;
		m->temporary += (e->flags & TRACE_TEMPORARY) != 0;
		break;
	case TRACE_GONE: m->end_bytes += e->size, m->end_blocks++, m->end_slack += e->slack; break;
	}
}

static void move(struct measures *m, uint64_t size, uint64_t slack, int sign)
{
	m->bytes += sign > 0 ? size : -size;
	m->blocks += sign > 0 ? 1 : (uint64_t)-1;
	m->slack += sign > 0 ? slack : -slack;
}

/* Only blocks of the thread; -1: of all. */
static void brute_window(struct window *w, const struct recording *r, uint64_t from, uint64_t to,
			 int thread)
{
	bool begun = false;
	memset(w, 0, sizeof *w);
	if (from == to) /* an instant: what is live then, and what was made up to it */
		from = 0;
	for (size_t i = 0; i <= r->h->count; i++) {
		struct trace_event e = {.time_ns = UINT64_MAX};
		if (i < r->h->count)
			e = stored(r, i);
		if (!begun && e.time_ns >= from) {
			if (from)
				begin_brute_window(w, from);
			begun = true;
		}
		if (i == r->h->count || e.time_ns > to)
			break;
		if (thread >= 0 && e.birth_thread != (uint32_t)thread)
			continue;
		struct measures *m = &w->sites[e.site];
		if (e.op == TRACE_REALLOC) {
			move(&w->sites[e.old_site], e.old_size, e.old_slack, -1);
			move(&w->all, e.old_size, e.old_slack, -1);
		}
		move(m, e.size, e.slack, e.op == TRACE_ALLOC || e.op == TRACE_REALLOC ? 1 : -1);
		move(&w->all, e.size, e.slack,
		     e.op == TRACE_ALLOC || e.op == TRACE_REALLOC ? 1 : -1);
		count_in(m, &e);
		count_in(&w->all, &e);
		if (m->bytes > m->own_peak)
			m->own_peak = m->bytes;
		if (w->all.bytes > w->all.peak_bytes)
			keep_window_peak(w, e.time_ns);
	}
}

/* With `several`, two processes run on: what went before the end is left, but not live. */
static void check_site(const struct profile_site *s, const struct measures *m, bool several,
		       uint64_t heap_peak)
{
	assert_int_equal(s->start_bytes, m->start_bytes);
	assert_int_equal(s->start_blocks, m->start_blocks);
	assert_int_equal(s->allocations, m->allocations);
	assert_int_equal(s->reallocations, m->reallocations);
	assert_int_equal(s->frees, m->frees);
	assert_int_equal(s->allocated_bytes, m->allocated);
	assert_int_equal(s->reallocated_bytes, m->reallocated);
	assert_int_equal(s->temporary, m->temporary);
	assert_int_equal(s->cross_thread_frees, m->cross);
	assert_int_equal(s->peak_bytes, m->peak_bytes);
	assert_int_equal(s->peak_blocks, m->peak_blocks);
	assert_int_equal(s->peak_slack_bytes, m->peak_slack);
	assert_int_equal(s->left_bytes, m->bytes + m->end_bytes);
	assert_int_equal(s->left_blocks, m->blocks + m->end_blocks);
	assert_int_equal(s->live_bytes, m->bytes + (several ? 0 : m->end_bytes));
	assert_int_equal(s->live_blocks, m->blocks + (several ? 0 : m->end_blocks));
	assert_int_equal(s->live_slack_bytes, m->slack + (several ? 0 : m->end_slack));
	/* A sum over stacks that read the same, but no more than all had together. */
	assert_int_equal(s->own_peak_bytes, m->own_peak < heap_peak ? m->own_peak : heap_peak);
}

static void check_totals(const struct profile_totals *t, const struct measures *m, bool several)
{
	assert_int_equal(t->start_bytes, m->start_bytes);
	assert_int_equal(t->start_blocks, m->start_blocks);
	assert_int_equal(t->allocations, m->allocations);
	assert_int_equal(t->reallocations, m->reallocations);
	assert_int_equal(t->frees, m->frees);
	assert_int_equal(t->allocated_bytes, m->allocated);
	assert_int_equal(t->temporary, m->temporary);
	assert_int_equal(t->peak_bytes, m->peak_bytes);
	assert_int_equal(t->peak_blocks, m->peak_blocks);
	assert_int_equal(t->left_bytes, m->bytes + m->end_bytes);
	assert_int_equal(t->left_blocks, m->blocks + m->end_blocks);
	assert_int_equal(t->live_bytes, m->bytes + (several ? 0 : m->end_bytes));
	assert_int_equal(t->live_blocks, m->blocks + (several ? 0 : m->end_blocks));
	assert_int_equal(t->live_slack_bytes, m->slack + (several ? 0 : m->end_slack));
}

static void add_up(struct measures *sum, const struct measures *m)
{
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)m;
	for (size_t i = 0; i < sizeof *m / sizeof *to; i++)
		to[i] += from[i];
}

/* Classes of size are of the same blocks as sites. */
static void check_sizes(const struct profile *p, const struct window *w)
{
	uint64_t made = 0, peak = 0, peak_blocks = 0, live = 0, live_blocks = 0, slack = 0;
	for (uint32_t i = 0; i < p->behaviour.size_count; i++) {
		made += p->behaviour.sizes[i].allocations;
		peak += p->behaviour.sizes[i].peak_bytes;
		peak_blocks += p->behaviour.sizes[i].peak_blocks;
		slack += p->behaviour.sizes[i].peak_slack_bytes;
		live += p->behaviour.sizes[i].live_bytes;
		live_blocks += p->behaviour.sizes[i].live_blocks;
	}
	assert_int_equal(made, w->all.allocations + w->all.reallocations);
	assert_int_equal(peak, w->all.peak_bytes);
	assert_int_equal(peak_blocks, w->all.peak_blocks);
	assert_int_equal(slack, w->all.peak_slack);
	assert_int_equal(live, p->totals.live_bytes);
	assert_int_equal(live_blocks, p->totals.live_blocks);
}

static void check_window(const struct recording *r, uint64_t from, uint64_t to, int thread)
{
	char name[16];
	struct heft_error err;
	struct profile *p;
	struct profile_selection sel = {.has_window = true,
					.from_ns = from,
					.to_ns = to,
					.sizes = true,
					.process_totals = true};
	snprintf(name, sizeof name, "t%d", thread);
	if (thread >= 0)
		sel.thread = name;
	if (profile_from_recording(&p, path, &sel, &err))
		fail_msg("%s", err.message);
	struct window w;
	brute_window(&w, r, from, to, thread);
	uint32_t seen = 0;
	for (uint32_t place = 0; place < PLACES; place++) {
		struct measures m = {0}; /* three stacks that read the same */
		for (uint32_t s = place; s < SITES; s += PLACES)
			add_up(&m, &w.sites[s]);
		for (uint32_t i = 0; i < p->site_count; i++)
			if (place_of(p, p->sites[i].node) == place) {
				check_site(&p->sites[i], &m, p->process_count > 1,
					   w.all.peak_bytes);
				seen++;
			}
	}
	assert_int_equal(seen, p->site_count);
	check_totals(&p->totals, &w.all, p->process_count > 1);
	assert_int_equal(p->totals.peak_slack_bytes, w.all.peak_slack);
	/* Events have times in ticks, a checkpoint that an instant began from has the true one. */
	uint64_t tick = from == to ? r->tick_ns : 1;
	assert_int_equal(p->totals.peak_time_ns / tick, w.peak_time_ns / tick);
	assert_int_equal(p->chosen.from_ns, from);
	assert_int_equal(p->chosen.to_ns, to);
	check_sizes(p, &w);
	/* What processes did, together (thread i is of process i % 2). */
	struct profile_totals sum = {0};
	for (uint32_t i = 0; i < p->process_count; i++) {
		const struct profile_totals *t = &p->processes[i].totals;
		sum.allocations += t->allocations;
		sum.reallocations += t->reallocations;
		sum.frees += t->frees;
		sum.allocated_bytes += t->allocated_bytes;
		sum.live_bytes += t->live_bytes;
		sum.live_blocks += t->live_blocks;
		sum.left_bytes += t->left_bytes;
		sum.left_blocks += t->left_blocks;
		sum.start_bytes += t->start_bytes;
		sum.temporary += t->temporary;
	}
	assert_int_equal(sum.allocations, p->totals.allocations);
	assert_int_equal(sum.reallocations, p->totals.reallocations);
	assert_int_equal(sum.frees, p->totals.frees);
	assert_int_equal(sum.allocated_bytes, p->totals.allocated_bytes);
	assert_int_equal(sum.left_bytes, p->totals.left_bytes);
	assert_int_equal(sum.left_blocks, p->totals.left_blocks);
	/* At an instant a process that is gone has nothing; of a window its own end counts. */
	assert_int_equal(sum.live_bytes, from == to ? p->totals.live_bytes : p->totals.left_bytes);
	assert_int_equal(sum.live_blocks,
			 from == to ? p->totals.live_blocks : p->totals.left_blocks);
	assert_int_equal(sum.start_bytes, p->totals.start_bytes);
	assert_int_equal(sum.temporary, p->totals.temporary);
	profile_free(p);
}

TEST(test_windows)
{
	static const uint64_t ticks[] = {1, 2048, 16};
	for (unsigned k = 0; k < 3; k++) {
		struct recording r;
		record(&r, (enum model_shape)(MODEL_MANY_THREADS + k), 41 + k, 1000, ticks[k]);
		struct history *h = r.h;
		uint64_t last = h->steps[h->count - 1].e.time_ns;
		for (int i = 0; i < 25; i++) {
			uint64_t from = model_draw(h, (uint32_t)last);
			uint64_t to = from + model_draw(h, (uint32_t)(last - from) + 1);
			if (i % 3 == 0) /* an instant, of an event */
				from = to = stored(&r, model_draw(h, (uint32_t)h->count)).time_ns;
			if (i % 7 == 0)
				from = 0;
			check_window(&r, from, to,
				     i % 4 == 1 ? (int)model_draw(h, h->threads) : -1);
		}
		check_window(&r, 0, UINT64_MAX, -1);
		check_window(&r, 0, 0, -1);                  /* before everything */
		check_window(&r, last + 1, last + 1000, -1); /* after everything */
		check_window(&r, last + 1, last + 1, 2);
		history_free(h);
	}
}

/* ---- files that were cut */

static void check_cut(const struct recording *r, uint64_t size)
{
	struct heft_error err;
	struct trace_reader *reader;
	if (truncate(path, (off_t)size) || trace_reader_open(&reader, path, &err))
		fail_msg("cut at %llu", (unsigned long long)size);
	const struct trace_contents *c = trace_reader_contents(reader);
	assert_false(c->complete);
	size_t n = (size_t)c->events, stored_steps = 0;
	for (size_t i = 0; i <= r->checkpoints; i++)
		if (r->at[i].end <= size)
			stored_steps = r->at[i].steps;
	assert_true(n >= stored_steps && n <= r->h->count);
	struct account *a = account_new(r->h, n, NULL, NULL);
	struct account *then = account_new(r->h, stored_steps, NULL, NULL);
	for (uint32_t s = 0; s < c->site_count; s++) {
		assert_int_equal(c->tally->sites[s].live_bytes, a->now[s].bytes);
		assert_int_equal(c->tally->sites[s].peak_bytes, a->at_peak[s].bytes);
		assert_int_equal(c->tally->sites[s].peak_slack, a->at_peak[s].slack);
	}
	uint64_t frees = 0, steps = 0, all_frees = 0, all_steps = 0;
	for (uint32_t i = 0; i < c->behaviour->handover_count; i++) {
		const struct behaviour_waits *h = &c->behaviour->handovers[i].waits;
		const struct account_handover *x = &a->handovers[c->behaviour->handovers[i].site];
		assert_int_equal(h->frees, x->frees);
		assert_int_equal(h->in_order, x->in_order);
		assert_int_equal(h->backlog_blocks, x->backlog_blocks);
		assert_int_equal(h->backlog_time_ns, x->backlog_time_ns);
		assert_int_equal(h->last_free_ns, x->last_free_ns);
		near(h->birth_wait, x->xy);
		frees += h->frees;
	}
	for (uint32_t i = 0; i < c->behaviour->pair_count; i++) {
		const struct behaviour_pair *p = &c->behaviour->pairs[i];
		assert_int_equal(p->frees, a->pairs[p->site][p->from][p->to]);
	}
	for (uint32_t i = 0; i < c->behaviour->growth_count; i++) {
		const struct behaviour_growth *g = &c->behaviour->growths[i];
		assert_int_equal(g->steps, a->growths[g->site].steps);
		/* What stored events do not tell is as of the checkpoint. */
		assert_int_equal(g->moved_steps, then->growths[g->site].moved);
		assert_int_equal(g->blocks, then->growths[g->site].blocks);
		assert_int_equal(g->unused_bytes, then->growths[g->site].unused);
		steps += g->steps;
	}
	for (uint32_t i = 0; i < c->behaviour->release_count; i++) {
		const struct behaviour_release *x = &c->behaviour->releases[i];
		assert_int_equal(x->samples,
				 then->releases[x->site][r->h->sites - 1 - x->free_site]);
	}
	for (uint32_t s = 0; s < r->h->sites; s++) {
		all_frees += a->handovers[s].frees;
		all_steps += a->growths[s].steps;
	}
	assert_int_equal(frees, all_frees);
	assert_int_equal(steps, all_steps);
	/* Windows of it go by its own checkpoints. */
	for (int i = 0; i < 3 && n; i++) {
		struct tally t;
		size_t k = model_draw(r->h, (uint32_t)n);
		uint64_t before = r->h->steps[k].e.time_ns;
		while (k && r->h->steps[k - 1].e.time_ns == before)
			k--;
		struct account *early = account_new(r->h, k, NULL, NULL);
		tally_init(&t);
		assert_int_equal(trace_reader_tally_before(reader, before, &t, &err), 0);
		assert_int_equal(t.live_bytes, early->total.bytes);
		assert_int_equal(t.peak_bytes, early->peak.bytes);
		assert_int_equal(t.events, k);
		tally_fini(&t);
		free(early);
	}
	struct profile *p;
	assert_int_equal(profile_from_trace(&p, reader, NULL, &err), 0);
	assert_int_equal(p->totals.peak_bytes, a->peak.bytes);
	assert_int_equal(p->totals.peak_slack_bytes, a->peak.slack);
	profile_free(p);
	trace_reader_close(reader);
	free(a);
	free(then);
}

TEST(test_cut_files)
{
	struct recording r;
	record(&r, MODEL_MANY_THREADS, 71, 900, 1);
	assert_true(r.checkpoints >= 3);
	uint64_t size = r.bytes - 1; /* from the end down: a file is cut again and again */
	unsigned cuts = 0;
	for (size_t i = r.checkpoints + 1; i-- > 0;) {
		uint64_t below = i ? r.at[i - 1].end : 2000;
		for (int k = 0; k < 6 && size > r.at[i].end; k++, cuts++) {
			check_cut(&r, size);
			size -= 1 + (size - r.at[i].end) / 4;
		}
		size = r.at[i].end;
		check_cut(&r, size);     /* right behind it, */
		check_cut(&r, size - 1); /* and within: the one before counts */
		size = size - 1 > below + 100 ? size - 100 : size - 1;
	}
	assert_true(cuts > 5);
	history_free(r.h);
}

UNIT_TESTS(make_path, remove_path)
