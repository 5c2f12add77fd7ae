/* A library whose constructor starts a thread. */
#include <pthread.h>
#include <stddef.h>
#include <unistd.h>

static void *wait_for_the_end(void *nothing)
{
	for (;;)
		pause();
	return nothing;
}

__attribute__((constructor)) static void start_thread(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, wait_for_the_end, NULL);
}
