/* The peak of several sampled processes, by hand: from what the recorder saw of all of them, and from
 * what each tells by itself. Blocks are a thousand times the rate, so each stands for itself. */
#include "profile/profile_from_trace.h"
#include "trace/trace.h"
#include "samples_fixture.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MB 1000000

static struct trace_sample block(uint32_t site, uint64_t birth_ns)
{
	return (struct trace_sample){site, 10, MB, 1000, birth_ns, 0};
}

struct scene {
	uint64_t second_start_ns;
	struct trace_sample second[2];
	struct trace_peak peak;
};

/* The first process has blocks of site 0 made at 1000 and 2000, both at its own peak at 4000; the first of
 * them is there at its end at 10000. The second one keeps two blocks of site 1 up to its end at 20000. */
static void write_recording(const char *path, const struct scene *s)
{
	struct trace_writer *w = samples_begin(path);
	struct heft_error err;
	struct tally t;
	struct trace_sample first[] = {block(0, 1000), block(0, 2000)}, second[2];
	memcpy(second, s->second, sizeof second);
	struct trace_process processes[] = {{.pid = 7,
					     .exe = "/nowhere/program",
					     .argv = samples_argv,
					     .argc = 1,
					     .end = TRACE_END_EXIT,
					     .end_ns = 10000},
					    {.pid = 8,
					     .ppid = 7,
					     .exe = "/nowhere/program",
					     .argv = samples_argv,
					     .argc = 1,
					     .start_ns = s->second_start_ns,
					     .end = TRACE_END_EXIT,
					     .end_ns = 20000}};
	trace_writer_process(w, &processes[0]);
	trace_writer_process(w, &processes[1]);
	assert_int_equal(trace_writer_samples(w, &(struct trace_samples){.process = 0,
									 .time_ns = 10000,
									 .rate_bytes = 1000,
									 .on = true,
									 .live = first,
									 .live_count = 1,
									 .peak = first,
									 .peak_count = 2,
									 .peak_time_ns = 4000}),
			 0);
	assert_int_equal(trace_writer_samples(w, &(struct trace_samples){.process = 1,
									 .time_ns = 20000,
									 .rate_bytes = 1000,
									 .on = true,
									 .live = second,
									 .live_count = 2,
									 .peak = second,
									 .peak_count = 2,
									 .peak_time_ns = 20000}),
			 0);
	if (s->peak.part_count)
		assert_int_equal(trace_writer_peak(w, &s->peak), 0);
	tally_init(&t);
	assert_int_equal(trace_writer_close(w, 20000, &t, &err), 0);
	tally_fini(&t);
}

static struct profile *load(const struct scene *s, int32_t pid)
{
	char path[] = "/tmp/heft-peak-XXXXXX";
	struct heft_error err;
	struct profile *p;
	struct trace_verify v;
	struct profile_selection selection = {.has_pid = pid != 0, .pid = pid};
	close(mkstemp(path));
	write_recording(path, s);
	if (trace_verify(path, &v, &err) || profile_from_recording(&p, path, &selection, &err))
		fail_msg("%s", err.message);
	unlink(path);
	return p;
}

static uint64_t peak_via(const struct profile *p, unsigned via)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < p->site_count; i++)
		if (p->sites[i].via == via)
			sum += p->sites[i].peak_bytes;
	return sum;
}

static void check(const struct scene *s, int32_t pid, uint64_t first, uint64_t second,
		  uint64_t time_ns)
{
	struct profile *p = load(s, pid);
	assert_int_equal(peak_via(p, TRACE_VIA_MALLOC), first);
	assert_int_equal(peak_via(p, TRACE_VIA_CALLOC), second);
	assert_int_equal(p->totals.peak_bytes, first + second);
	assert_int_equal(p->totals.peak_blocks, (first + second) / MB);
	assert_int_equal(p->totals.peak_time_ns, time_ns);
	profile_free(p);
}

/* The first has two from 2000 to 4000, one up to 10000: with two of the second's, three from 7000 on. */
TEST(test_overlap)
{
	struct scene s = {5000, {block(1, 6000), block(1, 7000)}, {0}};
	check(&s, 0, MB, 2 * MB, 7000);
	check(&s, 7, 2 * MB, 0, 4000);
	check(&s, 8, 0, 2 * MB, 20000);
}

