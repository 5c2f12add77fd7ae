/* Findings about growth and temporaries; the order of findings; and the
 * trend helper against brute force. */
#include "diagnosis_fixture.h"
#include "profile/profile_trend.h"

#include <math.h>
#include <signal.h>

/* ---- profile_trend */

static uint32_t seed = 12345;

static uint32_t draw(uint32_t below)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % below;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

/* Straight from the definitions. */
static struct trend brute_force(const uint64_t *y, uint32_t n)
{
	static double slopes[128 * 128];
	size_t used = 0;
	double s = 0, variance = (double)n * (n - 1.0) * (2.0 * n + 5);
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = i + 1; k < n; k++) {
			s += y[k] > y[i] ? 1 : y[k] < y[i] ? -1 : 0;
			slopes[used++] = ((double)y[k] - (double)y[i]) / (k - i);
		}
	for (uint32_t i = 0; i < n; i++) { /* each group of ties, at its first member */
		uint32_t ties = 0;
		bool first = true;
		for (uint32_t k = 0; k < n; k++) {
			ties += y[k] == y[i];
			first &= !(k < i && y[k] == y[i]);
		}
		if (first)
			variance -= (double)ties * (ties - 1.0) * (2.0 * ties + 5);
	}
	variance /= 18;
	qsort(slopes, used, sizeof *slopes, ascending);
	struct trend t = {.slope = used % 2 ? slopes[used / 2]
					    : (slopes[used / 2 - 1] + slopes[used / 2]) / 2};
	if (variance > 0 && s != 0)
		t.z = (s > 0 ? s - 1 : s + 1) / sqrt(variance);
	return t;
}

TEST(test_trend_against_brute_force)
{
	for (int round = 0; round < 400; round++) {
		uint64_t y[120];
		uint32_t n = 3 + draw(118), range = round % 3 == 0 ? 4 : 1000000, rise = draw(2000);
		for (uint32_t i = 0; i < n; i++)
			y[i] = draw(range) + (round % 2 ? (uint64_t)i * rise : 0);
		struct trend t, b = brute_force(y, n);
		assert_int_equal(trend_of(&t, y, n), 0);
		assert_true(fabs(t.z - b.z) < 1e-9);
		assert_true(fabs(t.slope - b.slope) <= 1e-9 * (1 + fabs(b.slope)));
	}
}

TEST(test_trend_of_known_series)
{
	uint64_t y[1000];
	struct trend t;
	for (uint32_t i = 0; i < 1000; i++)
		y[i] = 500 + 7 * (uint64_t)i;
	assert_int_equal(trend_of(&t, y, 1000), 0); /* thinned: still a straight line */
	assert_true(fabs(t.slope - 7) < 1e-9);
	assert_true(t.z > 40);
	for (uint32_t i = 0; i < 1000; i++)
		y[i] = 500;
	assert_int_equal(trend_of(&t, y, 1000), 0);
	assert_true(t.slope == 0 && t.z == 0);
	/* 4 3 2 1: six falling pairs, variance 4*3*13/18, one less for continuity. */
	assert_int_equal(trend_of(&t, (uint64_t[]){4, 3, 2, 1}, 4), 0);
	assert_true(fabs(t.z + 5 / sqrt(4 * 3 * 13 / 18.0)) < 1e-9);
	assert_true(t.slope == -1);
	assert_int_equal(trend_of(&t, (uint64_t[]){1, 2}, 2), 0);
	assert_true(t.slope == 0 && t.z == 0);
	uint64_t floors[3];
	trend_floors(floors, 3, (uint64_t[]){5, 1, 9, 4, 8, 7, 6}, 7); /* 5 1 | 9 4 | 8 7 6 */
	assert_int_equal(floors[0], 1);
	assert_int_equal(floors[1], 4);
	assert_int_equal(floors[2], 6);
}

/* ---- growing-site */

enum { SLOTS = 200, LEAK = 0, CACHE = 1 };

/* Scenario 4: 1 KiB a request is kept, 512 cache entries are replaced, buffers come and go. */
static struct profile *server(uint64_t duration_ns)
{
	struct profile *p = new_profile(duration_ns);
	set_slots(p, SLOTS);
	add_site(p, "main:97 handle_request:76 remember_request:44 allocate:33", 20000, 1024);
	struct profile_site *s = add_site(
		p, "main:97 handle_request:75 refresh_cache:57 allocate:33", 512, 4096);
	s->allocations = 20000;
	s->frees = 20000 - 512;
	struct profile_history_row *leak = add_history(p, LEAK);
	for (uint32_t i = 0; i < SLOTS; i++) {
		leak->blocks[i] = 100 * (i + 1);
		leak->bytes[i] = 1024 * leak->blocks[i];
	}
	struct profile_history_row *cache = add_history(p, CACHE);
	for (uint32_t i = 0; i < SLOTS; i++) {
		cache->blocks[i] = i < 20 ? 25 * i : 512;
		cache->bytes[i] = 4096 * cache->blocks[i] + draw(50000);
	}
	return p;
}

