/* Blocks that one thread makes and another frees: queues that grow, and hand-overs that do not.
 * argv[1] is the mode. Every item is a node and a payload. */
#define _GNU_SOURCE
#include "program.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define ITEMS 2000
#define PAYLOAD 900

struct item {
	struct item *next;
	char *payload;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, drained = PTHREAD_COND_INITIALIZER;
static struct item *head, **tail = &head;
static size_t queued, bound; /* 0: none */
/* Whoever takes item n + 1 waits until per_taken times n have been made. */
static size_t made, per_taken = 1;
static size_t batch = 1;
static long work_us = 100;

static void pause_us(long us)
{
	nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

NOINLINE static void put_item(void)
{
	struct item *i = malloc(sizeof(*i)); /* @queue.node */

	i->payload = memset(malloc(PAYLOAD), 'p', PAYLOAD); /* @queue.payload */
	i->next = NULL;
	pthread_mutex_lock(&lock);
	while (bound && queued >= bound)
		pthread_cond_wait(&drained, &lock);
	*tail = i;
	tail = &i->next;
	queued++;
	made++;
	pthread_cond_signal(&filled);
	pthread_mutex_unlock(&lock);
}

NOINLINE static void drop_item(struct item *i)
{
	free(i->payload);
	free(i); /* @queue.free */
}

/* Takes up to `batch` items, works on each, then frees them. */
NOINLINE static void *consume(void *arg)
{
	pthread_setname_np(pthread_self(), "consumer");
	size_t had = 0;

	for (size_t left = *(size_t *)arg; left;) {
		struct item *taken[64];
		size_t n = 0;

		pthread_mutex_lock(&lock);
		while (!head || made < per_taken * had)
			pthread_cond_wait(&filled, &lock);
		while (head && n < batch && n < left) {
			taken[n++] = head;
			head = head->next;
			queued--;
		}
		if (!head)
			tail = &head;
		pthread_cond_broadcast(&drained);
		pthread_mutex_unlock(&lock);
		if (work_us)
			pause_us(work_us * (long)n);
		for (size_t i = 0; i < n; i++)
			drop_item(taken[i]);
		left -= n;
		had += n;
	}
	return NULL;
}

NOINLINE static void *produce(void *arg)
{
	pthread_setname_np(pthread_self(), "producer");
	for (size_t i = 0; i < *(size_t *)arg; i++)
		put_item();
	return NULL;
}

static void run_queue(size_t producers, size_t items)
{
	pthread_t consumer, producer[8];
	size_t all = producers * items;

	must(!pthread_create(&consumer, NULL, consume, &all), "pthread_create");
	for (size_t i = 0; i < producers; i++)
		must(!pthread_create(&producer[i], NULL, produce, &items), "pthread_create");
	for (size_t i = 0; i < producers; i++)
		pthread_join(producer[i], NULL);
	pthread_join(consumer, NULL);
}

/* The consumer takes one item for every two that come, however busy the machine is, and the program ends before it is
 * done. */
static void run_overload(void)
{
	pthread_t consumer;
	size_t all = (size_t)-1;

	work_us = 0;
	per_taken = 2;
	must(!pthread_create(&consumer, NULL, consume, &all), "pthread_create");
	for (int i = 0; i < 1500; i++) {
		put_item();
		pause_us(1000);
	}
	_exit(0);
}

/* A pool: main hands each task over when a worker is free for it, and waits for a place. */
static void run_pool(void)
{
	pthread_t worker[2];
	size_t each = ITEMS / 2;

	bound = 4;
	work_us = 20;
	for (int i = 0; i < 2; i++)
		must(!pthread_create(&worker[i], NULL, consume, &each), "pthread_create");
	for (int i = 0; i < ITEMS; i++)
		put_item();
	for (int i = 0; i < 2; i++)
		pthread_join(worker[i], NULL);
}

/* ---- a table that main builds and another thread takes down, in order */
#define ENTRIES 20000
static char *table[ENTRIES];

NOINLINE static void build_table(void)
{
	for (int i = 0; i < ENTRIES; i++)
		table[i] = memset(malloc(PAYLOAD), 't', PAYLOAD);
}

NOINLINE static void *take_down(void *arg)
{
	for (int i = 0; i < ENTRIES; i++)
		free(table[i]);
	return arg;
}

static void run_teardown(void)
{
	pthread_t other;

	build_table();
	must(!pthread_create(&other, NULL, take_down, NULL), "pthread_create");
	pthread_join(other, NULL);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	if (!strcmp(mode, "unbounded")) {
		run_queue(1, ITEMS);
	} else if (!strcmp(mode, "bounded")) {
		bound = 64;
		run_queue(1, ITEMS);
	} else if (!strcmp(mode, "batches")) {
		batch = 32;
		run_queue(1, ITEMS);
	} else if (!strcmp(mode, "producers")) {
		run_queue(3, 700);
	} else if (!strcmp(mode, "overload")) {
		run_overload();
	} else if (!strcmp(mode, "pool")) {
		run_pool();
	} else if (!strcmp(mode, "teardown")) {
		run_teardown();
	} else {
		must(0, "queue_shapes: which mode?");
	}
	say("done\n");
	return 0;
}
