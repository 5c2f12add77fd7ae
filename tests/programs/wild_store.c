/* Writes garbage over whatever it shares with heft: every writable shared mapping of
 * its own whose path contains "heft". Then it goes on allocating. With "child" the
 * writer is a child, between a sibling and a parent that behave; with "self" it is
 * the command itself. The well-behaved take known numbers of blocks.
 *
 * usage: wild_store child|self zeros|ones|random|small|flips|racing SEED */
#define _GNU_SOURCE
#include "program.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>

static uint64_t random_state;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static void overwrite(const char *kind, volatile uint64_t *from, volatile uint64_t *to)
{
	if (strcmp(kind, "flips") == 0) { /* a few wild bits near the start, where the words are */
		for (int i = 0; i < 200; i++) {
			uint64_t words = (uint64_t)(to - from);
			uint64_t range = i % 2 ? words : (words < 8192 ? words : 8192);

			from[next_random() % range] ^= 1ull << (next_random() % 64);
		}
		return;
	}
	for (volatile uint64_t *w = from; w < to; w++) {
		if (strcmp(kind, "zeros") == 0)
			*w = 0;
		else if (strcmp(kind, "ones") == 0)
			*w = ~0ull;
		else if (strcmp(kind, "small") == 0) /* values that look like indices */
			*w = next_random() % 4096 | (next_random() % 4096) << 32;
		else
			*w = next_random();
	}
}

static unsigned long hex(char **at)
{
	unsigned long value = 0;

	for (;; (*at)++) {
		char c = **at;

		if (c >= '0' && c <= '9')
			value = value * 16 + (unsigned long)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value * 16 + (unsigned long)(c - 'a' + 10);
		else
			return value;
	}
}

/* Returns how many mappings were hit. */
static int scribble(const char *kind)
{
	static char text[1 << 20];
	size_t used = 0;
	ssize_t n;
	int fd = open("/proc/self/maps", O_RDONLY), hits = 0;

	while ((n = read(fd, text + used, sizeof(text) - 1 - used)) > 0)
		used += (size_t)n;
	close(fd);
	text[used] = '\0';
	for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
		char *at = line;
		unsigned long from, to;

		*end = '\0';
		from = hex(&at);
		at++;
		to = hex(&at);
		if (strncmp(at, " rw-s", 5) == 0 && strstr(at, "heft")) {
			overwrite(kind, (volatile uint64_t *)from, (volatile uint64_t *)to);
			hits++;
		}
	}
	return hits;
}

NOINLINE static void churn(int rounds)
{
	void *slot[64] = {0};

	for (int i = 0; i < rounds; i++) {
		void **s = &slot[(unsigned)i * 7 % 64];

		free(*s);
		*s = malloc((size_t)(i % 300 + 1));
		must(*s != NULL, "malloc");
		memset(*s, i, (size_t)(i % 300 + 1));
	}
	for (int i = 0; i < 64; i++)
		free(slot[i]);
}

static volatile int racing;

static void *race(void *arg)
{
	while (racing)
		churn(1000);
	return arg;
}

/* Ends with 7, or with 77 if there was nothing to write to. */
static int writer(const char *kind)
{
	int hits = 0;

	churn(2000);
	if (strcmp(kind, "racing") == 0) { /* while two other threads allocate */
		pthread_t thread[2];

		racing = 1;
		for (int i = 0; i < 2; i++)
			must(!pthread_create(&thread[i], NULL, race, NULL), "pthread_create");
		for (int i = 0; i < 10; i++)
			hits += scribble(i % 2 ? "flips" : "small");
		racing = 0;
		for (int i = 0; i < 2; i++)
			pthread_join(thread[i], NULL);
	} else {
		hits = scribble(kind);
	}
	churn(50000);
	return hits ? 7 : 77;
}

NOINLINE static void good_work(int blocks)
{
	for (int i = 0; i < blocks; i++) {
		void *p = malloc(40); /* @wild.good */

		keep(p);
		if (i % 4 == 0)
			free(p);
	}
}

static void show(const char *who, int status)
{
	say(who);
	if (WIFSIGNALED(status))
		say_number(" killed by signal", (unsigned)WTERMSIG(status));
	else
		say_number(" exit", (unsigned)WEXITSTATUS(status));
}

int main(int argc, char **argv)
{
	int status = 0;
	pid_t good, wild;

	must(argc == 4, "usage: wild_store child|self KIND SEED");
	random_state = (uint64_t)atoll(argv[3]) * 0x9E3779B97F4A7C15ull + 1;
	if (strcmp(argv[1], "self") == 0)
		return writer(argv[2]);
	good_work(400);
	good = fork();
	if (good == 0) {
		for (int i = 0; i < 10; i++) {
			good_work(100);
			usleep(10000);
		}
		_exit(4);
	}
	wild = fork();
	if (wild == 0)
		_exit(writer(argv[2]));
	must(waitpid(wild, &status, 0) == wild, "waitpid");
	show("writer", status);
	must(waitpid(good, &status, 0) == good, "waitpid");
	show("sibling", status);
	good_work(200);
	return 5;
}