/* A server that somebody ended. */
static struct profile *stopped_server(uint64_t duration_ns)
{
	struct profile *p = server(duration_ns);
	p->run.end = PROFILE_END_SIGNAL;
	p->run.signal = 15;
	return p;
}

/* One that ends by itself soon may have worked through its input. */
TEST(test_program_that_was_done)
{
	const uint64_t seconds[] = {2, 120};
	for (int i = 0; i < 2; i++) {
		struct profile *p = server(seconds[i] * (uint64_t)SECOND);
		struct findings *f = diagnose(p, 0);
		const struct finding *g = findings_get(f, 0);
		assert_int_equal(g->kind, FINDING_GROWING_SITE);
		assert_int_equal(g->severity, i ? FINDING_HIGH : FINDING_MEDIUM);
		expect_text(g->summary,
			    i ? "grows without end" : "grew until the program was done");
		done(f, p);
	}
}

TEST(test_leaking_server)
{
	struct profile *p = stopped_server(2 * (uint64_t)SECOND);
	struct findings *f = diagnose(p, 0);
	assert_int_equal(findings_count(f), 1);
	const struct finding *g = findings_get(f, 0);
	assert_int_equal(g->kind, FINDING_GROWING_SITE);
	assert_int_equal(g->severity, FINDING_HIGH);
	assert_int_equal(g->site, LEAK);
	assert_int_equal(g->bytes, 20000 * 1024);
	assert_string_equal(evidence(g, "function")->text, "remember_request");
	assert_int_equal(evidence(g, "bytes_per_second")->number, 20000 * 1024 / 2);
	assert_true(evidence(g, "freed_share")->share == 0);
	assert_string_equal(evidence(g, "freed")->text, "never");
	expect_text(g->summary,
		    "remember_request (prog.c:44) grows without end: by 9.8 MiB a second");
	done(f, p);
}

/* 22,577,152 bytes in use at the peak, 10,240,000 more a second: a limit of 60 MiB is 3.94 s away. */
TEST(test_time_to_the_limit)
{
	struct profile *p = stopped_server(2 * (uint64_t)SECOND);
	p->run.memory_limit_bytes = 60 << 20;
	p->run.limit_is_cgroup = true;
	struct findings *f = diagnose(p, 0);
	const struct finding *g = find(f, FINDING_GROWING_SITE);
	assert_non_null(g);
	assert_int_equal(evidence(g, "limit_bytes")->number, 60 << 20);
	assert_int_equal(evidence(g, "time_to_limit_ns")->number, 3939200000);
	expect_text(g->summary,
		    "; at this rate its cgroup's limit of 60.0 MiB is used up in 3.94 s");
	done(f, p);
	/* Beyond it already, or years away: not a word. */
	for (int k = 0; k < 2; k++) {
		p = server(2 * (uint64_t)SECOND);
		p->run.memory_limit_bytes = k ? 1 << 20 : 1ull << 60;
		f = diagnose(p, 0);
		g = find(f, FINDING_GROWING_SITE);
		assert_non_null(g);
		assert_null(strstr(g->summary, "at this rate"));
		done(f, p);
	}
}

/* A server that is not run in the middle of the run does not grow meanwhile, and yet it leaks. */
TEST(test_leaking_server_that_pauses)
{
	struct profile *p = server(2 * (uint64_t)SECOND);
	struct profile_history_row *leak = &p->behaviour.history.rows[0];
	p->behaviour.history.events = calloc(SLOTS, sizeof *p->behaviour.history.events);
	for (uint32_t i = 0; i < SLOTS; i++) {
		uint32_t ran = i < 80 ? i : i < 140 ? 80 : i - 60;
		p->behaviour.history.events[i] = 1000 * (ran + 1);
		leak->blocks[i] = 20000 / (SLOTS - 60) * (ran + 1);
		leak->bytes[i] = 1024 * leak->blocks[i];
	}
	struct findings *f = diagnose(p, 0);
	assert_int_equal(count_of(f, FINDING_GROWING_SITE), 1);
	done(f, p);
}

static void expect_no_growth(struct profile *p, const char *what)
{
	struct findings *f = diagnose(p, 0);
	if (count_of(f, FINDING_GROWING_SITE))
		fail_msg("%s: %s", what, find(f, FINDING_GROWING_SITE)->summary);
	done(f, p);
}

