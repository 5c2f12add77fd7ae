/*
 * A server to scrape profiles from: many live blocks with many stacks, and a loop of its own whose
 * latency shows whether scraping disturbs it.
 *
 *   served BLOCKS SECONDS
 *
 * BLOCKS live blocks of 2 KiB from 1,000 places: run with --sample=1k, where 86 % of them are
 * samples. Then one request each 100 us: 20 blocks of 16 to 2,000 bytes, written and freed. Measured
 * is the time from a request's start to its end, without the waiting in between, so a busy machine
 * shows only where it interrupts one.
 *
 * Prints "ready pid=N blocks=N", then a line of figures at each SIGUSR1 and at the end, over the
 * requests since the line before: "requests=N p50_ns=N p99_ns=N max_ns=N". Times fall into buckets
 * of 1/16 of their power of two, so a percentile is at most 6 % too high.
 */
#include "micro.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK_BYTES = 2048, REQUEST_BLOCKS = 20, PERIOD_NS = 100 * 1000, BUCKETS = 64 * 16 };

struct figures {
	unsigned long requests;
	unsigned long bucket[BUCKETS];
	long long most_ns;
};

static volatile sig_atomic_t asked;

static void on_signal(int number)
{
	(void)number;
	asked = 1;
}

static long long now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (long long)time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* Ten functions that call one another by the digits of a path: three digits are a thousand stacks. */
typedef void *place(unsigned path, int depth);
static place *const places[10];

#define PLACE(n)                                                                                   \
	static NOINLINE void *place_##n(unsigned path, int depth)                                  \
	{                                                                                          \
		void *block = depth ? places[path % 10](path / 10, depth - 1)                      \
				    : malloc(BLOCK_BYTES);                                         \
                                                                                                   \
		KEEP(block);                                                                       \
		return block;                                                                      \
	}
PLACE(0)
PLACE(1)
PLACE(2)
PLACE(3)
PLACE(4)
PLACE(5)
PLACE(6)
PLACE(7)
PLACE(8)
PLACE(9)

static place *const places[10] = {place_0, place_1, place_2, place_3, place_4,
				  place_5, place_6, place_7, place_8, place_9};

static NOINLINE void request(unsigned number)
{
	void *block[REQUEST_BLOCKS];

	for (unsigned i = 0; i < REQUEST_BLOCKS; i++) {
		size_t size = 16 + (number * 7919u + i * 104729u) % 1985;

		block[i] = malloc(size);
		if (block[i])
			memset(block[i], 1, size);
	}
	for (unsigned i = 0; i < REQUEST_BLOCKS; i++)
		free(block[i]);
}

static unsigned bucket_of(long long ns)
{
	unsigned exponent = ns < 16 ? 4 : 63 - (unsigned)__builtin_clzll((unsigned long long)ns);

	return (exponent - 4) * 16 + (unsigned)(ns >> (exponent - 4)) % 16;
}

/* The upper end of the bucket in which the given share of requests has been reached. */
static long long percentile(const struct figures *f, double share)
{
	unsigned long seen = 0;

	for (unsigned i = 0; i < BUCKETS; i++) {
		seen += f->bucket[i];
		if ((double)seen >= share * (double)f->requests)
			return (long long)(16 + i % 16 + 1) << (i / 16);
	}
	return f->most_ns;
}

static void show(struct figures *f)
{
	if (f->requests)
		printf("requests=%lu p50_ns=%lld p99_ns=%lld max_ns=%lld\n", f->requests,
		       percentile(f, 0.5), percentile(f, 0.99), f->most_ns);
	fflush(stdout);
	memset(f, 0, sizeof(*f));
}

static void serve(double seconds)
{
	static struct figures figures;
	long long next_ns = now_ns();
	long long end_ns = next_ns + (long long)(seconds * 1e9);

	for (unsigned number = 0; next_ns < end_ns; number++) {
		long long start_ns = now_ns();
		long long taken_ns;

		request(number);
		taken_ns = now_ns() - start_ns;
		figures.requests++;
		figures.bucket[bucket_of(taken_ns)]++;
		if (taken_ns > figures.most_ns)
			figures.most_ns = taken_ns;
		if (asked) {
			asked = 0;
			show(&figures);
		}
		/* What was missed is not made up for: the load stays even. */
		next_ns = (next_ns + PERIOD_NS > start_ns ? next_ns : start_ns) + PERIOD_NS;
		while (start_ns < next_ns) {
			struct timespec until = {next_ns / 1000000000LL, next_ns % 1000000000LL};

			clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
			start_ns = now_ns();
		}
	}
	show(&figures);
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_signal};
	void **blocks;
	long count;

	if (argc != 3 || (count = atol(argv[1])) < 1) {
		fputs("usage: served BLOCKS SECONDS\n", stderr);
		return 2;
	}
	blocks = calloc((size_t)count, sizeof(*blocks));
	for (long i = 0; blocks && i < count; i++)
		blocks[i] = places[i % 10]((unsigned)(i / 10) % 100, 2);
	if (!blocks || !blocks[count - 1])
		return 1;
	sigaction(SIGUSR1, &action, NULL);
	printf("ready pid=%d blocks=%ld\n", getpid(), count);
	fflush(stdout);
	serve(atof(argv[2]));
	free(blocks);
	return 0;
}
