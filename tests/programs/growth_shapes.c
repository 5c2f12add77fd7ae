/* Live memory over time: what grows without end, and what only looks like it. argv[1] is the mode,
 * argv[2] the signal that ends it (killed, freed-then-killed, waits-then-killed, bursts-then-killed) or its
 * exit status (loader). told grows until SIGTERM or SIGINT tells it to end, and exits with 0. All but these
 * serve requests beside: 64 sessions are replaced in turn. */
#include "program.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

#define REQUESTS 2000
#define SESSIONS 64
/* So long that a machine that stands still for a second does not hide the course of it */
#define SLOWER 4

static void pause_us(long us)
{
	nanosleep(&(struct timespec){.tv_nsec = us * 1000 * SLOWER}, NULL);
}

static void *session[SESSIONS];
static size_t session_bytes = 2000;

NOINLINE static void serve(int n)
{
	free(session[n % SESSIONS]);
	session[n % SESSIONS] = memset(malloc(session_bytes), 's', session_bytes);
	pause_us(50);
}

/* What a mode keeps; in the end it may free it. */
static void *kept[REQUESTS];
static size_t kept_count;

NOINLINE static void keep_one(size_t size)
{
	kept[kept_count++] = memset(malloc(size), 'k', size); /* @growth.kept */
}

NOINLINE static void free_kept(void)
{
	while (kept_count)
		free(kept[--kept_count]);
}

/* A cache that is full after 40 % of the run and then replaces its oldest entry. */
#define ENTRIES (REQUESTS * 2 / 5)
static void *cache[ENTRIES];

NOINLINE static void use_cache(int n)
{
	free(cache[n % ENTRIES]);
	cache[n % ENTRIES] = memset(malloc(1000), 'c', 1000);
}

/* One cause in three functions: 64 + 300 + 900 bytes for each request. */
NOINLINE static char *make_key(void)
{
	return memset(malloc(300), 'k', 300);
}

NOINLINE static char *make_value(void)
{
	return memset(malloc(900), 'v', 900);
}

NOINLINE static void remember(void)
{
	char **entry = malloc(64); /* @growth.entry */

	entry[0] = make_key();
	entry[1] = make_value();
	keep(entry);
}

/* Another cause: every third request. */
NOINLINE static void log_error(void)
{
	keep(memset(malloc(2000), 'e', 2000));
}

/* A cache with as many places as there are requests, asked at random: it stores ever less. */
static void *place[REQUESTS];

NOINLINE static void look_up(void)
{
	static uint32_t random = 12345;
	random = random * 1664525 + 1013904223;
	uint32_t at = (random >> 8) % REQUESTS;

	if (!place[at])
		place[at] = memset(malloc(1000), 'p', 1000);
}

NOINLINE static void make_tables(void)
{
	for (int i = 0; i < 300; i++)
		keep(memset(malloc(4000 + (size_t)i), 't', 4000));
}

static volatile sig_atomic_t told_to_end;

static void note_signal(int number)
{
	told_to_end = number;
}

NOINLINE static void grow_until_told(void)
{
	signal(SIGTERM, note_signal);
	signal(SIGINT, note_signal);
	for (int n = 0; !told_to_end; n++) {
		free(memset(malloc(300), 'l', 300));
		keep(memset(malloc(1000), 'k', 1000));
		pause_us(50);
		if (n == REQUESTS)
			say("grown\n");
	}
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	int stopped = !strcmp(mode, "leak-killed");
	int leak = stopped || !strcmp(mode, "leak"), at_end = !strcmp(mode, "leak-freed-at-end");
	int arena = !strcmp(mode, "arena"), lru = !strcmp(mode, "lru");
	int tables = !strcmp(mode, "tables"), loader = !strcmp(mode, "loader");
	int freed = !strcmp(mode, "freed-then-killed"), waits = !strcmp(mode, "waits-then-killed");
	int bursts = !strcmp(mode, "bursts-then-killed");
	int killed = freed || waits || bursts || !strcmp(mode, "killed");
	int together = !strcmp(mode, "together"), two = !strcmp(mode, "two-causes");
	int warms = !strcmp(mode, "warms-up"), large = !strcmp(mode, "leak-large");
	int last = argc > 2 ? atoi(argv[2]) : 0;

	if (!strcmp(mode, "told")) {
		grow_until_told();
		return 0;
	}
	must(leak || large || at_end || arena || lru || tables || loader || killed || together ||
		     two || warms,
	     "which mode?");
	if (tables)
		make_tables();
	if (large) /* 64 sessions are one part in 10,000 of the heap in the end */
		session_bytes = 25;
	for (int n = 0; n < REQUESTS; n++) {
		if (loader || killed) {
			free(memset(malloc(300), 'l', 300)); /* a line, say */
			pause_us(50);
		} else {
			serve(n);
		}
		if (leak || at_end || loader || killed)
			keep_one(1000);
		if (large)
			keep_one(8000);
		if (arena && n % 50 == 0)
			keep_one(65536);
		if (lru)
			use_cache(n);
		if (together || two)
			remember();
		if (two && n % 3 == 0)
			log_error();
		if (warms)
			look_up();
		/* The last wait is clearly shorter: a busy machine may stretch any of them. */
		int waiting = n == REQUESTS - 1 ? 2000 : 5000;
		for (int i = 0; bursts && n % (REQUESTS / 3) == REQUESTS / 3 - 1 && i < waiting;
		     i++)
			pause_us(50);
	}
	for (int n = 0; waits && n < 2 * REQUESTS; n++)
		pause_us(150);
	if (at_end || arena || freed)
		free_kept();
	if (killed || stopped)
		raise(last);
	say("done\n");
	return last;
}