/* heft was attached to the server, which had blocks before. It gained 20,000 blocks of 1 KiB: if it freed as many
 * older ones, it may have replaced them. */
static struct profile *attached_server(uint64_t older_frees, uint64_t resident_bytes)
{
	struct profile *p = server(20 * (uint64_t)SECOND);
	p->run.end = PROFILE_END_DETACHED;
	p->run.attached = true;
	p->totals.older_frees = older_frees;
	p->run.rss = calloc(2, sizeof *p->run.rss);
	p->run.rss[0] = (struct profile_rss){0, 100 << 20};
	p->run.rss[1] = (struct profile_rss){p->run.duration_ns, (100 << 20) + resident_bytes};
	p->run.rss_count = 2;
	return p;
}

TEST(test_growth_after_attaching)
{
	static const struct {
		uint64_t older_frees, resident_bytes;
		bool grows;
	} cases[] = {
		{0, 0, true},
		{9999, 0, true}, /* at least half of the growth is no replacement */
		{10000, 0, false},
		{30000, 0, false},
		/* Parts 2 to 15 of 16, each by its lowest level: 16,200 of the 20,000 KiB. */
		{10000, 8000 * 1024, false},
		{30000, 8200 * 1024, true}, /* resident memory grew by half of that */
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct profile *p = attached_server(cases[i].older_frees, cases[i].resident_bytes);
		struct findings *f = diagnose(p, 0);
		assert_int_equal(count_of(f, FINDING_GROWING_SITE), cases[i].grows);
		const struct finding *g = find(f, FINDING_GROWING_SITE);
		if (g) { /* it was not there all the time, and the program goes on */
			expect_text(g->summary, "nothing of it was freed meanwhile");
			expect_text(g->advice, "it may still free these blocks");
		}
		done(f, p);
	}
	/* A program that heft started has no older blocks. */
	struct profile *p = attached_server(30000, 0);
	p->run.attached = false;
	struct findings *f = diagnose(p, 0);
	assert_int_equal(count_of(f, FINDING_GROWING_SITE), 1);
	done(f, p);
}

static void set_levels(struct profile *p, uint32_t row, uint64_t (*level)(uint32_t slot))
{
	for (uint32_t i = 0; i < SLOTS; i++) {
		p->behaviour.history.rows[row].bytes[i] = level(i);
		p->behaviour.history.rows[row].blocks[i] = level(i) / 1024;
	}
}

static uint64_t plateau(uint32_t i)
{
	return (i < 120 ? i : 120) * 200000;
}

static uint64_t late_plateau(uint32_t i)
{
	return (i < 170 ? i : 170) * 120000;
}

static uint64_t startup(uint32_t i)
{
	return i < 10 ? i * 2000000 : 20000000;
}

static uint64_t sawtooth(uint32_t i)
{
	return i % 40 * 500000;
}

static uint64_t phases(uint32_t i)
{
	return i < 100 ? i * 200000 : 20000000 - (i - 100) * 100000;
}

/* 512 places filled at random: after i * turns / SLOTS * 512 puts so many are taken. */
static double turns;

static uint64_t filling_cache(uint32_t i)
{
	double puts = turns * 512 * (i + 1) / SLOTS;
	return (uint64_t)(512 * 4096 * (1 - exp(-puts / 512))) + draw(100000);
}

static uint64_t random_walk(uint32_t i)
{
	static uint64_t at;
	at = i == 0 ? 10000000 : at + draw(400001) - 200000;
	return at;
}

TEST(test_no_growth)
{
	static const struct {
		const char *what;
		uint64_t (*level)(uint32_t);
	} cases[] = {
		{"a cache that is full after half of the run", plateau},
		{"a cache that is full late", late_plateau},
		{"tables made at the start", startup},
		{"sawteeth", sawtooth},
		{"one phase after another", phases},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct profile *p = server(2 * (uint64_t)SECOND);
		set_levels(p, LEAK, cases[i].level);
		expect_no_growth(p, cases[i].what);
	}
	for (int i = 0; i < 300; i++) {
		struct profile *p = server(2 * (uint64_t)SECOND);
		turns = 2.5 + i / 30;
		set_levels(p, LEAK, filling_cache);
		expect_no_growth(p, "a cache that is filled at random");
	}
	for (int i = 0; i < 3000; i++) {
		struct profile *p = server(2 * (uint64_t)SECOND);
		set_levels(p, LEAK, random_walk);
		expect_no_growth(p, "a random walk");
	}
}