/* Three at 3500 if the second begins so early: both of the first, and one. */
TEST(test_early_overlap)
{
	struct scene s = {3000, {block(1, 3500), block(1, 15000)}, {0}};
	check(&s, 0, 2 * MB, MB, 3500);
}

/* One after the other: two, when the first had two. */
TEST(test_in_turn)
{
	struct scene s = {12000, {block(1, 13000), block(1, 14000)}, {0}};
	check(&s, 0, 2 * MB, 0, 2000);
	/* The last moment of the first counts, the one after it does not. */
	s.second[0] = s.second[1] = block(1, 10000);
	s.second[1].tid = 11;
	check(&s, 0, MB, 2 * MB, 10000);
	s.second[0].birth_ns = s.second[1].birth_ns = 10001;
	check(&s, 0, 2 * MB, 0, 2000);
}

/* What the recorder saw has blocks that neither keeps; it counts if it is more. */
TEST(test_seen)
{
	struct trace_sample first[] = {block(0, 1000), block(0, 5000), block(0, 5500)};
	struct trace_sample second[] = {block(1, 6000)};
	struct trace_peak_part parts[] = {{0, first, 3, false}, {1, second, 1, false}};
	struct scene s = {5000, {block(1, 6000), block(1, 7000)}, {6500, parts, 2}};
	check(&s, 0, 3 * MB, MB, 6500);
	check(&s, 7, 2 * MB, 0, 4000); /* of one process its own peak */
	parts[0].count = 1;
	check(&s, 0, MB, 2 * MB, 7000); /* less than what is known: from before a crash */
}

TEST(test_hostile)
{
	struct trace_sample first[] = {block(0, 1000)}, second[] = {block(1, 6000), block(0, 1)};
	struct trace_peak_part parts[] = {{0, first, 1, false}, {2, second, 2, false}};
	struct trace_peak good = {6500, parts, 2}, back;
	struct byte_buffer b = {0};
	trace_peak_put(&b, &good);
	assert_true(buffer_reserve(&b, 64));
	for (size_t length = 0; length <= b.len; length++) {
		uint8_t *copy = malloc(length + PREFIX_SCRATCH);
		memcpy(copy, b.data, length);
		memset(copy + length, 0xff, PREFIX_SCRATCH);
		struct byte_cursor c = {copy, copy + length, false};
		memset(&back, 0, sizeof back);
		assert_true((trace_peak_get(&c, &back, 2, 3) == NULL) == (length == b.len));
		if (length == b.len) {
			assert_int_equal(back.part_count, 2);
			assert_int_equal(back.parts[1].process, 2);
			assert_memory_equal(back.parts[1].samples, second, sizeof second);
		}
		trace_peak_fini(&back);
		free(copy);
	}
	for (size_t i = 0; i < b.len * 8; i++) {
		struct byte_cursor c = {b.data, b.data + b.len, false};
		memset(&back, 0, sizeof back);
		b.data[i / 8] ^= (uint8_t)(1 << i % 8);
		if (!trace_peak_get(&c, &back, 2, 3))
			for (uint32_t k = 0; k < back.part_count; k++) {
				assert_true(back.parts[k].process < 3);
				for (uint32_t n = 0; n < back.parts[k].count; n++)
					assert_true(back.parts[k].samples[n].site < 2);
			}
		trace_peak_fini(&back);
		b.data[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	/* A process twice, and one that is not there. */
	parts[1].process = 0;
	b.len = 0;
	trace_peak_put(&b, &good);
	struct byte_cursor twice = {b.data, b.data + b.len, false};
	memset(&back, 0, sizeof back);
	assert_non_null(trace_peak_get(&twice, &back, 2, 3));
	trace_peak_fini(&back);
	buffer_fini(&b);
}

int main(int argc, char **argv)
{
	if (argc > 1) { /* a seed for the fuzzer */
		struct trace_sample first[] = {block(0, 1000)}, second[] = {block(1, 6000)};
		struct trace_peak_part parts[] = {{0, first, 1, false}, {1, second, 1, false}};
		write_recording(
			argv[1],
			&(struct scene){5000, {block(1, 6000), block(1, 7000)}, {6500, parts, 2}});
		return 0;
	}
	return unit_tests_run(NULL, NULL);
}
