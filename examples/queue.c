/* A queue without backpressure: the producer copies 5000 messages into a list as fast as it can,
 * one worker takes 100 us for each. Nothing leaks, yet almost all messages are in memory at once.
 * With a bound the producer waits and the heap stays small. With a batch the worker takes all that
 * is there, up to so many, and pays the 100 us once. A message is two blocks: a node of 24 bytes
 * and its payload. With --follow 1 it tells heft where each payload is.
 *
 *     queue [--bound N] [--batch N] [--messages N] [--payload BYTES] [--service-us N] [--follow 1] */
#include <heft.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct message {
	struct message *next;
	char *payload;
	size_t length;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, drained = PTHREAD_COND_INITIALIZER;
static struct message *head, **tail = &head;
static size_t queued, most;
static size_t messages = 5000, payload = 1024, service_us = 100, batch = 1;
static size_t bound, follow; /* 0: none */
#define HOP(message, stage) (follow ? heft_mark_block((message)->payload, stage) : (void)0)

static void *checked(void *p)
{
	if (!p) {
		perror("queue");
		exit(1);
	}
	return p;
}

__attribute__((noinline)) static void send_message(const char *text, size_t length)
{
	struct message *m = checked(malloc(sizeof(*m)));

	m->next = NULL;
	m->payload = checked(malloc(length));
	m->length = length;
	memcpy(m->payload, text, length);
	pthread_mutex_lock(&lock);
	while (bound && queued >= bound)
		pthread_cond_wait(&drained, &lock);
	HOP(m, "queued");
	*tail = m;
	tail = &m->next;
	if (++queued > most)
		most = queued;
	pthread_cond_signal(&filled);
	pthread_mutex_unlock(&lock);
}

/* Takes what is there, at least one message and at most a batch; returns them as a list. */
static struct message *receive_messages(void)
{
	pthread_mutex_lock(&lock);
	while (!head)
		pthread_cond_wait(&filled, &lock);
	struct message *first = head, *last = head;
	queued--;
	for (size_t n = 1; n < batch && last->next; n++) {
		last = last->next;
		queued--;
	}
	head = last->next;
	last->next = NULL;
	if (!head)
		tail = &head;
	pthread_cond_signal(&drained);
	pthread_mutex_unlock(&lock);
	return first;
}

static void *deliver_messages(void *unused)
{
	pthread_setname_np(pthread_self(), "worker");
	for (size_t n = 0; n < messages;) {
		struct message *m = receive_messages();
		for (struct message *k = m; k; k = k->next)
			HOP(k, "taken");
		nanosleep(&(struct timespec){.tv_sec = (time_t)(service_us / 1000000),
					     .tv_nsec = (long)(service_us % 1000000 * 1000)},
			  NULL);
		while (m) {
			struct message *next = m->next;
			free(m->payload);
			free(m);
			m = next;
			n++;
		}
	}
	return unused;
}

static int parse_options(int argc, char **argv)
{
	static const struct {
		const char *name;
		size_t *value, least;
	} options[] = {
		{"--bound", &bound, 1},           {"--batch", &batch, 1},
		{"--messages", &messages, 1},     {"--payload", &payload, 1},
		{"--service-us", &service_us, 0}, {"--follow", &follow, 0},
	};
	const size_t count = sizeof(options) / sizeof(*options);

	for (int i = 1; i < argc; i += 2) {
		size_t k = 0;
		char *end = NULL;

		while (k < count && strcmp(argv[i], options[k].name) != 0)
			k++;
		if (k == count || i + 1 == argc)
			return -1;
		*options[k].value = strtoul(argv[i + 1], &end, 10);
		if (*end || *options[k].value < options[k].least)
			return -1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t worker;

	if (parse_options(argc, argv) != 0) {
		fprintf(stderr, "usage: queue [--bound N] [--batch N] [--messages N] "
				"[--payload BYTES] [--service-us N] [--follow 1]\n");
		return 2;
	}
	char *text = memset(checked(malloc(payload)), 'x', payload);

	pthread_setname_np(pthread_self(), "producer");
	if (pthread_create(&worker, NULL, deliver_messages, NULL) != 0) {
		fprintf(stderr, "queue: no thread\n");
		return 1;
	}
	for (size_t i = 0; i < messages; i++)
		send_message(text, payload);
	pthread_join(worker, NULL);
	free(text);
	printf("%zu messages sent, at most %zu waiting\n", messages, most);
	return 0;
}
