/* growing-site in sampled profiles: heaps of every shape, drawn again and again with a fixed seed. The
 * rule must find even growth, and be silent about working sets, start-up, caches and rings. */
#include "diagnosis_fixture.h"
#include "capture/poisson.h"
#include "profile/estimate.h"

#include <math.h>
#include <signal.h>

enum { RATE = 524288, TRIALS = 400 };
#define LIFE_NS (100ull * SECOND)

static uint64_t random_state = 20261115;

static double uniform(void)
{
	return (double)((poisson_random(&random_state) >> 11) + 1) * 0x1p-53;
}

/* When a survivor of some kind was made, 0 to 1; `x` is the kind's own number. */
typedef double (*shape)(double x);

static double leak(double x)
{
	(void)x;
	return uniform();
}

/* Lives for x of the run on average: a plateau, if that is short. */
static double plateau(double x)
{
	for (;;) {
		double age = -log(uniform()) * x;
		if (age < 1)
			return 1 - age;
	}
}

/* Each place is filled once, at random: ever fewer are. */
static double filling(double x)
{
	return 1 - plateau(x);
}

static double start_up(double x)
{
	return x * uniform();
}

/* First in, first out, holding the last x of the run. */
static double ring(double x)
{
	return 1 - x * uniform();
}

static double two_bursts(double x)
{
	return (uniform() < 0.5 ? 0.3 : 0.6) + x * uniform();
}

/* x of it leaks, the rest is a working set at the same place. */
static double both(double x)
{
	return uniform() < x ? uniform() : plateau(0.02);
}

/* A site with `count` samples of 1000 bytes that are live at the peak and at the end. `turns` as many
 * as that were freed. */
static void add_sampled(struct profile *p, const char *words, uint32_t count, shape made, double x,
			uint32_t turns)
{
	struct estimate_weight w = estimate_of_block(1000, RATE);
	uint64_t blocks = estimate_rounded(count * w.objects);
	struct profile_site *s = add_site(p, words, blocks, 1000);
	uint32_t site = (uint32_t)(s - p->sites);
	s->allocations *= turns + 1;
	s->frees = s->allocations - s->live_blocks;
	for (uint32_t i = 0; i < count; i++) {
		struct profile_birth *b = APPEND(p->estimates.peak_births.list,
						 p->estimates.peak_births.count);
		b->site = site;
		b->at = b->progress = made(x);
		b->age_ns = (uint64_t)((1 - b->at) * (double)LIFE_NS);
		b->bytes = w.bytes;
		b->variance = w.bytes_variance;
	}
	uint32_t spreads = site;
	struct profile_spread *v = APPEND(p->estimates.spreads, spreads);
	v->samples = (uint64_t)count * (turns + 1);
	v->live_samples = v->left_samples = v->peak_samples = count;
	v->peak_bytes = v->live_bytes = count * w.bytes_variance;
	v->allocated_bytes = (turns + 1) * v->peak_bytes;
	p->totals.peak_bytes += s->peak_bytes;
	p->totals.live_bytes += s->live_bytes;
	p->totals.allocations += s->allocations;
	p->estimates.total_spread.samples += v->samples;
	p->estimates.total_spread.peak_samples += count;
}

static struct profile *sampled_profile(void)
{
	struct profile *p = new_profile(LIFE_NS);
	p->run.rate_bytes = RATE;
	p->totals.peak_time_ns = LIFE_NS;
	return p;
}

static void finish(struct profile *p)
{
	p->estimates.errors = calloc((size_t)p->site_count + 1, sizeof *p->estimates.errors);
	assert_non_null(p->estimates.errors);
	profile_compute_errors(p);
}

/* The growing sites that are found; frees the profile. */
static uint32_t growing(struct profile *p)
{
	struct findings *f;
	uint32_t found = 0;
	assert_int_equal(findings_new(&f, p), 0);
	for (uint32_t i = 0; i < findings_count(f); i++)
		found += findings_get(f, i)->kind == FINDING_GROWING_SITE;
	findings_free(f);
	profile_free(p);
	return found;
}

/* How often it is found in a killed program. */
static double found_share(uint32_t count, shape made, double x, uint32_t turns)
{
	uint32_t found = 0;
	for (int i = 0; i < TRIALS; i++) {
		struct profile *p = sampled_profile();
		p->run.end = PROFILE_END_SIGNAL;
		p->run.signal = SIGKILL;
		add_sampled(p, "main:1 keep:7", count, made, x, turns);
		finish(p);
		found += growing(p);
	}
	return (double)found / TRIALS;
}

TEST(test_even_growth)
{
	static const uint32_t counts[] = {20, 50, 70, 100, 150, 220, 1000};
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
		print_message("%4u samples of even growth: found in %.1f %%\n", counts[i],
			      100 * found_share(counts[i], leak, 0, 0));
	assert_true(found_share(220, leak, 0, 0) >= 0.97);
	assert_true(found_share(1000, leak, 0, 0) == 1);
	/* Also if most blocks of the place are freed, as long as what stays is most of what it has. */
	assert_true(found_share(1000, both, 0.8, 50) >= 0.97);
	assert_true(found_share(15, leak, 0, 0) == 0);
}

