/* Threads that pass blocks on through one word and free what they find there, so
 * that a block's allocation, its free and the next use of its address follow each
 * other on different processors as closely as they can. With one arena and no
 * caches of threads (the test sets glibc's tunables) addresses go round at once.
 *
 *   passed_on THREADS ROUNDS RESIZED     RESIZED: one block in so many is resized first; 0: none
 *
 * THREADS * ROUNDS allocations, as many frees. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

static _Atomic(void *) passed;
static unsigned rounds, resized;

static void *pass_on(void *arg)
{
	uint32_t random = (uint32_t)(uintptr_t)arg * 7919 + 1;
	for (unsigned i = 0; i < rounds; i++) {
		random = random * 1664525u + 1013904223u;
		void *p = malloc(16 + (random >> 28) * 16);
		if (resized && i % resized == 0)
			p = realloc(p, 16 + (random >> 27) * 16);
		free(atomic_exchange(&passed, p));
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread[16];
	unsigned count = argc == 4 ? (unsigned)atoi(argv[1]) : 0;
	if (!count || count > 16)
		return 2;
	rounds = (unsigned)atoi(argv[2]);
	resized = (unsigned)atoi(argv[3]);
	for (uintptr_t i = 0; i < count; i++)
		if (pthread_create(&thread[i], NULL, pass_on, (void *)i))
			return 1;
	for (unsigned i = 0; i < count; i++)
		pthread_join(thread[i], NULL);
	free(passed);
	return 0;
}
