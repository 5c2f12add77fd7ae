/* Findings when things go wrong: every allocation fails once, and profiles full of numbers that no
 * program makes (recordings are hostile input). Nothing may crash, leak or be out of order; the
 * sanitizer builds watch. */
#include "diagnosis_fixture.h"

#include "hosted/error.h"
#include "hosted/ledger.h"

static long countdown = -1; /* allocations until one fails; -1: none does */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t size);

static bool fails(void)
{
	return countdown >= 0 && countdown-- == 0;
}

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return fails() ? NULL : __real_realloc(p, size);
}

/* One of everything: a queue, objects, a leak beside a cache, slack, rounding, copies, temporaries. */
static struct profile *full_profile(void)
{
	enum { ITEMS = 1000, SLOTS = 100 };
	uint64_t born[ITEMS], freed[ITEMS];
	struct profile *p = new_profile(1 * SECOND);
	uint32_t from = add_thread(p, "main"), to = add_thread(p, "worker");
	set_slots(p, SLOTS);
	for (uint64_t i = 0; i < ITEMS; i++) {
		born[i] = 1 * MS + 1000 * i;
		freed[i] = 2 * MS + 500000 * i;
	}
	add_site(p, "main:1 send:2", ITEMS, 1000);
	add_handover(p, 0, ITEMS, born, freed, from, to);
	add_release(p, 0, "clone:1 deliver:3");
	add_site(p, "main:2 conn_new:1", 100, 8000);
	add_site(p, "main:2 conn_new:2", 100, 3000);
	add_site(p, "main:3 remember:1", 10000, 100);
	struct profile_site *s = add_site(p, "main:3 cache:1", 100, 1000);
	s->allocations = 10000;
	s->frees = 9900;
	struct profile_history_row *leak = add_history(p, 3), *cache = add_history(p, 4);
	leak = &p->behaviour.history.rows[0];
	for (uint32_t i = 0; i < SLOTS; i++) {
		leak->blocks[i] = 100 * (i + 1);
		leak->bytes[i] = 100 * leak->blocks[i];
		cache->blocks[i] = 100;
		cache->bytes[i] = 100000;
	}
	add_site(p, "main:4 push:1", 1, 500000);
	struct profile_growth *g = add_growth(p, 5);
	g->steps = 10;
	g->blocks = g->measured_blocks = 1;
	g->measured_bytes = 500000;
	g->unused_bytes = 200000;
	add_site(p, "main:5 names:1", 20000, 9)->peak_slack_bytes = 20000 * 15;
	add_site(p, "main:7 load:1", 5000, 100);
	add_site(p, "main:8 copy_rows:1", 5000, 100);
	s = add_site(p, "main:6 scratch:1", 0, 0);
	s->allocations = s->frees = s->temporary = 500000;
	p->totals.dropped = 200000;
	add_pool(p, "cells");
	add_pool_objects(p, "main:1 take_session:7", 400, 0, "55555555");
	add_pool_objects(p, "main:1 take_request:9", 400, 400, "");
	return p;
}

/* A killed program that leaks, sampled; samples were lost. */
static struct profile *sampled_profile(void)
{
	enum { SAMPLES = 400 };
	struct profile *p = new_profile(100ull * SECOND);
	p->run.end = PROFILE_END_SIGNAL;
	p->run.signal = 9;
	p->run.oom_killed = true;
	p->run.rate_bytes = 1000;
	p->totals.dropped = 5;
	p->totals.peak_time_ns = p->run.duration_ns;
	add_site(p, "main:1 remember:2", SAMPLES, 1000);
	add_site(p, "main:1 serve:2", SAMPLES, 1000);
	p->estimates.spreads = calloc(2, sizeof *p->estimates.spreads);
	p->estimates.errors = calloc(2, sizeof *p->estimates.errors);
	p->estimates.peak_births.list = calloc(2 * SAMPLES, sizeof *p->estimates.peak_births.list);
	assert_true(p->estimates.spreads && p->estimates.errors && p->estimates.peak_births.list);
	p->estimates.peak_births.count = 2 * SAMPLES;
	for (uint32_t i = 0; i < 2 * SAMPLES; i++) {
		double at = (i % SAMPLES + 0.5) / SAMPLES;
		at = i < SAMPLES ? at : 1 - at / 100;
		p->estimates.peak_births.list[i] = (struct profile_birth){
			.site = i / SAMPLES,
			.at = at,
			.progress = at,
			.bytes = 1000,
			.age_ns = (uint64_t)((1 - at) * 100e9),
			.variance = 1e6};
	}
	p->totals.peak_bytes = 2 * SAMPLES * 1000;
	p->estimates.total_spread.samples = 2 * SAMPLES;
	return p;
}

