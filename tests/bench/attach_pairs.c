/* Measures malloc + free on request: for each line on standard input it times some
 * batches of pairs, 20 calls deep, and prints the fastest batch in nanoseconds a pair. The
 * program stays the same while heft attaches to it and leaves it again. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PAIRS = 200000, BATCHES = 15, DEPTH = 20 };

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static __attribute__((noinline)) uint64_t batch(int depth)
{
	if (depth > 0) {
		uint64_t ns = batch(depth - 1);
		__asm__ volatile("" : : : "memory"); /* no jump in place of the call */
		return ns;
	}
	uint64_t begin = now_ns();
	for (int i = 0; i < PAIRS; i++) {
		void *p = malloc(64);
		__asm__ volatile("" : : "r"(p) : "memory");
		free(p);
	}
	return now_ns() - begin;
}

int main(void)
{
	char line[64];
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof line, stdin)) {
		uint64_t best = UINT64_MAX;
		for (int i = 0; i < BATCHES; i++) {
			uint64_t ns = batch(DEPTH);
			best = ns < best ? ns : best;
		}
		printf("%.3f\n", (double)best / PAIRS);
	}
	return 0;
}
