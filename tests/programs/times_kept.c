/* Many threads allocate at the same time. Then one block larger than all, which makes the peak, and
 * after it nothing for a while: the recording must have the peak that long before its end.
 * Prints how many nanoseconds passed between the large block and the end. */
#include "program.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS = 8, ROUNDS = 400000, AFTER_MS = 50 };

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

NOINLINE static void *work(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		void *p = malloc(64);
		keep(p);
		free(p);
	}
	return arg;
}

NOINLINE static void *largest(void)
{
	return malloc(256 << 20);
}

int main(void)
{
	pthread_t thread[THREADS];
	for (int i = 0; i < THREADS; i++)
		must(!pthread_create(&thread[i], NULL, work, NULL), "pthread_create");
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	void *p = largest();
	uint64_t then = now_ns();
	keep(p);
	nanosleep(&(struct timespec){0, AFTER_MS * 1000000l}, NULL);
	char text[32];
	int n = snprintf(text, sizeof text, "%llu\n", (unsigned long long)(now_ns() - then));
	must(write(1, text, (size_t)n) == n, "write");
	_exit(0);
}
