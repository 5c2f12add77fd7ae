/* A server loop that leaks: every request builds and frees what it needs, and one forgotten record
 * of 1 KB stays in a list. Healthy traffic beside it (a cache that replaces its entries, buffers
 * that come and go) is larger than the leak at first. With --grow it does not stop until it is
 * killed.
 *
 *     leaky_server [--requests N] [--pause-us N] [--grow]
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CACHE_ENTRIES 512
#define RECORD 1024

struct record {
	struct record *next;
	char text[RECORD - sizeof(struct record *)];
};

static struct record *forgotten;
static char *cache[CACHE_ENTRIES];
static uint32_t state = 88172645u;

static uint32_t draw(uint32_t below)
{
	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state % below;
}

static void *allocate(size_t size)
{
	void *p = malloc(size);

	if (!p) {
		perror("leaky_server");
		exit(1);
	}
	return p;
}

/* The leak: an audit record that is never taken off its list. */
__attribute__((noinline)) static void remember_request(uint64_t number)
{
	struct record *r = allocate(sizeof(*r));

	snprintf(r->text, sizeof(r->text), "request %llu", (unsigned long long)number);
	r->next = forgotten;
	forgotten = r;
}

__attribute__((noinline)) static void refresh_cache(void)
{
	char **entry = &cache[draw(CACHE_ENTRIES)];
	size_t size = 2048 + draw(4096);

	free(*entry);
	*entry = memset(allocate(size), 'c', size);
}

__attribute__((noinline)) static void answer_request(void)
{
	size_t size = 256 + draw(8192);
	char *in = allocate(size), *out = allocate(size * 2);

	memset(in, 'i', size);
	memset(out, 'o', size * 2);
	free(in);
	free(out);
}

static void handle_request(uint64_t number)
{
	answer_request();
	refresh_cache();
	remember_request(number);
}

int main(int argc, char **argv)
{
	uint64_t requests = 20000;
	long pause_us = 0;
	int grow = 0;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--requests") == 0 && i + 1 < argc) {
			requests = strtoull(argv[++i], NULL, 10);
		} else if (strcmp(argv[i], "--pause-us") == 0 && i + 1 < argc) {
			pause_us = strtol(argv[++i], NULL, 10);
		} else if (strcmp(argv[i], "--grow") == 0) {
			grow = 1;
		} else {
			fprintf(stderr, "usage: leaky_server [--requests N] [--pause-us N] [--grow]\n");
			return 2;
		}
	}
	for (uint64_t n = 0; grow || n < requests; n++) {
		handle_request(n);
		if (pause_us > 0)
			nanosleep(&(struct timespec){.tv_sec = pause_us / 1000000,
						     .tv_nsec = pause_us % 1000000 * 1000},
				  NULL);
	}
	printf("%llu requests answered\n", (unsigned long long)requests);
	return 0;
}
