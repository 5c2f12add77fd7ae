/* The recording file when things go wrong: cut at every byte, every byte wrong,
 * lengths that lie, a full disk. What is left must open up to the last complete
 * block with exactly the numbers of the events that are left, and nothing may
 * crash (these tests also run under ASan and UBSan). */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/trace.h"
#include "trace/trace_block.h"
#include "trace_fixture.h"
#include "unit_test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { EVENTS = 600, SITES = 12, THREADS = 3, TICK = 2048, PIECE = 75 };

static char path[] = "/tmp/heft-test-damage.XXXXXX";
static struct trace_event *events;

/* The small recording all tests damage: blocks of 75 events, a checkpoint after every third. */
static char *good;
static size_t good_bytes;
static uint64_t ends[64]; /* where each block ends */
static uint64_t ends_events[64];
static int end_count;

static void write_good(void)
{
	struct tally tally;
	struct heft_error err = {0};
	tally_init(&tally);
	assert_int_equal(tally_reserve(&tally, SITES + 100, THREADS + 5), 0);
	struct trace_writer *w = open_writer(path, SITES, THREADS, TICK);
	for (size_t i = 0; i < EVENTS; i += PIECE) {
		assert_int_equal(trace_writer_events(w, events + i, PIECE), 0);
		tally_apply(&tally, events + i, PIECE);
		struct trace_rss rss = {events[i].time_ns, 0, 4096 * i};
		assert_int_equal(trace_writer_rss(w, &rss, 1), 0);
		if (i / PIECE % 3 == 2)
			assert_int_equal(
				trace_writer_checkpoint(w, events[i + PIECE - 1].time_ns, &tally),
				0);
		assert_int_equal(trace_writer_flush(w), 0);
	}
	assert_int_equal(trace_writer_close(w, events[EVENTS - 1].time_ns, &tally, &err), 0);
	tally_fini(&tally);
}

/* The blocks of the good file, by their headers alone. */
static void find_ends(void)
{
	uint64_t at = TRACE_FILE_HEADER_BYTES, seen = 0;
	while (at < good_bytes) {
		struct trace_block_header h;
		memcpy(&h, good + at, sizeof h);
		assert_null(trace_block_header_check(&h));
		at += sizeof h + h.stored_bytes;
		if (h.type == TRACE_BLOCK_EVENTS)
			seen += h.count;
		ends[end_count] = at;
		ends_events[end_count++] = seen;
	}
	assert_int_equal(at, good_bytes);
	assert_int_equal(seen, EVENTS);
}

static int set_up(void **state)
{
	(void)state;
	int fd = mkstemp(path);
	if (fd < 0)
		return 1;
	close(fd);
	events = heap_events(77, SITES, THREADS, EVENTS);
	write_good();
	good = read_file(path, &good_bytes);
	find_ends();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	free(good);
	free(events);
	return unlink(path);
}

static int count_events(void *ctx, const struct trace_event *batch, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		assert_true(batch[i].site < SITES && batch[i].thread < THREADS);
		assert_true(batch[i].old_site < SITES && batch[i].birth_thread < THREADS);
	}
	*(size_t *)ctx += count;
	return 0;
}

