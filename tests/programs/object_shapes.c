/* Objects of several blocks, and blocks that only look like it. argv[1] is the mode. */
#include "program.h"

#include <stdlib.h>
#include <time.h>

#define SESSIONS 200

static void *made(size_t size, int fill)
{
	return memset(malloc(size), fill, size);
}

/* ---- sessions: 64 + 4096 + 8192 + 4 * 1500 bytes */
struct session {
	char *in, *out, *page[4];
	char rest[16];
};

NOINLINE static void make_pages(struct session *s)
{
	for (int i = 0; i < 4; i++) {
		s->page[i] = malloc(1500);
		keep(s->page[i]);
	}
}

NOINLINE static struct session *session_new(void)
{
	struct session *s = malloc(sizeof(*s)); /* @object.struct */

	s->in = malloc(4096);
	s->out = malloc(8192);
	make_pages(s);
	keep(s);
	return s;
}

NOINLINE static void session_free(struct session *s)
{
	for (int i = 0; i < 4; i++)
		free(s->page[i]);
	free(s->in);
	free(s->out);
	free(s);
}

/* Some come and go before the last: counts of calls differ from those at the peak. */
NOINLINE static void run_sessions(void)
{
	static struct session *all[SESSIONS];

	for (int i = 0; i < 50; i++)
		session_free(session_new());
	for (int i = 0; i < SESSIONS; i++) {
		all[i] = session_new();
		nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
	}
	for (int i = 0; i < SESSIONS; i += 2)
		session_free(all[i]);
}

/* ---- rows: an array and as many strings as a row happens to have */
NOINLINE static void run_rows(void)
{
	for (unsigned i = 0; i < 3000; i++) {
		char **row = malloc(64 * sizeof(*row));

		for (unsigned k = 0; k < 20 + i * 7 % 31; k++)
			row[k] = made(40, 'r');
		keep(row);
	}
}

/* ---- tables made at the start, each once */
NOINLINE static void run_tables(void)
{
	for (size_t i = 0; i < 12; i++)
		keep(made(100000 + 5000 * i, 't'));
	keep(made(400000, 'u'));
}

/* ---- two lists of the same length, one after the other */
NOINLINE static void two_lists(void)
{
	for (int i = 0; i < 1000; i++) {
		keep(malloc(3000));
		if (i % 50 == 0)
			nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
	}
	for (int i = 0; i < 1000; i++) {
		keep(malloc(2000));
		if (i % 50 == 0)
			nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
	}
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	if (!strcmp(mode, "sessions"))
		run_sessions();
	else if (!strcmp(mode, "rows"))
		run_rows();
	else if (!strcmp(mode, "tables"))
		run_tables();
	else if (!strcmp(mode, "lists"))
		two_lists();
	else
		must(0, "object_shapes: which mode?");
	say("done\n");
	return 0;
}