TEST(test_what_does_not_grow)
{
	static const struct {
		const char *name;
		shape made;
		double x, most;
	} shapes[] = {
		{"working set that lives for 1 %", plateau, 0.01, 0},
		{"working set that lives for 10 %", plateau, 0.1, 0},
		{"working set that lives for 25 %", plateau, 0.25, 0},
		{"working set that lives for half of the run", plateau, 0.5, 0.05},
		{"cache that fills up within a quarter", filling, 0.25, 0},
		{"cache that fills up within half", filling, 0.5, 0.05},
		{"start-up", start_up, 0.05, 0},
		{"growth that stops after half", start_up, 0.5, 0},
		{"growth that stops after 80 %", start_up, 0.8, 0},
		{"ring of the last quarter", ring, 0.25, 0},
		{"ring of the last half", ring, 0.5, 0},
		{"ring of the last 7/8", ring, 0.875, 0},
		{"two bursts", two_bursts, 0.1, 0},
	};
	static const uint32_t counts[] = {50, 100, 300, 2000};
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
			double share = found_share(counts[k], shapes[i].made, shapes[i].x, 3);
			if (share > 0)
				print_message("%s, %u samples: taken for growth in %.2f %%\n",
					      shapes[i].name, counts[k], 100 * share);
			assert_true(share <= shapes[i].most);
		}
}

/* If a program ended by itself, something else must have been replaced again and again, and be young. */
TEST(test_steady)
{
	for (int with = 0; with < 4; with++) {
		struct profile *p = sampled_profile();
		add_sampled(p, "main:1 keep:7", 1000, leak, 0, 0);
		if (with)
			add_sampled(p, "main:2 session:9", 200, plateau, with == 2 ? 0.5 : 0.02,
				    with == 3 ? 1 : 5);
		finish(p);
		assert_int_equal(growing(p), with == 1);
	}
	/* Running, but only for a moment. */
	struct profile *p = sampled_profile();
	p->run.duration_ns = 5ull * SECOND;
	p->totals.peak_time_ns = p->run.duration_ns;
	p->run.end = PROFILE_END_RUNNING;
	add_sampled(p, "main:1 keep:7", 1000, leak, 0, 0);
	finish(p);
	assert_int_equal(growing(p), 0);
	/* The peak was long ago. */
	p = sampled_profile();
	p->run.end = PROFILE_END_RUNNING;
	p->totals.peak_time_ns = LIFE_NS / 2;
	add_sampled(p, "main:1 keep:7", 1000, leak, 0, 0);
	finish(p);
	assert_int_equal(growing(p), 0);
}

TEST(test_evidence)
{
	struct profile *p = sampled_profile();
	p->run.end = PROFILE_END_RUNNING;
	add_sampled(p, "main:1 keep:7", 1000, leak, 0, 1);
	add_sampled(p, "main:2 other:8", 1000, start_up, 0.01, 0);
	finish(p);
	struct findings *f;
	assert_int_equal(findings_new(&f, p), 0);
	assert_int_equal(findings_count(f), 1);
	const struct finding *g = findings_get(f, 0);
	/* Nothing else is replaced: it may be a store that is being filled. */
	assert_int_equal(g->severity, FINDING_MEDIUM);
	assert_non_null(strstr(g->summary, "kept growing until the recording ended"));
	assert_int_equal(g->site, 0);
	/* 1000 samples of 524.5 KiB each in 100 s: 5.12 MiB a second, certain to 1.96 / sqrt(750). */
	double rate = 1000 * estimate_of_block(1000, RATE).bytes / 100, got = 0, error = 0,
	       freed = 0;
	uint64_t samples = 0;
	for (uint32_t i = 0; i < g->evidence_count; i++) {
		const struct evidence *e = &g->evidence[i];
		if (strcmp(e->name, "bytes_per_second") == 0)
			got = (double)e->number;
		if (strcmp(e->name, "bytes_per_second_error95") == 0)
			error = (double)e->number;
		if (strcmp(e->name, "freed_share") == 0)
			freed = e->share;
		if (strcmp(e->name, "samples") == 0)
			samples = e->number;
	}
	assert_true(fabs(got / rate - 1) < 0.1);
	assert_true(fabs(error / got - 1.96 / sqrt(750)) < 0.01);
	assert_true(fabs(freed - 0.5) < 0.001);
	assert_int_equal(samples, 1000);
	findings_free(f);
	profile_free(p);
}

/* A sampled profile may have lost samples, or have too few of them. */
TEST(test_quality)
{
	struct profile *p = sampled_profile();
	struct findings *f;
	add_sampled(p, "main:1 keep:7", 40, start_up, 0.1, 0);
	p->totals.allocated_bytes = 40 * RATE;
	p->totals.dropped = 10;
	finish(p);
	assert_int_equal(findings_new(&f, p), 0);
	assert_int_equal(findings_count(f), 1);
	const struct finding *g = findings_get(f, 0);
	assert_int_equal(g->kind, FINDING_PROFILE_QUALITY);
	assert_non_null(strstr(g->summary, "20.0 % of all samples are missing"));
	const struct finding_note *n = note_with(f, "all numbers come from 40 samples");
	/* 20 MiB at 16 KiB are the first thousand samples and more. */
	assert_non_null(strstr(n->advice, "--sample=16k"));
	findings_free(f);
	profile_free(p);
	/* Nothing was drawn: likely less than one distance was allocated, and 512 KiB at 1 KiB are 512 samples. */
	p = sampled_profile();
	finish(p);
	assert_int_equal(findings_new(&f, p), 0);
	assert_int_equal(findings_count(f), 0);
	n = note_with(f, "no sample was taken");
	assert_non_null(strstr(n->advice, "--sample=1k"));
	findings_free(f);
	profile_free(p);
	p = sampled_profile();
	add_sampled(p, "main:1 keep:7", 140, start_up, 0.1, 0);
	p->totals.allocated_bytes = 140 * RATE;
	finish(p);
	assert_int_equal(findings_new(&f, p), 0);
	assert_int_equal(findings_count(f), 0);
	findings_free(f);
	profile_free(p);
}

UNIT_TESTS(NULL, NULL)
