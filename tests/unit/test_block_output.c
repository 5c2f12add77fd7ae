/* A recording that is written by a thread of its own: everything arrives in order, an error is told, and a disk that
 * stands still holds nobody up. The disk is a pipe. Run under ThreadSanitizer too. */
#include "trace/block_output.h"
#include "unit_test.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PIECES = 2000 };

static uint64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

struct reader {
	int fd;
	uint64_t bytes, wrong;
};

/* Reads bytes that count up from 0, and waits now and then. */
static void *read_all(void *arg)
{
	struct reader *r = arg;
	unsigned char buffer[4096];
	ssize_t n;
	while ((n = read(r->fd, buffer, sizeof buffer)) > 0) {
		for (ssize_t i = 0; i < n; i++)
			r->wrong += buffer[i] != (unsigned char)(r->bytes + (uint64_t)i);
		r->bytes += (uint64_t)n;
		if (r->bytes % 7 == 0)
			usleep(100);
	}
	return NULL;
}

TEST(test_everything_arrives_in_order)
{
	int fds[2];
	struct block_output o;
	struct reader r = {0};
	pthread_t thread;
	uint64_t sent = 0;
	assert_int_equal(pipe(fds), 0);
	r.fd = fds[0];
	block_output_init(&o, fds[1], 100);
	block_output_write_apart(&o);
	assert_int_equal(pthread_create(&thread, NULL, read_all, &r), 0);
	for (unsigned i = 0; i < PIECES; i++) {
		unsigned char piece[1500];
		size_t size = 1 + (i * 37) % sizeof piece;
		for (size_t k = 0; k < size; k++)
			piece[k] = (unsigned char)(sent + k);
		assert_int_equal(block_output_write(&o, piece, size), 0);
		sent += size;
	}
	assert_int_equal(block_output_finish(&o, 20000), 0);
	assert_int_equal(o.offset, 100 + sent);
	assert_int_equal(block_output_behind(&o), 0);
	close(fds[1]);
	pthread_join(thread, NULL);
	assert_int_equal(r.bytes, sent);
	assert_int_equal(r.wrong, 0);
	close(fds[0]);
}

TEST(test_an_error_is_told)
{
	int fds[2];
	struct block_output o;
	char piece[1000] = "";
	int error = 0;
	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe(fds), 0);
	block_output_init(&o, fds[1], 0);
	block_output_write_apart(&o);
	assert_int_equal(block_output_write(&o, piece, sizeof piece), 0);
	while (block_output_behind(&o)) /* the first piece arrives */
		usleep(1000);
	close(fds[0]);
	for (int i = 0; i < 1000 && !error; i++)
		error = block_output_write(&o, piece, sizeof piece);
	assert_int_equal(error, EPIPE);
	assert_int_equal(block_output_write(&o, piece, sizeof piece), EPIPE);
	assert_int_equal(block_output_behind(&o), 0);
	assert_int_equal(block_output_finish(&o, 20000), EPIPE);
	assert_int_equal(o.offset, sizeof piece);
	close(fds[1]);
}

/* A pipe has room for 64 KiB: a megabyte waits, and nobody waits for it. */
TEST(test_a_disk_that_stands_still)
{
	static struct block_output kept; /* the thread has it until the end, and the descriptor */
	struct block_output *o = &kept;
	int fds[2];
	char *piece = calloc(1, 1 << 20);
	assert_non_null(piece);
	assert_int_equal(pipe(fds), 0);
	block_output_init(o, fds[1], 0);
	block_output_write_apart(o);
	uint64_t began = now_ms();
	for (int i = 0; i < 20; i++)
		assert_int_equal(block_output_write(o, piece, 1 << 20), 0);
	assert_true(now_ms() - began < 10000);
	assert_int_equal(block_output_behind(o), 20 << 20);
	assert_int_equal(block_output_finish(o, 100), BLOCK_OUTPUT_STANDS);
	/* It goes on by itself as soon as it can. */
	uint64_t read_bytes = 0;
	while (read_bytes < 20 << 20) {
		ssize_t n = read(fds[0], piece, 1 << 20);
		assert_true(n > 0);
		read_bytes += (uint64_t)n;
	}
	free(piece);
}

TEST(test_without_a_thread)
{
	int fds[2];
	struct block_output o;
	char text[4] = "";
	assert_int_equal(pipe(fds), 0);
	block_output_init(&o, fds[1], 0);
	assert_int_equal(block_output_write(&o, "abc", 3), 0);
	assert_int_equal(block_output_behind(&o), 0);
	assert_int_equal(block_output_finish(&o, 1), 0);
	assert_int_equal(read(fds[0], text, 3), 3);
	assert_string_equal(text, "abc");
	close(fds[0]);
	close(fds[1]);
}

UNIT_TESTS(NULL, NULL)