TEST(test_cut_at_every_byte)
{
	struct heft_error err;
	struct brute brute = {0};
	uint64_t brute_events = UINT64_MAX;
	write_file(path, good, good_bytes);
	for (size_t n = good_bytes; n-- > 0;) {
		assert_int_equal(truncate(path, (off_t)n), 0);
		struct trace_reader *r = NULL;
		struct trace_verify v;
		memset(&err, 0, sizeof err);
		int rc = trace_reader_open(&r, path, &err);
		if (n < ends[0]) { /* not even the meta block */
			assert_int_equal(rc, HEFT_EFORMAT);
			assert_non_null(strstr(err.message, path));
			assert_int_equal(trace_verify(path, &v, &err), HEFT_EFORMAT);
			continue;
		}
		assert_int_equal(rc, 0);
		int last = 0;
		while (last + 1 < end_count && ends[last + 1] <= n)
			last++;
		const struct trace_contents *c = trace_reader_contents(r);
		assert_false(c->complete);
		assert_int_equal(c->cut_offset, ends[last]);
		assert_int_equal(c->events, ends_events[last]);
		assert_int_equal(c->file_bytes, n);
		if (brute_events != c->events) {
			brute_events = c->events;
			brute_replay(&brute, events, brute_events);
		}
		assert_brute(&brute, c->tally, TICK);
		size_t seen = 0;
		assert_int_equal(trace_reader_events(r, 0, UINT64_MAX, count_events, &seen, &err),
				 0);
		assert_int_equal(seen, c->events);
		trace_reader_close(r);
		assert_int_equal(trace_verify(path, &v, &err), 0);
		assert_false(v.complete);
		assert_int_equal(v.cut_offset, ends[last]);
		assert_int_equal(v.events, ends_events[last]);
	}
}

TEST(test_every_byte_wrong)
{
	static const uint8_t masks[] = {0x01, 0x80, 0xff};
	struct heft_error err;
	write_file(path, good, good_bytes);
	int fd = open(path, O_WRONLY);
	assert_true(fd >= 0);
	for (size_t m = 0; m < sizeof masks; m++) {
		for (size_t i = 0; i < good_bytes; i++) {
			char wrong = (char)(good[i] ^ masks[m]);
			assert_int_equal(pwrite(fd, &wrong, 1, (off_t)i), 1);
			if (i)
				assert_int_equal(pwrite(fd, &good[i - 1], 1, (off_t)(i - 1)), 1);
			/* verify must notice; a length that now points beyond the end is a cut. */
			struct trace_verify v;
			int rc = trace_verify(path, &v, &err);
			assert_true(rc == HEFT_EFORMAT || (rc == 0 && !v.complete));
			struct trace_reader *r;
			if (trace_reader_open(&r, path, &err))
				continue;
			/* What opens has only events that were there. */
			size_t seen = 0;
			rc = trace_reader_events(r, 0, UINT64_MAX, count_events, &seen, &err);
			assert_true(rc == 0 || rc == HEFT_EFORMAT);
			assert_true(seen <= EVENTS);
			trace_reader_close(r);
		}
		assert_int_equal(pwrite(fd, &good[good_bytes - 1], 1, (off_t)(good_bytes - 1)), 1);
	}
	close(fd);
	struct trace_verify v; /* the last byte is right again, and so is all */
	assert_int_equal(trace_verify(path, &v, &err), 0);
	assert_true(v.complete);
}

/* Changes a block's header and makes its checksum right again. */
static void forge(char *file, size_t at, void (*change)(struct trace_block_header *))
{
	struct trace_block_header h;
	memcpy(&h, file + at, sizeof h);
	change(&h);
	if (h.stored_bytes <= good_bytes - at - sizeof h)
		h.checksum = trace_block_checksum(&h, at, file + at + sizeof h);
	memcpy(file + at, &h, sizeof h);
}

static void say_4_gib(struct trace_block_header *h)
{
	h->raw_bytes = UINT32_MAX;
}

static void say_stored_60_mib(struct trace_block_header *h)
{
	h->stored_bytes = h->raw_bytes = 60 << 20;
	h->flags = 0;
}

static void say_60_mib(struct trace_block_header *h)
{
	h->raw_bytes = 60 << 20;
}

static void say_more_events(struct trace_block_header *h)
{
	h->count = UINT64_MAX;
}

static void say_unknown_type(struct trace_block_header *h)
{
	h->type = 200;
}

