/* Samples in the file: what was written comes back, the last of a process counts, nothing that a
 * hostile payload says is believed; and what they are estimated to stand for, by hand. */
#include "profile/measure.h"
#include "profile/profile_from_trace.h"
#include "trace/trace.h"
#include "samples_fixture.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct trace_sample live[] = {
	{0, 10, 1000000, 1000, 5000, 400}, /* 1000 times the rate: certainly sampled */
	{1, 11, 99, 100, 9000, 1700},      /* (99 + 1) / 100: p = 1 - 1/e */
	{1, 11, 99, 100, 2000, 0},
};
static struct trace_sample peak[] = {{0, 10, 1000000, 1000, 5000, 400}};
static struct trace_sample_sum sums[] = {{0, 3, 3000000.5, 3.25, 1e12, 0.5},
					 {1, 7, 1234.0625, 12.5, 100, 25}};

static struct trace_samples samples(void)
{
	return (struct trace_samples){
		.process = 0,
		.time_ns = 10000,
		.rate_bytes = 1000,
		.on = true,
		.progress_bytes = 2800,
		.live = live,
		.live_count = 3,
		.sums = sums,
		.sum_count = 2,
		.peak_time_ns = 6000,
		.peak = peak,
		.peak_count = 1,
	};
}

static void write_recording(const char *path)
{
	struct trace_writer *w = samples_begin(path);
	struct heft_error err;
	struct trace_process process = {
		.pid = 7, .exe = "/nowhere/program", .argv = samples_argv, .argc = 1};
	trace_writer_process(w, &process);
	struct trace_samples early = samples(), late = samples();
	early.live_count = 1;
	early.time_ns = 100;
	assert_int_equal(trace_writer_samples(w, &early), 0);
	assert_int_equal(trace_writer_samples(w, &late), 0);
	struct tally t;
	tally_init(&t);
	assert_int_equal(trace_writer_close(w, 20000, &t, &err), 0);
	tally_fini(&t);
}

TEST(test_round_trip)
{
	char path[] = "/tmp/heft-samples-XXXXXX";
	close(mkstemp(path));
	write_recording(path);
	struct heft_error err;
	struct trace_reader *r;
	if (trace_reader_open(&r, path, &err))
		fail_msg("%s", err.message);
	const struct trace_contents *c = trace_reader_contents(r);
	assert_int_equal(c->samples_count, 1);
	const struct trace_samples *s = &c->samples[0];
	assert_int_equal(s->time_ns, 10000);
	assert_int_equal(s->rate_bytes, 1000);
	assert_int_equal(s->progress_bytes, 2800);
	assert_int_equal(s->live_count, 3);
	assert_memory_equal(s->live, live, sizeof live);
	assert_memory_equal(s->peak, peak, sizeof peak);
	assert_int_equal(s->sum_count, 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(s->sums[i].samples, sums[i].samples);
		assert_true(s->sums[i].bytes == sums[i].bytes &&
			    s->sums[i].objects == sums[i].objects &&
			    s->sums[i].bytes_variance == sums[i].bytes_variance &&
			    s->sums[i].objects_variance == sums[i].objects_variance);
	}
	trace_reader_close(r);
	struct trace_verify v;
	assert_int_equal(trace_verify(path, &v, &err), 0);
	unlink(path);
}

/* Versions 2 and 3 end after the sums. Numbers of 0 take a byte each: one for the process, one for each of the
 * four samples. */
TEST(test_without_progress)
{
	struct trace_samples s = samples(), back = {0};
	struct trace_sample before[3];
	struct byte_buffer b = {0};
	memcpy(before, live, sizeof before);
	for (int i = 0; i < 3; i++)
		before[i].progress_bytes = 0;
	s.live = before;
	s.peak = before;
	s.progress_bytes = 0;
	trace_samples_put(&b, &s);
	for (int cut = 0; cut <= 5; cut++) {
		struct byte_cursor c = {.at = b.data, .end = b.data + b.len - cut};
		const char *expected = trace_samples_get(&c, &back, 2, 1);
		if (cut == 0 || cut == 5) {
			assert_null(expected);
			assert_memory_equal(back.live, before, sizeof before);
			assert_int_equal(back.sum_count, 2);
		} else {
			assert_non_null(expected);
		}
		trace_samples_fini(&back);
	}
	free(b.data);
}

