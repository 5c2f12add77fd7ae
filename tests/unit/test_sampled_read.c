/* From the descriptor of a session file to tables and to the model: numbers that are known, files that make no
 * sense, and a file that changes while it is read. */
#include "agent/sampled_reading.h"
#include "profile/profile_from_trace.h"

#include "sampled_session.h"
#include "unit_test.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PID = 4711, SECOND = 1000000000, DAMAGED = 300 };

static int fd;
static void *base;
static struct sampled_known known;
static struct sampled_reading reading;
static struct heft_error err;

static int make(void **state)
{
	(void)state;
	static char *argv[] = {(char *)"program", (char *)"-x"};
	fd = memfd_create("session", MFD_CLOEXEC);
	base = fd < 0 ? NULL : sampled_session_make(fd);
	known = (struct sampled_known){
		.facts = {.pid = PID, .exe = "/bin/program", .argv = argv, .argc = 2},
		.start_tsc = 1,
	};
	return base ? 0 : -1;
}

static int unmake(void **state)
{
	(void)state;
	munmap(base, WIRE_FILE_BYTES);
	return close(fd);
}

static struct wire_header *header(void)
{
	return wire_session_at(base).header;
}

/* Every number in the contents that is an index must be one. */
static void check_contents(const struct trace_contents *c)
{
	for (uint32_t i = 0; i < c->node_count; i++) {
		assert_true(c->nodes[i].parent == TRACE_NONE || c->nodes[i].parent < i);
		assert_true(c->nodes[i].module == TRACE_NONE ||
			    c->nodes[i].module < c->module_count);
	}
	for (uint32_t i = 0; i < c->site_count; i++) {
		assert_true(c->sites[i].node == TRACE_NONE || c->sites[i].node < c->node_count);
		assert_true(c->sites[i].via < TRACE_VIA_COUNT);
	}
	for (uint32_t k = 0; k < c->samples_count; k++) {
		const struct trace_samples *s = &c->samples[k];
		assert_true(s->process < c->process_count);
		for (uint32_t i = 0; i < s->live_count; i++)
			assert_true(s->live[i].site < c->site_count && s->live[i].rate_bytes);
		for (uint32_t i = 0; i < s->peak_count; i++)
			assert_true(s->peak[i].site < c->site_count);
		for (uint32_t i = 0; i < s->sum_count; i++)
			assert_true(s->sums[i].site < c->site_count &&
				    s->sums[i].bytes_variance >= 0 &&
				    s->sums[i].bytes_variance < 1e38);
	}
}

TEST_WITH(test_numbers, make, unmake)
{
	struct wire_sample most[] = {{8 * BLOCK_BYTES, 1024, 1, 0, 2, 8}, {9, 1024, 1, 0, 3, 8}};
	struct profile *p;
	known.facts.end = TRACE_END_SIGNAL;
	known.facts.signal = 9;
	known.facts.start_ns = 5ull * SECOND; /* of its recorder */
	known.facts.end_ns = 7ull * SECOND;
	known.limit_bytes = 1 << 30;
	known.rss_bytes = 4096;
	known.rss_peak_bytes = 8192;
	known.rss_peak_ns = SECOND;
	known.peak = most;
	known.peak_count = 2;     /* the second names a node that is not there */
	known.peak_tsc = 1 << 20; /* some 0.4 ms after its start */
	header()->dropped = 3;
	assert_int_equal(sampled_read(&reading, fd, &known, &err), 0);
	const struct trace_contents *c = &reading.contents;
	check_contents(c);
	assert_int_equal(c->process_count, 1);
	assert_int_equal(c->processes[0].pid, PID);
	assert_int_equal(c->processes[0].end_ns, 2ull * SECOND);
	assert_int_equal(c->duration_ns, 2ull * SECOND);
	assert_int_equal(c->meta.memory_limit_bytes, 1 << 30);
	assert_int_equal(c->rss_count, 2);
	assert_int_equal(c->rss[0].rss_bytes, 8192);
	assert_int_equal(c->rss[1].time_ns, 2ull * SECOND);
	assert_int_equal(c->anonymous_count, 0);
	assert_int_equal(c->note_count, 1);
	assert_string_equal(c->notes[0].text,
			    "process 4711 lost 3 samples, because its tables were full");
	assert_int_equal(c->samples_count, 1);
	assert_int_equal(c->samples[0].live_count, BLOCKS);
	assert_int_equal(c->samples[0].peak_count, 1);
	assert_int_equal(c->samples[0].sum_count, 1);
	assert_int_equal(profile_from_samples(&p, c, NULL, &err), 0);
	sampled_reading_fini(&reading);
	assert_int_equal(p->totals.live_bytes, (uint64_t)BLOCKS * BLOCK_BYTES);
	assert_int_equal(p->totals.live_blocks, BLOCKS);
	assert_int_equal(p->totals.allocated_bytes, (uint64_t)BLOCKS * BLOCK_BYTES);
	assert_int_equal(p->totals.peak_bytes, 8ull * BLOCK_BYTES);
	assert_int_equal(p->site_count, 1);
	assert_int_equal(p->run.signal, 9);
	profile_free(p);
}