TEST(test_lengths_that_lie)
{
	static void (*const changes[])(struct trace_block_header *) = {
		say_4_gib, say_stored_60_mib, say_60_mib, say_more_events, say_unknown_type,
	};
	struct heft_error err;
	char *file = malloc(good_bytes);
	for (size_t c = 0; c < sizeof changes / sizeof changes[0]; c++) {
		for (int b = 0; b + 1 < end_count; b++) {
			memcpy(file, good, good_bytes);
			forge(file, ends[b], changes[c]);
			write_file(path, file, good_bytes);
			struct trace_verify v;
			int rc = trace_verify(path, &v, &err);
			if (changes[c] == say_4_gib) {
				/* Refused by its header, before memory is taken. */
				assert_int_equal(rc, HEFT_EFORMAT);
				assert_non_null(strstr(err.message, "within the limits"));
			}
			/* Harmless only where `count` is unused. */
			if (rc == 0 && v.complete)
				assert_ptr_equal(changes[c], say_more_events);
			struct trace_reader *r;
			if (trace_reader_open(&r, path, &err) == 0) {
				size_t seen = 0;
				trace_reader_events(r, 0, UINT64_MAX, count_events, &seen, &err);
				trace_reader_close(r);
			} else {
				assert_int_equal(err.code, HEFT_EFORMAT);
				assert_non_null(strstr(err.message, "at offset"));
			}
		}
	}
	free(file);
}

TEST(test_wrong_tally)
{
	struct heft_error err = {0};
	struct tally tally;
	tally_init(&tally);
	assert_int_equal(tally_reserve(&tally, SITES, THREADS), 0);
	struct trace_writer *w = open_writer(path, SITES, THREADS, TICK);
	assert_int_equal(trace_writer_events(w, events, EVENTS), 0);
	tally_apply(&tally, events, EVENTS);
	uint32_t site = events[0].site;
	tally.sites[site].allocations++;
	assert_int_equal(trace_writer_close(w, events[EVENTS - 1].time_ns, &tally, &err), 0);
	tally_fini(&tally);
	struct trace_verify v;
	assert_int_equal(trace_verify(path, &v, &err), HEFT_EFORMAT);
	char want[64];
	snprintf(want, sizeof want, "for site %u, but the tally says", site);
	assert_non_null(strstr(err.message, want));
	assert_non_null(strstr(err.message, "expected allocations"));
	assert_non_null(strstr(err.message, path));
}

TEST(test_trailing_bytes)
{
	struct heft_error err;
	char *file = malloc(good_bytes + 100);
	memcpy(file, good, good_bytes);
	memset(file + good_bytes, 'x', 100);
	write_file(path, file, good_bytes + 100);
	free(file);
	struct trace_reader *r;
	assert_int_equal(trace_reader_open(&r, path, &err), 0);
	assert_true(trace_reader_contents(r)->complete);
	assert_int_equal(trace_reader_contents(r)->events, EVENTS);
	trace_reader_close(r);
	struct trace_verify v;
	assert_int_equal(trace_verify(path, &v, &err), HEFT_EFORMAT);
	assert_non_null(strstr(err.message, "nothing after it"));
}

