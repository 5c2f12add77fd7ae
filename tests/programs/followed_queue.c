/* A queue without a bound whose program follows the messages (heft_mark_block): 2,000 messages of 512 bytes, made at once; a
 * worker takes one after the other and works 100 us on each.
 *
 *     followed_queue [keep]     keep: the last 10 messages are taken and never freed
 *
 * It prints what it measured itself, in ns: the mean time from sending to taking, and from taking to freeing. */
#define _GNU_SOURCE
#include <heft.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MESSAGES = 2000, KEPT = 10 };

struct message {
	struct message *next;
	uint64_t sent_ns;
	char text[496];
};
_Static_assert(sizeof(struct message) == 512, "as it says above");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static struct message *head, **tail = &head;
static uint64_t waited_ns, worked_ns;
static int kept;

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

__attribute__((noinline)) static void send_message(void)
{
	struct message *m = malloc(sizeof *m);
	if (!m)
		abort();
	memset(m, 0, sizeof *m);
	pthread_mutex_lock(&lock);
	heft_mark_block(m, "queued");
	m->sent_ns = now_ns();
	*tail = m;
	tail = &m->next;
	pthread_cond_signal(&filled);
	pthread_mutex_unlock(&lock);
}

static struct message *take_message(void)
{
	pthread_mutex_lock(&lock);
	while (!head)
		pthread_cond_wait(&filled, &lock);
	struct message *m = head;
	head = m->next;
	if (!head)
		tail = &head;
	heft_mark_block(m, "worked on");
	pthread_mutex_unlock(&lock);
	return m;
}

static void *work(void *unused)
{
	pthread_setname_np(pthread_self(), "worker");
	for (int i = 0; i < MESSAGES; i++) {
		struct message *m = take_message();
		uint64_t taken_ns = now_ns();
		waited_ns += taken_ns - m->sent_ns;
		nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
		worked_ns += now_ns() - taken_ns;
		if (i < MESSAGES - kept)
			free(m);
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t worker;
	kept = argc > 1 && strcmp(argv[1], "keep") == 0 ? KEPT : 0;
	if (pthread_create(&worker, NULL, work, NULL))
		return 1;
	for (int i = 0; i < MESSAGES; i++)
		send_message();
	pthread_join(worker, NULL);
	printf("%" PRIu64 " %" PRIu64 "\n", waited_ns / MESSAGES, worked_ns / MESSAGES);
	return 0;
}