TEST(test_estimates)
{
	char path[] = "/tmp/heft-samples-XXXXXX";
	close(mkstemp(path));
	write_recording(path);
	struct heft_error err;
	struct profile *p;
	if (profile_from_recording(&p, path, NULL, &err))
		fail_msg("%s", err.message);
	unlink(path);
	assert_int_equal(p->run.rate_bytes, 1000);
	assert_int_equal(p->site_count, 2);
	const struct profile_site *large = &p->sites[0], *small = &p->sites[1];
	assert_int_equal(large->live_bytes, 1000000);
	assert_int_equal(large->live_blocks, 1);
	assert_int_equal(large->peak_bytes, 1000000);
	/* Certain, but for what the site may have beside it: one sample tells nothing of small blocks. */
	assert_int_equal(p->estimates.errors[0].live_bytes, 2996);
	/* 2 / (1 - 1/e) blocks of 99 bytes; variance 2 (1/e) / (1 - 1/e)^2, times 99^2. */
	double chance = 1 - exp(-1), v = 2 * exp(-1) / (chance * chance);
	assert_int_equal(small->live_blocks, 3);
	assert_int_equal(small->live_bytes, lround(2 * 99 / chance));
	assert_int_equal(p->estimates.errors[1].live_bytes,
			 lround(hypot(1.959964 * sqrt(v) * 99, 2995.732)));
	assert_int_equal(large->allocations, 3);
	assert_int_equal(large->allocated_bytes, 3000001);
	assert_int_equal(small->allocated_bytes, 1234);
	assert_int_equal(p->estimates.errors[0].allocated_bytes, lround(hypot(1959964, 2995.732)));
	/* 1.96 x 5, and 3 R in blocks of 1234 / 13 bytes. */
	assert_int_equal(p->estimates.errors[1].allocations,
			 lround(hypot(9.8, 2995.732 / (1234.0 / 13 + 1))));
	assert_int_equal(p->totals.live_bytes, large->live_bytes + small->live_bytes);
	assert_int_equal(p->estimates.total_errors.live_bytes,
			 p->estimates.errors[1].live_bytes); /* 3 samples, few too */
	assert_int_equal(p->totals.peak_bytes, 1000000);
	assert_int_equal(p->totals.peak_time_ns, 6000);
	profile_free(p);
}

static struct profile *load_profile(void)
{
	char path[] = "/tmp/heft-samples-XXXXXX";
	struct heft_error err;
	struct profile *p;
	close(mkstemp(path));
	write_recording(path);
	if (profile_from_recording(&p, path, NULL, &err))
		fail_msg("%s", err.message);
	unlink(path);
	return p;
}

/* What was seen at 10,000 ns of a process that began at 0: births at 5000, 9000 and 2000. */
TEST(test_ages)
{
	struct profile *p = load_profile();
	assert_int_equal(p->estimates.live_births.count, 3);
	assert_int_equal(p->estimates.peak_births.count, 1);
	assert_int_equal(p->estimates.peak_births.list[0].age_ns, 1000); /* at 6000 */
	assert_int_equal(p->estimates.ages[0].count, 1);
	assert_int_equal(p->estimates.ages[0].p50_ns, 5000);
	assert_int_equal(p->estimates.ages[0].max_ns, 5000);
	const struct profile_age *a = &p->estimates.ages[1];
	assert_int_equal(a->count, 2);
	assert_int_equal(a->min_ns, 1000);
	assert_int_equal(a->p50_ns, 1000); /* half of the bytes are no older */
	assert_int_equal(a->p99_ns, 8000);
	assert_int_equal(a->max_ns, 8000);
	assert_true(fabs(a->old_share - 0.5) < 1e-9); /* one of two, at 0.2 of the life */
	assert_int_equal(p->estimates.live_births.list[a->first].age_ns,
			 8000); /* the oldest first */
	profile_free(p);
}