/* Without a peak that somebody has seen, it has most now. */
TEST_WITH(test_no_peak, make, unmake)
{
	struct profile *p;
	assert_int_equal(sampled_read(&reading, fd, &known, &err), 0);
	assert_int_equal(profile_from_samples(&p, &reading.contents, NULL, &err), 0);
	sampled_reading_fini(&reading);
	assert_int_equal(p->totals.peak_bytes, (uint64_t)BLOCKS * BLOCK_BYTES);
	profile_free(p);
}

/* What a recording of this mode cannot say is refused, and not looked for in events. */
TEST_WITH(test_selections, make, unmake)
{
	const struct profile_selection refused[] = {
		{.thread = "main"}, {.has_window = true, .to_ns = 1}, {.sizes = true}};
	const struct profile_selection taken = {.process_totals = true,
						.history = true,
						.judge_events = UINT64_MAX,
						.by_process = true};
	struct profile *p;
	assert_int_equal(sampled_read(&reading, fd, &known, &err), 0);
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
		assert_int_equal(profile_from_samples(&p, &reading.contents, &refused[i], &err),
				 HEFT_EREFUSED);
	assert_int_equal(profile_from_samples(&p, &reading.contents, &taken, &err), 0);
	profile_free(p);
	reading.contents.samples_count = 0;
	assert_int_equal(profile_from_samples(&p, &reading.contents, NULL, &err), HEFT_EFORMAT);
	sampled_reading_fini(&reading);
}

static void refuse(int file, int code)
{
	memset(&err, 0, sizeof err);
	assert_int_equal(sampled_read(&reading, file, &known, &err), code);
	assert_true(err.message[0]);
}

TEST_WITH(test_no_session_file, make, unmake)
{
	int ends[2], folder = open("/", O_RDONLY | O_DIRECTORY);
	assert_int_equal(pipe(ends), 0);
	refuse(-1, HEFT_EIO);
	refuse(ends[0], HEFT_EIO);
	refuse(folder, HEFT_EIO);
	close(ends[0]);
	close(ends[1]);
	close(folder);
	header()->version++;
	refuse(fd, HEFT_EFORMAT);
	header()->version--;
	header()->mode = WIRE_EXACT;
	refuse(fd, HEFT_EFORMAT);
	header()->mode = WIRE_SAMPLED;
	header()->magic = 0;
	refuse(fd, HEFT_EFORMAT);
	header()->magic = WIRE_MAGIC;
	static const uint64_t lengths[] = {0,
					   8,
					   WIRE_HEADER_BYTES,
					   WIRE_NODES_OFFSET + 16,
					   WIRE_CHUNKS_OFFSET + 4096,
					   WIRE_FILE_BYTES - 1,
					   WIRE_FILE_BYTES + 1};
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		int cut = memfd_create("cut", MFD_CLOEXEC);
		void *other = sampled_session_make(cut);
		assert_non_null(other);
		munmap(other, WIRE_FILE_BYTES);
		assert_int_equal(ftruncate(cut, (off_t)lengths[i]), 0);
		refuse(cut, HEFT_EFORMAT);
		close(cut);
	}
}

/* A reader gives the holes of the file no memory. */
TEST_WITH(test_holes_stay, make, unmake)
{
	struct stat before, after;
	assert_int_equal(fstat(fd, &before), 0);
	assert_int_equal(sampled_read(&reading, fd, &known, &err), 0);
	sampled_reading_fini(&reading);
	assert_int_equal(fstat(fd, &after), 0);
	assert_int_equal(after.st_blocks, before.st_blocks);
}

static uint64_t next_random(uint64_t *rng)
{
	*rng = *rng * 6364136223846793005ull + 1442695040888963407ull;
	return *rng >> 33;
}