TEST(test_growth_of_a_batch_job)
{
	/* A loader: everything is kept, nothing is replaced. */
	struct profile *p = server(2 * (uint64_t)SECOND);
	p->sites[CACHE].history = PROFILE_NONE;
	expect_no_growth(p, "a loader");
	/* The same, ended by a signal, whichever: it would have gone on. */
	static const int signals[] = {SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGABRT, SIGSEGV};
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
		p = server(2 * (uint64_t)SECOND);
		p->sites[CACHE].history = PROFILE_NONE;
		p->run.end = PROFILE_END_SIGNAL;
		p->run.signal = signals[i];
		struct findings *f = diagnose(p, 0);
		assert_int_equal(count_of(f, FINDING_GROWING_SITE), 1);
		done(f, p);
	}
	/* It had loaded everything after half of the time, and waited. */
	p = server(2 * (uint64_t)SECOND);
	p->sites[CACHE].history = PROFILE_NONE;
	set_levels(p, LEAK, plateau);
	p->run.end = PROFILE_END_SIGNAL;
	p->run.signal = SIGTERM;
	expect_no_growth(p, "a loader that waits for its signal");
	/* Two large buffers, filled in turn and replaced each time: still a loader. */
	p = server(2 * (uint64_t)SECOND);
	for (uint32_t i = 0; i < SLOTS; i++)
		p->behaviour.history.rows[CACHE].blocks[i] = 2,
		p->behaviour.history.rows[CACHE].bytes[i] = 2 << 20;
	expect_no_growth(p, "a loader with two buffers");
	/* The loader's own temporary buffers are no sign that it has settled. */
	p = server(2 * (uint64_t)SECOND);
	for (uint32_t i = 0; i < SLOTS; i++)
		p->behaviour.history.rows[CACHE].blocks[i] = i % 2,
		p->behaviour.history.rows[CACHE].bytes[i] = i % 2 * 4096;
	expect_no_growth(p, "a loader with temporaries");
}

TEST(test_freed_at_the_end)
{
	/* 20 chunks beside 20,000 requests are an arena; one record for each request is not. */
	for (int in_step = 0; in_step < 2; in_step++)
		for (int is_long = 0; is_long < 2; is_long++) {
			struct profile *p = server((is_long ? 100 : 2) * (uint64_t)SECOND);
			if (!in_step)
				p->sites[LEAK].allocations = 20;
			all_freed(&p->sites[LEAK]);
			for (uint32_t i = SLOTS - 20; i < SLOTS; i++)
				p->behaviour.history.rows[0].bytes[i] = (SLOTS - 1 - i) * 1000;
			if (!in_step && !is_long) {
				expect_no_growth(p, "an arena freed at exit");
				continue;
			}
			struct findings *f = diagnose(p, 0);
			const struct finding *g = find(f, FINDING_GROWING_SITE);
			assert_non_null(g);
			assert_int_equal(g->severity, FINDING_MEDIUM);
			assert_string_equal(evidence(g, "freed")->text, "at-end");
			expect_text(g->summary, "freed only at the end");
			done(f, p);
		}
}

/* ---- temporary-churn */

TEST(test_churn)
{
	for (int extreme = 0; extreme < 2; extreme++) {
		struct profile *p = new_profile(1 * SECOND);
		struct profile_site *s = add_site(p, "main:9 handle:3 scratch:8", 0, 0);
		uint64_t made = extreme ? 5000000 : 1500000; /* in a second */
		s->allocations = s->frees = made;
		s->temporary = extreme ? made : 1400000;
		s->allocated_bytes = 64 * made;
		s->own_peak_bytes = 64;
		s = add_site(p, "main:9 work:3", extreme ? 100 : 3000000, 8);
		all_freed(s);
		struct findings *f = diagnose(p, 0);
		assert_int_equal(findings_count(f), 1);
		const struct finding *c = findings_get(f, 0);
		assert_int_equal(c->kind, FINDING_TEMPORARY_CHURN);
		assert_int_equal(c->severity, extreme ? FINDING_MEDIUM : FINDING_LOW);
		assert_int_equal(c->bytes, 64);
		assert_string_equal(evidence(c, "function")->text, "scratch");
		assert_int_equal(evidence(c, "per_second")->number, extreme ? 5000000 : 1400000);
		assert_int_equal(evidence(c, "mean_bytes")->number, 64);
		expect_text(c->summary, extreme ? "5.0 million a second" : "31.1 % of all");
		done(f, p);
	}
}

/* 300,000 temporary blocks of 41 bytes, 100,000 of 81, and at another line of the same function 1,000
 * large ones that stay: the mean is of the temporary ones, (300 * 41 + 100 * 81) / 400 = 51. */
