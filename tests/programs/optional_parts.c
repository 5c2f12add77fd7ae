/* A queue whose items have parts that not all of them have: a note (two of three, at random), an attachment (every
 * tenth). argv[1]: how many items. The consumer is slower than the producer. */
#include "program.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct item {
	struct item *next;
	char *note, *attachment;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct item *first, **last = &first;
static int done;

static void pause_us(long us)
{
	nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

NOINLINE static struct item *make_item(unsigned i)
{
	static unsigned random = 7;
	struct item *item = calloc(1, 400);
	random = random * 1664525 + 1013904223;
	if ((random >> 16) % 3)
		item->note = calloc(1, 50);
	if (i % 10 == 3)
		item->attachment = calloc(1, 2000);
	return item;
}

NOINLINE static void drop_item(struct item *item)
{
	free(item->note);
	free(item->attachment);
	free(item);
}

static void *consume(void *unused)
{
	for (;;) {
		pthread_mutex_lock(&lock);
		struct item *item = first;
		if (item && !(first = item->next))
			last = &first;
		int ended = done && !item;
		pthread_mutex_unlock(&lock);
		if (ended)
			return unused;
		pause_us(100);
		if (item)
			drop_item(item);
	}
}

int main(int argc, char **argv)
{
	unsigned items = argc > 1 ? (unsigned)atoi(argv[1]) : 3000;
	pthread_t consumer;

	must(pthread_create(&consumer, NULL, consume, NULL) == 0, "thread");
	for (unsigned i = 0; i < items; i++) {
		struct item *item = make_item(i);
		pthread_mutex_lock(&lock);
		*last = item;
		last = &item->next;
		pthread_mutex_unlock(&lock);
		if (i % 4 == 0)
			pause_us(50);
	}
	pthread_mutex_lock(&lock);
	done = 1;
	pthread_mutex_unlock(&lock);
	pthread_join(consumer, NULL);
	say("done\n");
	return 0;
}