/* A checkpoint of several parts that is cut between them does not count. */
TEST(test_cut_between_parts)
{
	uint32_t sites = TRACE_TALLY_PART + 10;
	struct heft_error err = {0};
	struct tally tally;
	tally_init(&tally);
	assert_int_equal(tally_reserve(&tally, sites, 1), 0);
	struct trace_event pair[] = {
		{.time_ns = 1, .size = 100, .site = sites - 1, .op = TRACE_ALLOC},
		{.time_ns = 2, .size = 40, .site = 3, .op = TRACE_ALLOC},
	};
	struct trace_writer *w = open_writer(path, sites, 1, 1);
	uint64_t checkpoints[3];
	for (int i = 0; i < 2; i++) {
		assert_int_equal(trace_writer_events(w, &pair[i], 1), 0);
		tally_apply(&tally, &pair[i], 1);
		assert_int_equal(trace_writer_flush(w), 0);
		checkpoints[i] = trace_writer_bytes(w);
		assert_int_equal(trace_writer_checkpoint(w, 2, &tally), 0);
	}
	checkpoints[2] = trace_writer_bytes(w);
	trace_writer_abandon(w);
	tally_fini(&tally);
	size_t n;
	char *file = read_file(path, &n);
	assert_int_equal(n, checkpoints[2]);
	struct trace_block_header h;
	memcpy(&h, file + checkpoints[1], sizeof h);
	assert_int_equal(h.type, TRACE_BLOCK_CHECKPOINT);
	assert_int_equal(h.count, 1); /* one more part follows */
	uint64_t between = checkpoints[1] + sizeof h + h.stored_bytes;
	assert_true(between < n);
	uint64_t cuts[] = {between, n, checkpoints[1]};
	for (int i = 0; i < 3; i++) {
		write_file(path, file, cuts[i]);
		struct trace_reader *r;
		assert_int_equal(trace_reader_open(&r, path, &err), 0);
		const struct tally *t = trace_reader_contents(r)->tally;
		assert_int_equal(t->events, 2);
		assert_int_equal(t->peak_bytes, 140);
		assert_int_equal(t->sites[sites - 1].peak_bytes, 100);
		assert_int_equal(t->sites[3].peak_bytes, 40);
		trace_reader_close(r);
	}
	free(file);
}

/* Runs in a child: a file size limit stands for a full disk. Returns the first failing code. */
static int write_until_full(rlim_t limit)
{
	struct rlimit rl = {limit, limit};
	struct heft_error err = {0};
	struct tally tally;
	tally_init(&tally);
	if (tally_reserve(&tally, SITES, THREADS) || signal(SIGXFSZ, SIG_IGN) == SIG_ERR)
		return 1;
	struct trace_writer *w = open_writer(path, SITES, THREADS, TICK);
	setrlimit(RLIMIT_FSIZE, &rl);
	int rc = 0;
	for (size_t i = 0; i < EVENTS && !rc; i += PIECE) {
		rc = trace_writer_events(w, events + i, PIECE);
		if (!rc)
			rc = trace_writer_flush(w);
	}
	if (rc != HEFT_EIO)
		return 2;
	/* Latched: everything fails the same way, and the file does not change any more. */
	uint64_t bytes = trace_writer_bytes(w);
	if (trace_writer_events(w, events, 1) != rc || trace_writer_flush(w) != rc ||
	    trace_writer_note(w, &(struct trace_note){.text = ""}) != rc ||
	    trace_writer_checkpoint(w, 0, &tally) != rc || trace_writer_bytes(w) != bytes)
		return 3;
	if (trace_writer_close(w, 1, &tally, &err) != rc || err.sys_errno != EFBIG)
		return 4;
	if (!strstr(err.message, path) || !strstr(err.message, "can be read"))
		return 5;
	return 0;
}

TEST(test_full_disk)
{
	struct heft_error err;
	for (rlim_t limit = 300; limit < good_bytes / 2; limit += 97) {
		pid_t child = fork();
		if (child == 0)
			_exit(write_until_full(limit));
		int status;
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
		struct trace_reader *r;
		assert_int_equal(trace_reader_open(&r, path, &err), 0);
		const struct trace_contents *c = trace_reader_contents(r);
		/* Cut back to the last complete block: nothing lies behind it. */
		assert_int_equal(c->cut_offset, c->file_bytes);
		assert_int_equal(c->events % PIECE, 0);
		struct brute brute;
		brute_replay(&brute, events, c->events);
		assert_brute(&brute, c->tally, TICK);
		trace_reader_close(r);
	}
	struct trace_writer *w;
	struct trace_meta meta = {.heft_version = "0", .tick_ns = 2048};
	assert_int_equal(trace_writer_open(&w, "/dev/full", true, &meta, &err), HEFT_EIO);
	assert_int_equal(err.sys_errno, ENOSPC);
	assert_int_equal(access("/dev/full", F_OK), 0);
}

UNIT_TESTS(set_up, tear_down)