static void run_out_of_memory(struct profile *p, long at_least)
{
	for (long n = 0;; n++) {
		struct findings *f;
		countdown = n;
		int rc = findings_new(&f, p);
		bool failed = countdown < 0;
		countdown = -1;
		if (!failed) {
			assert_int_equal(rc, 0);
			assert_true(n > at_least);
			done(f, p);
			return;
		}
		assert_int_equal(rc, HEFT_ENOMEM);
		assert_null(f);
	}
}

TEST(test_no_memory_of_samples)
{
	struct profile *p = sampled_profile();
	struct findings *f;
	assert_int_equal(findings_new(&f, p), 0);
	assert_int_equal(findings_count(f), 1);
	assert_int_equal(findings_get(f, 0)->kind, FINDING_GROWING_SITE);
	assert_int_equal(findings_note_count(f), 1);
	findings_free(f);
	run_out_of_memory(p, 8);
}

/* What a look at the live blocks tells: tests/integration/test_leaks.py */
static bool is_of_look(int kind)
{
	return kind == FINDING_LEAK_UNREACHABLE || kind == FINDING_UNTOUCHED_MEMORY ||
	       kind == FINDING_FRAGMENTATION || kind == FINDING_DUPLICATE_CONTENT ||
	       kind == FINDING_BOOKS_DO_NOT_CLOSE; /* test_no_memory_of_ledgers */
}

TEST(test_no_memory)
{
	struct profile *p = full_profile();
	struct findings *f = diagnose(p, 0);
	bool seen[FINDING_KINDS] = {false};
	for (uint32_t i = 0; i < findings_count(f); i++)
		seen[findings_get(f, i)->kind] = true;
	for (int kind = 0; kind < FINDING_KINDS; kind++)
		if (!seen[kind] && !is_of_look(kind))
			fail_msg("no %s", finding_kind_name((enum finding_kind)kind));
	findings_free(f);
	run_out_of_memory(p, 15);
}

static void add_line(struct ledger *l, enum ledger_kind kind, const char *name, uint64_t bytes)
{
	const struct ledger_bytes b = {.resident = bytes};
	struct heft_error err;
	assert_int_equal(ledger_add(l, kind, name, &b, &err), 0);
	l->rss_bytes += bytes;
}

/* Two programs with gaps in their books, which map most of their memory themselves */
static struct profile *profile_with_ledgers(void)
{
	static const char *const programs[] = {"/usr/bin/python3", "/bin/other"};
	struct profile *p = new_profile(1 * SECOND);
	uint32_t id;
	fixture_module = 0;
	assert_int_equal(profile_add_module(p, "/usr/bin/python3.11", NULL, 0, &fixture_module), 0);
	add_site(p, "main:1 keep:2", 1, 1000);
	p->ledgers = calloc(2, sizeof *p->ledgers);
	assert_non_null(p->ledgers);
	for (int32_t i = 0; i < 2; i++) {
		const struct profile_process q = {
			.pid = i + 1, .exe = programs[i], .end_ns = 1 * SECOND};
		struct ledger *l = &p->ledgers[p->ledger_count++];
		assert_int_equal(profile_add_process(p, &q, &id), 0);
		p->processes[i].totals.peak_anonymous_bytes = 100 << 20;
		l->pid = i + 1;
		add_line(l, LEDGER_HEADERS, "headers", 100);
		add_line(l, LEDGER_IN_USE, LEDGER_MISSED, 1 << 20);
		add_line(l, LEDGER_ANONYMOUS, "mapped", 100 << 20);
	}
	return p;
}

TEST(test_no_memory_of_ledgers)
{
	struct profile *p = profile_with_ledgers();
	struct findings *f = diagnose(p, 0);
	assert_int_equal(findings_count(f), 2);
	assert_int_equal(findings_get(f, 1)->kind, FINDING_BOOKS_DO_NOT_CLOSE);
	assert_int_equal(findings_note_count(f), 2);
	findings_free(f);
	run_out_of_memory(p, 8);
}

static uint64_t seed = 99;

static uint64_t any(void)
{
	static const uint64_t edges[] = {0,
					 1,
					 2,
					 99,
					 100,
					 10000,
					 1 << 20,
					 UINT32_MAX,
					 (uint64_t)1 << 62,
					 UINT64_MAX - 1,
					 UINT64_MAX};
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	uint64_t r = seed >> 20;
	return r % 3 ? edges[r / 3 % (sizeof edges / sizeof *edges)] : r;
}

