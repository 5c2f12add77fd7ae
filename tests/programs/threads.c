/* Counts over threads. argv[1] is the mode, argv[2] a number of threads or pairs.
 * Barriers, not sleeps, put the instants that matter in one order. */
#define _GNU_SOURCE
#include "program.h"

#include <pthread.h>
#include <stdlib.h>

#define BLOCKS 1000
#define MAX_THREADS 256

static pthread_barrier_t filled, topped;
static int thread_count;

/* ---- same: every thread does the same; the main thread makes the peak */
NOINLINE static void *take(size_t n)
{
	void *p = malloc(n); /* @same.block */

	keep(p);
	return p;
}

NOINLINE static void *same_thread(void *arg)
{
	static __thread void *block[BLOCKS];

	for (size_t i = 0; i < BLOCKS; i++)
		block[i] = take(16 + i % 64);
	for (size_t i = 1; i < BLOCKS; i += 2)
		free(block[i]);
	pthread_barrier_wait(&filled);
	pthread_barrier_wait(&topped);
	for (size_t i = 0; i < BLOCKS; i += 2)
		if (i % 10)
			free(block[i]);
	return arg;
}

static void run_same(void)
{
	pthread_t thread[MAX_THREADS];
	void *top;

	pthread_barrier_init(&filled, NULL, (unsigned)thread_count + 1);
	pthread_barrier_init(&topped, NULL, (unsigned)thread_count + 1);
	for (int i = 0; i < thread_count; i++)
		must(!pthread_create(&thread[i], NULL, same_thread, NULL), "pthread_create");
	pthread_barrier_wait(&filled);
	top = malloc(16 << 20); /* @same.top */
	keep(top);
	pthread_barrier_wait(&topped);
	for (int i = 0; i < thread_count; i++)
		pthread_join(thread[i], NULL);
	free(top);
}

/* ---- pairs: every block is freed by the other thread of its pair */
#define PAIR_BLOCKS 5000
#define SLOTS 16

struct pair {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	void *slot[SLOTS];
	unsigned put, got;
};

NOINLINE static void *producer(void *arg)
{
	struct pair *pair = arg;

	for (size_t i = 0; i < PAIR_BLOCKS; i++) {
		void *p = malloc(32 + i % 32); /* @pairs.block */

		keep(p);
		pthread_mutex_lock(&pair->lock);
		while (pair->put - pair->got == SLOTS)
			pthread_cond_wait(&pair->changed, &pair->lock);
		pair->slot[pair->put++ % SLOTS] = p;
		pthread_cond_broadcast(&pair->changed);
		pthread_mutex_unlock(&pair->lock);
	}
	return NULL;
}

NOINLINE static void *consumer(void *arg)
{
	struct pair *pair = arg;

	for (size_t i = 0; i < PAIR_BLOCKS; i++) {
		void *p;

		pthread_mutex_lock(&pair->lock);
		while (pair->put == pair->got)
			pthread_cond_wait(&pair->changed, &pair->lock);
		p = pair->slot[pair->got++ % SLOTS];
		pthread_cond_broadcast(&pair->changed);
		pthread_mutex_unlock(&pair->lock);
		if (i % 5 == 0) {
			p = realloc(p, 100); /* @pairs.grow: a fifth grows on this side */
			keep(p);
		}
		free(p);
	}
	return NULL;
}

static void run_pairs(void)
{
	static struct pair pair[MAX_THREADS];
	pthread_t thread[2 * MAX_THREADS];

	for (int i = 0; i < thread_count; i++) {
		pthread_mutex_init(&pair[i].lock, NULL);
		pthread_cond_init(&pair[i].changed, NULL);
		must(!pthread_create(&thread[2 * i], NULL, producer, &pair[i]), "producer");
		must(!pthread_create(&thread[2 * i + 1], NULL, consumer, &pair[i]), "consumer");
	}
	for (int i = 0; i < 2 * thread_count; i++)
		pthread_join(thread[i], NULL);
}

