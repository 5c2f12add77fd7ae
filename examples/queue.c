/* A queue without backpressure: the producer copies 5000 messages into a list as fast as it can,
 * one worker takes 100 us for each. Nothing leaks, yet almost all messages are in memory at once.
 * With a bound the producer waits and the heap stays small.
 *
 *     queue [--bound N]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MESSAGES 5000
#define PAYLOAD 1024

struct message {
	struct message *next;
	char *payload;
	size_t length;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, drained = PTHREAD_COND_INITIALIZER;
static struct message *head, **tail = &head;
static size_t queued, most, bound; /* bound 0: none */

static void *allocate(size_t size)
{
	void *p = malloc(size);

	if (!p) {
		perror("queue");
		exit(1);
	}
	return p;
}

__attribute__((noinline)) static void send_message(const char *text, size_t length)
{
	struct message *m = allocate(sizeof(*m));

	m->next = NULL;
	m->payload = allocate(length);
	m->length = length;
	memcpy(m->payload, text, length);
	pthread_mutex_lock(&lock);
	while (bound && queued >= bound)
		pthread_cond_wait(&drained, &lock);
	*tail = m;
	tail = &m->next;
	if (++queued > most)
		most = queued;
	pthread_cond_signal(&filled);
	pthread_mutex_unlock(&lock);
}

static struct message *receive_message(void)
{
	pthread_mutex_lock(&lock);
	while (!head)
		pthread_cond_wait(&filled, &lock);
	struct message *m = head;

	head = m->next;
	if (!head)
		tail = &head;
	queued--;
	pthread_cond_signal(&drained);
	pthread_mutex_unlock(&lock);
	return m;
}

static void *deliver_messages(void *unused)
{
	for (int i = 0; i < MESSAGES; i++) {
		struct message *m = receive_message();

		nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
		free(m->payload);
		free(m);
	}
	return unused;
}

int main(int argc, char **argv)
{
	static char text[PAYLOAD];
	pthread_t worker;

	if (argc == 3 && strcmp(argv[1], "--bound") == 0) {
		bound = strtoul(argv[2], NULL, 10);
	} else if (argc != 1) {
		fprintf(stderr, "usage: queue [--bound N]\n");
		return 2;
	}
	memset(text, 'x', sizeof(text));
	if (pthread_create(&worker, NULL, deliver_messages, NULL) != 0) {
		fprintf(stderr, "queue: no thread\n");
		return 1;
	}
	pthread_setname_np(worker, "worker");
	for (int i = 0; i < MESSAGES; i++)
		send_message(text, sizeof(text));
	pthread_join(worker, NULL);
	printf("%d messages sent, at most %zu waiting\n", MESSAGES, most);
	return 0;
}
