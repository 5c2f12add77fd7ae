/* Blocks that one thread makes and frees itself: queues of an event loop that grow, and everything that looks
 * like one and is none. argv[1] is the mode. */
#define _GNU_SOURCE
#include "program.h"

#include <stdlib.h>
#include <time.h>

#define MESSAGES 5000
#define PAYLOAD 900

struct message {
	struct message *next;
	char *payload;
};

static struct message *head, **tail = &head;
static size_t queued;

static void work_us(long us)
{
	struct timespec now, until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += us * 1000;
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while (now.tv_sec * 1000000000ll + now.tv_nsec <
	       until.tv_sec * 1000000000ll + until.tv_nsec);
}

NOINLINE static struct message *make_message(void)
{
	struct message *m = malloc(sizeof(*m)); /* @loop.node */

	m->payload = memset(malloc(PAYLOAD), 'm', PAYLOAD); /* @loop.payload */
	m->next = NULL;
	return m;
}

static void push(struct message *m)
{
	*tail = m;
	tail = &m->next;
	queued++;
}

static struct message *pop(void)
{
	struct message *m = head;

	head = m->next;
	if (!head)
		tail = &head;
	queued--;
	return m;
}

NOINLINE static void message_destroy(struct message *m)
{
	free(m->payload);
	free(m);
}

NOINLINE static void on_readable(void)
{
	push(make_message());
}

NOINLINE static void on_writable(void)
{
	struct message *m = pop();

	work_us(20);
	message_destroy(m); /* @loop.taken */
}

/* Three messages come for each that leaves, unless the loop stops reading at `bound` of them. */
NOINLINE static void run_loop(size_t bound, int come)
{
	size_t made = 0;

	while (made < MESSAGES || queued) {
		for (int i = 0; i < come && made < MESSAGES && (!bound || queued < bound);
		     i++, made++)
			on_readable();
		if (queued)
			on_writable();
	}
}

/* The same within one function. */
NOINLINE static void run_inline(void)
{
	for (size_t made = 0; made < MESSAGES || queued;) {
		for (int i = 0; i < 3 && made < MESSAGES; i++, made++) {
			struct message *m = malloc(sizeof(*m));

			m->payload = memset(malloc(PAYLOAD), 'm', PAYLOAD);
			m->next = NULL;
			push(m);
		}
		struct message *m = pop();

		work_us(20);
		free(m->payload);
		free(m);
	}
}

/* ---- none of these is a queue without a bound */

/* A cache: every new entry drives the oldest one out once there are `size` of them. */
NOINLINE static void cache_put(size_t size)
{
	push(make_message());
	if (queued > size)
		message_destroy(pop());
}

static void run_cache(size_t size, long slower)
{
	for (long i = 0; i < MESSAGES; i++) {
		cache_put(size);
		work_us(5 + i * slower / 100);
	}
	while (head)
		on_writable();
}

/* Batches that are built and then freed in order, each larger than the one before. */
static void run_arenas(void)
{
	for (int batch = 1; batch <= 6; batch++) {
		for (int i = 0; i < batch * 400; i++)
			on_readable();
		while (head)
			message_destroy(pop());
	}
}

/* Everything is loaded, then worked on and freed one by one. */
static void run_load_then_work(void)
{
	for (int i = 0; i < MESSAGES; i++)
		on_readable();
	while (head)
		on_writable();
}

/* Entries that expire after 20 ms. */
static void run_expiry(void)
{
	static struct timespec born[MESSAGES];
	size_t first = 0;

	for (size_t i = 0; i < MESSAGES; i++) {
		struct timespec now;

		on_readable();
		clock_gettime(CLOCK_MONOTONIC, &born[i]);
		now = born[i];
		while (head && (now.tv_sec - born[first].tv_sec) * 1000 +
					       (now.tv_nsec - born[first].tv_nsec) / 1000000 >=
				       20) {
			message_destroy(pop());
			first++;
		}
		work_us(15);
	}
	while (head)
		message_destroy(pop());
}

/* Tables that a program makes when it starts, some of them for a moment, and takes down in that order at its end. */
static void run_tables(void)
{
	for (int i = 0; i < MESSAGES; i++) {
		on_readable();
		work_us(5);
		if (i > 20 && i < MESSAGES * 3 / 10)
			message_destroy(pop());
	}
	work_us(300000);
	while (head)
		message_destroy(pop());
}

int main(int argc, char **argv)
{
	must(argc == 2, "one mode");
	if (!strcmp(argv[1], "loop"))
		run_loop(0, 3);
	else if (!strcmp(argv[1], "inline"))
		run_inline();
	else if (!strcmp(argv[1], "bound64"))
		run_loop(64, 3);
	else if (!strcmp(argv[1], "bound1000"))
		run_loop(1000, 3);
	else if (!strcmp(argv[1], "greedy1000"))
		run_loop(1000, MESSAGES);
	else if (!strcmp(argv[1], "keeps-up"))
		run_loop(0, 1);
	else if (!strcmp(argv[1], "cache"))
		run_cache(1000, 0);
	else if (!strcmp(argv[1], "large-cache"))
		run_cache(3500, 0);
	else if (!strcmp(argv[1], "slowing-cache"))
		run_cache(1000, 3);
	else if (!strcmp(argv[1], "arenas"))
		run_arenas();
	else if (!strcmp(argv[1], "load-then-work"))
		run_load_then_work();
	else if (!strcmp(argv[1], "tables"))
		run_tables();
	else if (!strcmp(argv[1], "expiry"))
		run_expiry();
	else
		must(0, "a known mode");
	return 0;
}