/* ---- temporary: the other thread's allocations do not end a block's chance */
static void *handed;

NOINLINE static void *temporary_other(void *arg)
{
	void *p;

	pthread_barrier_wait(&filled); /* the main thread has `mine` */
	p = malloc(20);                /* @temporary.other */
	keep(p);
	handed = malloc(21); /* @temporary.handed: freed by the main thread */
	pthread_barrier_wait(&topped);
	pthread_barrier_wait(&filled);
	free(p);
	return arg;
}

static void run_temporary(void)
{
	pthread_t thread;
	void *mine;

	pthread_barrier_init(&filled, NULL, 2);
	pthread_barrier_init(&topped, NULL, 2);
	must(!pthread_create(&thread, NULL, temporary_other, NULL), "pthread_create");
	mine = malloc(22); /* @temporary.mine */
	keep(mine);
	pthread_barrier_wait(&filled);
	pthread_barrier_wait(&topped); /* the other one has allocated twice meanwhile */
	free(handed);
	free(mine);
	pthread_barrier_wait(&filled);
	pthread_join(thread, NULL);
}

/* ---- names: set before and after a thread's first allocation */
NOINLINE static void *named_before(void *arg)
{
	void *p;

	pthread_setname_np(pthread_self(), "named-before");
	p = malloc(31); /* @names.before */
	keep(p);
	free(p);
	return arg;
}

NOINLINE static void *named_after(void *arg)
{
	void *p = malloc(32); /* @names.after_first */

	keep(p);
	free(p);
	pthread_setname_np(pthread_self(), "named-after");
	p = malloc(33); /* @names.after_second */
	keep(p);
	free(p);
	/* Long enough for a recorder that looks now and then. */
	usleep(400000);
	p = malloc(34); /* @names.after_third */
	keep(p);
	free(p);
	return arg;
}

static void run_names(void)
{
	pthread_t before, after;

	must(!pthread_create(&before, NULL, named_before, NULL), "pthread_create");
	must(!pthread_create(&after, NULL, named_after, NULL), "pthread_create");
	pthread_join(before, NULL);
	pthread_join(after, NULL);
}

/* ---- short: many threads, eight at a time, each lives for three calls */
NOINLINE static void *short_thread(void *arg)
{
	void *p = malloc(111); /* @short.kept */
	void *q = malloc(222); /* @short.freed */

	keep(p), keep(q);
	free(q);
	return p ? arg : NULL;
}

static void run_short(void)
{
	for (int started = 0; started < thread_count;) {
		pthread_t thread[8];
		int n = 0;

		for (; n < 8 && started < thread_count; n++, started++)
			must(!pthread_create(&thread[n], NULL, short_thread, NULL), "create");
		while (n > 0)
			pthread_join(thread[--n], NULL);
	}
}

/* ---- alive: all threads hold a block at the same time */
NOINLINE static void *alive_thread(void *arg)
{
	void *p = malloc(4096); /* @alive.block */

	keep(p);
	pthread_barrier_wait(&filled);
	free(p);
	return arg;
}

static void run_alive(void)
{
	pthread_t thread[MAX_THREADS];
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 << 10);
	pthread_barrier_init(&filled, NULL, (unsigned)thread_count);
	for (int i = 0; i < thread_count; i++)
		must(!pthread_create(&thread[i], &attr, alive_thread, NULL), "pthread_create");
	for (int i = 0; i < thread_count; i++)
		pthread_join(thread[i], NULL);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {
		{"same", run_same},   {"pairs", run_pairs}, {"temporary", run_temporary},
		{"names", run_names}, {"short", run_short}, {"alive", run_alive},
	};

	must(argc == 3, "usage: threads MODE COUNT");
	thread_count = atoi(argv[2]);
	must(thread_count > 0, "count");
	must(thread_count < MAX_THREADS || !strcmp(argv[1], "short"), "too many at once");
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(argv[1], modes[i].name) == 0) {
			modes[i].run();
			say("done\n");
			return 0;
		}
	}
	must(0, "no such mode");
}