TEST(test_churn_mean)
{
	struct profile *p = new_profile(1 * SECOND);
	struct profile_site *s = add_site(p, "main:9 handle:3 scratch:8", 0, 0);
	s->allocations = s->frees = s->temporary = 300000;
	s->allocated_bytes = 12300000;
	s = add_site(p, "main:9 handle:3 scratch:9", 0, 0);
	s->allocations = s->frees = s->temporary = 100000;
	s->allocated_bytes = 8100000;
	add_site(p, "main:9 handle:3 scratch:10", 1000, 16384);
	struct findings *f = diagnose(p, 0);
	const struct finding *c = find(f, FINDING_TEMPORARY_CHURN);
	assert_non_null(c);
	assert_int_equal(evidence(c, "temporary")->number, 400000);
	assert_int_equal(evidence(c, "mean_bytes")->number, 51);
	expect_text(c->summary, "400,000 temporary blocks of 51 bytes on average");
	done(f, p);
}

TEST(test_no_churn)
{
	/* Few; slow; a small share; mostly not temporary. */
	static const struct {
		uint64_t temporary, allocations, others, seconds;
	} cases[] = {{90000, 90000, 0, 1},
		     {150000, 150000, 0, 10},
		     {150000, 150000, 3000000, 1},
		     {150000, 200000, 0, 1}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct profile *p = new_profile(cases[i].seconds * SECOND);
		struct profile_site *s = add_site(p, "main:9 scratch:8", 0, 0);
		s->allocations = s->frees = cases[i].allocations;
		s->temporary = cases[i].temporary;
		s = add_site(p, "main:9 work:3", cases[i].others, 8);
		struct findings *f = diagnose(p, 0);
		assert_int_equal(count_of(f, FINDING_TEMPORARY_CHURN), 0);
		done(f, p);
	}
}

/* ---- all of them */

TEST(test_order)
{
	/* The leak is high whatever its size; of the rest, the larger first within a severity. */
	struct profile *p = stopped_server(2 * (uint64_t)SECOND);
	add_site(p, "main:9 conn_new:4", 100, 40000);
	add_site(p, "main:9 conn_new:5", 100, 40000);
	add_site(p, "main:9 page_new:4", 40, 50000);
	add_site(p, "main:9 page_new:5", 40, 50000);
	add_site(p, "main:10", 1, 30 << 20);
	p->totals.dropped = 1;
	struct findings *f = diagnose(p, 0);
	assert_int_equal(findings_count(f), 3); /* a missing event is a note */
	assert_int_equal(findings_get(f, 0)->kind, FINDING_GROWING_SITE);
	assert_int_equal(findings_get(f, 1)->bytes, 8000000);
	assert_int_equal(findings_get(f, 2)->bytes, 4000000);
	for (uint32_t i = 1; i < 3; i++)
		assert_int_equal(findings_get(f, i)->severity, FINDING_MEDIUM);
	done(f, p);
	assert_string_equal(finding_kind_name(FINDING_GROWTH_SLACK), "growth-slack");
	assert_string_equal(finding_severity_name(FINDING_MEDIUM), "medium");
}

TEST(test_indices_out_of_range)
{
	/* A damaged recording may give any number; none may be followed. */
	struct profile *p = server(2 * (uint64_t)SECOND);
	for (uint32_t i = 0; i < p->site_count; i++) {
		p->sites[i].handover = p->sites[i].growth = 77;
		p->sites[i].release_first = 99;
		p->sites[i].release_count = 3;
		p->sites[i].history = 1000;
	}
	struct findings *f = diagnose(p, 0);
	assert_int_equal(findings_count(f), 0);
	done(f, p);
	p = new_profile(1 * SECOND);
	add_site(p, "main:9", 10, 10)->node = PROFILE_NONE;
	f = diagnose(p, 0);
	assert_int_equal(count_of(f, FINDING_PROFILE_QUALITY), 1);
	done(f, p);
}

TEST(test_long_names)
{
	struct profile *p = server(2 * (uint64_t)SECOND);
	char name[300] = "std_like::vector<";
	memset(name + strlen(name), 'x', 200);
	strcat(name, ">::push(int)");
	char words[600];
	snprintf(words, sizeof words, "main:97 handle:2 %s:44", name);
	p->sites[LEAK].node = stack(p, words);
	struct findings *f = diagnose(p, 0);
	expect_text(findings_get(f, 0)->summary, "std_like::vector<..>::push(..) (prog.c:44)");
	assert_string_equal(evidence(findings_get(f, 0), "function")->text, name);
	done(f, p);
}

UNIT_TESTS(NULL, NULL)
