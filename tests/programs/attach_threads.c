/* Eight threads that allocate in a tight loop, and nothing that only one libc has: it is built with each of them.
 * attach_threads FILE */
#include "attach_life.h"

#include <pthread.h>
#include <stdio.h>

enum { THREADS = 8 };

static void *work(void *seed)
{
	for (unsigned i = (unsigned)(uintptr_t)seed; life_goes_on(); i++) {
		life_work(i);
		life_step();
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	must(argc == 2, "usage: attach_threads FILE");
	life_open(argv[1]);
	for (uintptr_t i = 0; i < THREADS; i++)
		must(!pthread_create(&threads[i], NULL, work, (void *)(i * 1000)), "no thread");
	life_ready();
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	puts("right");
	return 0;
}