/* Wild stores of the program: anything may be anywhere. What is left makes sense. */
TEST_WITH(test_damaged, make, unmake)
{
	static const struct {
		uint64_t from, bytes;
	} parts[] = {{8, 400}, /* the header behind its magic, as far as it matters */
		     {WIRE_LOG_OFFSET, 512},
		     {WIRE_NODES_OFFSET, 256},
		     {WIRE_CHUNKS_OFFSET, 4096},
		     {WIRE_CHUNKS_OFFSET + (8u << WIRE_SAMPLE_BITS_0), 32768},
		     {WIRE_SUMS_0, 4096},
		     {0, WIRE_FILE_BYTES}};
	uint64_t rng = 13;
	unsigned made = 0;
	for (int i = 0; i < DAMAGED; i++) {
		for (unsigned k = 0; k < 40; k++) {
			size_t part = next_random(&rng) % (sizeof parts / sizeof *parts);
			uint64_t at = parts[part].from + next_random(&rng) % parts[part].bytes;
			((uint8_t *)base)[at] ^= (uint8_t)next_random(&rng);
		}
		header()->version = WIRE_VERSION;
		header()->mode = WIRE_SAMPLED;
		header()->magic = WIRE_MAGIC;
		assert_int_equal(sampled_read(&reading, fd, &known, &err), 0);
		check_contents(&reading.contents);
		struct profile *p;
		if (i % 8 == 0 && !profile_from_samples(&p, &reading.contents, NULL, &err)) {
			made++;
			profile_free(p);
		}
		sampled_reading_fini(&reading);
	}
	assert_true(made > DAMAGED / 16);
}

/* Tables that claim to be as large as they can, and are full of samples. */
TEST_WITH(test_full_tables, make, unmake)
{
	uint32_t slots = 0;
	header()->sampling.live_levels = header()->sampling.sum_levels = UINT32_MAX;
	for (unsigned k = 0; k < WIRE_SAMPLE_LEVELS; k++) {
		struct wire_live_level live = wire_live_level(base, k);
		for (uint32_t i = 0; i < 1u << live.bits; i++, slots++) {
			live.blocks[i] = (struct wire_sample){BLOCK_BYTES, 1024, 1, 0, 2, 7};
			live.addresses[i] = 16 * (slots + 1);
		}
	}
	assert_int_equal(sampled_read(&reading, fd, &known, &err), 0);
	assert_int_equal(reading.samples.live_count, slots);
	sampled_reading_fini(&reading);
}

/* ---- a program that goes on */

static _Atomic bool stop;

/* Takes samples out and puts others in, as the library does. All fields of one are the same number, and it is slow
 * at writing them, so that one is always half written. */
static void *change(void *arg)
{
	(void)arg;
	struct wire_live_level live = wire_live_level(base, 0);
	for (uint64_t n = 1; !atomic_load(&stop); n++) {
		uint32_t i = (uint32_t)(n % 64);
		atomic_store(&live.addresses[i], WIRE_SAMPLE_BUSY);
		live.blocks[i].size = n;
		for (volatile int wait = 0; wait < 1000; wait++)
			;
		live.blocks[i].rate_bytes = live.blocks[i].birth_tsc = n;
		live.blocks[i].site = 2;
		atomic_store(&live.addresses[i], n << 4);
	}
	return NULL;
}

TEST_WITH(test_while_it_changes, make, unmake)
{
	pthread_t thread;
	uint64_t seen = 0;
	atomic_store(&stop, false);
	for (uint32_t i = 0; i < 1u << WIRE_SAMPLE_BITS_0; i++)
		wire_live_level(base, 0).addresses[i] = 0;
	assert_int_equal(pthread_create(&thread, NULL, change, NULL), 0);
	/* The other thread may get a processor late, and lose it for long with one half written. */
	for (int round = 0; round < 400 || (!seen && round < 100000); round++) {
		assert_int_equal(sampled_read(&reading, fd, &known, &err), 0);
		const struct trace_samples *s = &reading.samples;
		for (uint32_t i = 0; i < s->live_count; i++)
			assert_int_equal(s->live[i].size, s->live[i].rate_bytes);
		seen += s->live_count;
		sampled_reading_fini(&reading);
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	assert_true(seen > 0);
}

#define WITH_FILE(f) cmocka_unit_test_setup_teardown(f, make, unmake)

UNIT_TESTS(NULL, NULL)
