/* So many threads that each hold 50 blocks of 1,000 bytes until the program exits: waiting_threads COUNT. */
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <unistd.h>

static sem_t ready;

static void *hold(void *unused)
{
	void *volatile blocks[50];
	for (int i = 0; i < 50; i++)
		blocks[i] = malloc(1000);
	sem_post(&ready);
	pause();
	(void)unused;
	return blocks[0];
}

int main(int argc, char **argv)
{
	const int count = argc > 1 ? atoi(argv[1]) : 1;
	pthread_attr_t small;
	sem_init(&ready, 0, 0);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 128 << 10);
	for (int i = 0; i < count; i++) {
		pthread_t thread;
		if (pthread_create(&thread, &small, hold, NULL))
			return 1;
	}
	for (int i = 0; i < count; i++)
		sem_wait(&ready);
	return 0;
}
