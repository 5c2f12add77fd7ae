/* Allocates without a pause for argv[1] seconds, blocks of many sizes that live for many times, which compress badly.
 * Ends two seconds after a call that took longer than a third of a second. Says how long the
 * longest call took and how many there were. */
#include "program.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BLOCKS 4096

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int main(int argc, char **argv)
{
	static void *block[BLOCKS];
	uint64_t random = 88172645463325252ull, calls = 0, longest = 0;
	uint64_t before = now_ns(),
		 end = before + (uint64_t)(argc > 1 ? atoi(argv[1]) : 1) * 1000000000u;

	while (before < end) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		void **place = &block[random % BLOCKS];
		free(*place);
		*place = malloc(16 + (random >> 20) % 5000);
		must(*place != NULL, "malloc");
		calls++;
		uint64_t now = now_ns();
		if (now - before > longest)
			longest = now - before;
		if (longest > 300000000u && end > now + 2000000000u)
			end = now + 2000000000u;
		before = now;
	}
	printf("%llu %llu\n", (unsigned long long)(longest / 1000000), (unsigned long long)calls);
	return 0;
}
