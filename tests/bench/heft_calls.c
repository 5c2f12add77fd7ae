/* What a call of heft.h costs where heft is not there: prints nanoseconds a call, of the fastest of some batches. */
#include "heft.h"

#include <stdint.h>
#include <stdio.h>
#include <time.h>

enum { CALLS = 1000000, BATCHES = 15 };

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static struct heft_region region;

static __attribute__((noinline)) int batch(void)
{
	int rc = 0;
	for (int i = 0; i < CALLS; i++) {
		heft_mark_block(&region, "stage");
		rc |= heft_region_change(&region, NULL);
		__asm__ volatile("" : : : "memory");
	}
	return rc;
}

int main(void)
{
	uint64_t best = UINT64_MAX;
	for (int i = 0; i < BATCHES; i++) {
		uint64_t begin = now_ns();
		if (batch() != -1)
			return 1; /* heft is there */
		uint64_t ns = now_ns() - begin;
		best = ns < best ? ns : best;
	}
	printf("%.3f\n", (double)best / CALLS / 2);
	return 0;
}