static double any_number(void)
{
	static const double edges[] = {0, 1, -1, 1e300, -1e300, 0.0 / 0.0, 1 / 0.0, 1e-300};
	return edges[any() % 8];
}

/* Overwrites the numbers; those that the loader checks (nodes, counts of arrays) stay. */
static void spoil(struct profile *p)
{
	p->run.duration_ns = any();
	p->run.end = (enum profile_end)(any() % 6);
	p->run.signal = (int32_t)any();
	p->behaviour.history.slot_ns = any();
	uint64_t *totals = (uint64_t *)&p->totals;
	for (size_t i = 0; i < sizeof p->totals / sizeof *totals; i++)
		totals[i] = any();
	for (uint32_t i = 0; i < p->site_count; i++) {
		struct profile_site *s = &p->sites[i];
		uint64_t *fields[] = {&s->allocations,     &s->reallocations,   &s->frees,
				      &s->allocated_bytes, &s->peak_bytes,      &s->peak_blocks,
				      &s->own_peak_bytes,  &s->live_bytes,      &s->live_blocks,
				      &s->temporary,       &s->peak_slack_bytes};
		for (size_t k = 0; k < sizeof fields / sizeof *fields; k++)
			if (any() % 2)
				*fields[k] = any();
		if (any() % 4 == 0)
			s->handover = s->growth = s->history = (uint32_t)(any() % 3);
		if (any() % 4 == 0)
			s->node = PROFILE_NONE;
	}
	for (uint32_t i = 0; i < p->behaviour.handover_count; i++) {
		struct profile_handover *h = &p->behaviour.handovers[i];
		uint64_t *fields[] = {&h->frees,         &h->in_order,       &h->backlog_blocks,
				      &h->backlog_bytes, &h->first_birth_ns, &h->last_birth_ns,
				      &h->first_free_ns, &h->last_free_ns};
		for (size_t k = 0; k < sizeof fields / sizeof *fields; k++)
			if (any() % 2)
				*fields[k] = any();
		if (any() % 2)
			h->wait_slope = any_number();
		if (any() % 2)
			h->wait_mean_ns = any_number();
		if (any() % 2)
			h->wait_fit = any_number();
	}
	for (uint32_t i = 0; i < p->behaviour.handover_threads_count; i++)
		p->behaviour.handover_threads[i].to = (uint32_t)any();
	for (uint32_t i = 0; i < p->behaviour.growth_count; i++) {
		p->behaviour.growths[i].measured_bytes = any();
		p->behaviour.growths[i].unused_bytes = any();
		p->behaviour.growths[i].steps = any();
	}
	for (uint32_t i = 0; i < p->behaviour.history.row_count; i++)
		for (uint32_t k = 0; k < p->behaviour.history.slot_count; k++)
			if (any() % 8 == 0)
				p->behaviour.history.rows[i].bytes[k] =
					p->behaviour.history.rows[i].blocks[k] = any();
}

static void spoil_samples(struct profile *p)
{
	p->run.rate_bytes = any();
	for (uint32_t i = 0; i < p->estimates.peak_births.count; i++) {
		struct profile_birth *b = &p->estimates.peak_births.list[i];
		b->age_ns = any() % 4 ? b->age_ns : any();
		b->bytes = any() % 4 ? b->bytes : (double)any();
		b->at = any() % 8 ? b->at : any() % 2 ? 0 : 1;
		b->progress = any() % 8 ? b->progress : any() % 2 ? 0 : 1;
	}
	for (uint32_t i = 0; i < 2 && p->estimates.spreads; i++) {
		p->estimates.spreads[i].samples = any();
		p->estimates.spreads[i].peak_bytes = (double)any();
		p->estimates.errors[i].peak_bytes = any();
	}
}

TEST(test_any_numbers)
{
	for (int round = 0; round < 3000; round++) {
		struct profile *p = round % 3 ? full_profile() : sampled_profile();
		struct findings *f;
		spoil(p);
		if (round % 3 == 0)
			spoil_samples(p);
		assert_int_equal(findings_new(&f, p), 0);
		for (uint32_t i = 0; i < findings_count(f); i++) {
			const struct finding *x = findings_get(f, i);
			assert_true(x->site == PROFILE_NONE || x->site < p->site_count);
			assert_true(strlen(x->summary) < 2000 && x->advice[0]);
			assert_true(i == 0 || findings_get(f, i - 1)->severity >= x->severity);
		}
		done(f, p);
	}
}

UNIT_TESTS(NULL, NULL)