TEST(test_certainty)
{
	struct profile *p = load_profile();
	assert_int_equal(measure_samples(p, 0, MEASURE_ALLOCATED_BYTES), 3);
	assert_int_equal(measure_samples(p, 1, MEASURE_LIVE_BYTES), 2);
	assert_int_equal(measure_samples(p, PROFILE_NONE, MEASURE_LIVE_BYTES), 3);
	/* One block that was certain to be sampled is enough; two small ones are not. */
	assert_false(measure_is_rough(p, 0, MEASURE_LIVE_BYTES));
	assert_true(measure_is_rough(p, 1, MEASURE_LIVE_BYTES));
	/* No sample at the peak: up to 3 R bytes may be there, in blocks of 1234 / 13 bytes (and 1). */
	assert_int_equal(p->sites[1].peak_bytes, 0);
	assert_int_equal(p->estimates.errors[1].peak_bytes, 2996);
	assert_int_equal(p->estimates.errors[1].peak_blocks, lround(2995.732 / (1234.0 / 13 + 1)));
	/* By thread: 10 has the large block, 11 the small ones. */
	assert_int_equal(p->thread_count, 2);
	assert_int_equal(p->threads[0].tid, 10);
	assert_int_equal(p->threads[0].live_bytes, 1000000);
	assert_int_equal(p->threads[1].live_bytes, p->sites[1].live_bytes);
	assert_int_equal(p->threads[1].errors.live_bytes, p->estimates.errors[1].live_bytes);
	/* The only process has what all have. */
	assert_int_equal(p->processes[0].totals.live_bytes, p->totals.live_bytes);
	assert_int_equal(p->processes[0].errors.live_bytes, p->estimates.total_errors.live_bytes);
	profile_free(p);
}

/* A filter leaves errors, samples and ages of what it keeps. */
TEST(test_filtered)
{
	struct profile *p = load_profile();
	struct heft_error err;
	struct profile_errors kept = p->estimates.errors[1];
	assert_int_equal(profile_filter(p, "program\\+0x2fff", NULL, &err), 0);
	assert_int_equal(p->site_count, 1);
	assert_memory_equal(&p->estimates.errors[0], &kept, sizeof kept);
	assert_memory_equal(&p->estimates.total_errors, &kept, sizeof kept);
	assert_int_equal(p->estimates.total_spread.live_samples, 2);
	assert_int_equal(p->estimates.live_births.count, 2);
	assert_int_equal(p->estimates.peak_births.count, 0);
	assert_int_equal(p->estimates.ages[0].first, 0);
	assert_int_equal(p->estimates.ages[0].max_ns, 8000);
	profile_free(p);
}

TEST(test_hostile)
{
	struct byte_buffer b = {0};
	struct trace_samples good = samples();
	trace_samples_put(&b, &good);
	assert_true(buffer_reserve(&b, 64));
	int whole = 0;
	for (size_t length = 0; length <= b.len; length++) {
		uint8_t *copy = malloc(length + PREFIX_SCRATCH);
		memcpy(copy, b.data, length);
		memset(copy + length, 0xff, PREFIX_SCRATCH);
		struct byte_cursor c = {copy, copy + length, false};
		struct trace_samples s = {0};
		const char *expected = trace_samples_get(&c, &s, 2, 1);
		whole += !expected;
		assert_true(length < b.len || !expected);
		trace_samples_fini(&s);
		free(copy);
	}
	assert_int_equal(whole,
			 2); /* all of it, and all but the progress (test_without_progress) */
	for (size_t i = 0; i < b.len * 8; i++) {
		struct byte_cursor c = {b.data, b.data + b.len, false};
		struct trace_samples s = {0};
		b.data[i / 8] ^= (uint8_t)(1 << i % 8);
		if (!trace_samples_get(&c, &s, 2, 1))
			for (uint32_t k = 0; k < s.live_count; k++)
				assert_true(s.live[k].site < 2);
		trace_samples_fini(&s);
		b.data[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	buffer_fini(&b);
}

int main(int argc, char **argv)
{
	if (argc > 1) { /* a seed for the fuzzer */
		write_recording(argv[1]);
		return 0;
	}
	return unit_tests_run(NULL, NULL);
}
