/* Allocates and frees for a while from many different stacks, checks the content of
 * its blocks, shows its progress in a file and prints a sum at the end: a program
 * that notices if something happens to its heap, for tests that hurt the recorder.
 *
 * usage: churn ROUNDS PROGRESS_FILE [MICROSECONDS to sleep every 1,000 rounds [DEPTH]]
 * With DEPTH there are 2^DEPTH stacks at most, otherwise 2^12. */
#include "program.h"

#include <fcntl.h>
#include <stdlib.h>

#define SLOTS 4096

static struct {
	unsigned char *p;
	size_t n;
} slot[SLOTS];
static uint64_t allocations, frees, sum;

NOINLINE static void take(unsigned at, size_t n)
{
	unsigned char *p = malloc(n);

	must(p != NULL, "malloc");
	p[0] = (unsigned char)at;
	p[n - 1] = (unsigned char)(at >> 4);
	slot[at].p = p;
	slot[at].n = n;
	allocations++;
}

/* Every path of bits is another stack. */
NOINLINE static void left(unsigned bits, int depth, unsigned at, size_t n);
NOINLINE static void right(unsigned bits, int depth, unsigned at, size_t n)
{
	if (depth == 0)
		take(at, n);
	else if (bits & 1)
		left(bits >> 1, depth - 1, at, n);
	else
		right(bits >> 1, depth - 1, at, n);
	keep(&bits);
}

NOINLINE static void left(unsigned bits, int depth, unsigned at, size_t n)
{
	if (depth == 0)
		take(at, n);
	else if (bits & 1)
		right(bits >> 1, depth - 1, at, n);
	else
		left(bits >> 1, depth - 1, at, n);
	keep(&bits);
}

NOINLINE static void drop(unsigned at)
{
	size_t n = slot[at].n;

	if (n > 1)
		must(slot[at].p[0] == (unsigned char)at, "content at the start");
	must(slot[at].p[n - 1] == (unsigned char)(at >> 4), "content at the end");
	sum = sum * 31 + n;
	free(slot[at].p);
	slot[at].p = NULL;
	frees++;
}

static void show_progress(int fd, uint64_t value)
{
	must(pwrite(fd, &value, sizeof(value), 0) == sizeof(value), "progress");
}

int main(int argc, char **argv)
{
	uint64_t random = 88172645463325252ull, rounds;
	int fd, pause = 0;
	uint64_t depths = 12;

	must(argc >= 3, "usage: churn ROUNDS PROGRESS [PAUSE]");
	rounds = (uint64_t)atoll(argv[1]);
	fd = open(argv[2], O_RDWR | O_CREAT, 0600);
	must(fd >= 0, "progress file");
	if (argc > 3)
		pause = atoi(argv[3]);
	if (argc > 4)
		depths = (uint64_t)atoi(argv[4]);
	for (uint64_t i = 0; i < rounds; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		unsigned at = (unsigned)(random % SLOTS);

		if (slot[at].p)
			drop(at);
		else
			left((unsigned)(random >> 20), (int)((random >> 50) % depths), at,
			     (random >> 30) % 2000 + 1);
		if (i % 1000 == 0) {
			show_progress(fd, i + 1);
			if (pause)
				usleep((unsigned)pause);
		}
	}
	for (unsigned at = 0; at < SLOTS; at += 2)
		if (slot[at].p)
			drop(at);
	say_number("allocations", allocations);
	say_number("frees", frees);
	say_number("sum", sum);
	show_progress(fd, UINT64_MAX);
	return 21;
}
