/* Threads, one after another, that free after all their destructors: libc gives back the buffer that
 * strerror made for an unknown number when the thread is almost gone. Each thread: one block kept
 * until its end. main: nothing but what pthread_create asks for. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void *thread(void *arg)
{
	(void)arg;
	return strerror(123456) ? NULL : (void *)1;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1;
	for (int i = 0; i < count; i++) {
		pthread_t t;
		void *failed;
		if (pthread_create(&t, NULL, thread, NULL) || pthread_join(t, &failed) || failed)
			return 1;
	}
	return 0;
}
