/* A server loop that leaks: every request builds and frees what it needs, and one forgotten record
 * of 1 KB stays in a list. Healthy traffic beside it (a cache that replaces its entries, buffers
 * that come and go) is larger than the leak at first.
 *
 * --keep N is the way out: only the last N records stay. --grow does not stop until it is killed
 * (with a pause of 100 us a request, unless told otherwise: 10 MB a second). --kill-after N does
 * the killing itself, as the kernel would when memory runs out: SIGKILL after N requests.
 *
 *     leaky_server [--requests N] [--pause-us N] [--keep N] [--kill-after N] [--grow]
 */
#include <signal.h>
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

static struct record *oldest, **newest = &oldest;
static uint64_t records, keep; /* keep 0: all of them */
static char *cache[CACHE_ENTRIES];
static uint32_t state = 88172645u;

static uint32_t draw(uint32_t below)
{
	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state % below;
}

static void *checked(void *p)
{
	if (!p) {
		perror("leaky_server");
		exit(1);
	}
	return p;
}

/* The leak: an audit record that, without --keep, is never taken off its list. */
__attribute__((noinline)) static void remember_request(uint64_t number)
{
	struct record *r = checked(malloc(sizeof(*r)));

	snprintf(r->text, sizeof(r->text), "request %llu", (unsigned long long)number);
	r->next = NULL;
	*newest = r;
	newest = &r->next;
	records++;
	while (keep && records > keep) {
		struct record *old = oldest;

		oldest = old->next;
		records--;
		free(old);
	}
}

__attribute__((noinline)) static void refresh_cache(void)
{
	char **entry = &cache[draw(CACHE_ENTRIES)];
	size_t size = 2048 + draw(4096);

	free(*entry);
	*entry = memset(checked(malloc(size)), 'c', size);
}

__attribute__((noinline)) static void answer_request(void)
{
	size_t size = 256 + draw(8192);
	char *in = checked(malloc(size)), *out = checked(malloc(size * 2));

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

static void wait_us(uint64_t us)
{
	if (us)
		nanosleep(&(struct timespec){.tv_sec = (time_t)(us / 1000000),
					     .tv_nsec = (long)(us % 1000000 * 1000)},
			  NULL);
}

int main(int argc, char **argv)
{
	uint64_t requests = 20000, pause_us = UINT64_MAX, kill_after = 0;
	int grow = 0, bad = 0;

	for (int i = 1; i < argc && !bad; i++) {
		uint64_t *number = strcmp(argv[i], "--requests") == 0     ? &requests
				   : strcmp(argv[i], "--pause-us") == 0   ? &pause_us
				   : strcmp(argv[i], "--keep") == 0       ? &keep
				   : strcmp(argv[i], "--kill-after") == 0 ? &kill_after
									  : NULL;
		char *end;

		if (number && i + 1 < argc) {
			*number = strtoull(argv[++i], &end, 10);
			bad = *end != 0;
		} else if (strcmp(argv[i], "--grow") == 0) {
			grow = 1;
		} else {
			bad = 1;
		}
	}
	if (bad) {
		fprintf(stderr, "usage: leaky_server [--requests N] [--pause-us N] [--keep N] "
				"[--kill-after N] [--grow]\n");
		return 2;
	}
	if (pause_us == UINT64_MAX)
		pause_us = grow ? 100 : 0;
	for (uint64_t n = 0; grow || kill_after || n < requests; n++) {
		handle_request(n);
		if (n + 1 == kill_after)
			raise(SIGKILL);
		wait_us(pause_us);
	}
	printf("%llu requests answered, %llu records kept\n", (unsigned long long)requests,
	       (unsigned long long)records);
	return 0;
}
