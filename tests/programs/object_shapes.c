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
	/* The last first: they are no queue, however long a busy machine makes them wait. */
	for (int i = SESSIONS; i > 0; i -= 2)
		session_free(all[i - 1]);
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

/* ---- several blocks of one site in each object, few objects, no pauses */

/* Three on one line: 50 * (80 + 4000 + 1000 + 2000 + 3000) */
struct peer {
	char *frame, *a, *b, *c;
	char rest[48];
};

NOINLINE static struct peer *peer_new(void)
{
	struct peer *p = malloc(sizeof(*p));

	p->frame = malloc(4000);
	p->a = malloc(1000), p->b = malloc(2000), p->c = malloc(3000); /* @object.three */
	return p;
}

NOINLINE static void run_peers(void)
{
	for (int i = 0; i < 50; i++)
		keep(peer_new());
}

/* Seven in a loop, of the size of the first: 40 * (3000 + 7 * 3000) */
NOINLINE static char **ring_new(void)
{
	char **ring = malloc(3000);

	for (int i = 0; i < 7; i++)
		ring[i] = malloc(3000);
	return ring;
}

NOINLINE static void run_rings(void)
{
	for (int i = 0; i < 40; i++)
		keep(ring_new());
}

/* Sixteen through another function, more than there are workers: 12 * (256 + 16 * 2000) */
NOINLINE static char *slot_new(void)
{
	char *slot = malloc(2000);

	keep(slot);
	return slot;
}

NOINLINE static char **worker_new(void)
{
	char **worker = malloc(256);

	for (int i = 0; i < 16; i++)
		worker[i] = slot_new();
	return worker;
}

NOINLINE static void run_workers(void)
{
	for (int i = 0; i < 12; i++)
		keep(worker_new());
}

/* A buffer that each object resizes, so that numbers of calls do not agree: 60 * (64 + 6000 + 2 * 1500) */
NOINLINE static char **log_new(int lines)
{
	char **log = malloc(64);
	char *text = malloc(100);

	for (int i = 1; i <= 3 + lines % 3; i++)
		text = realloc(text, i < 3 + lines % 3 ? (size_t)i * 500 : 6000);
	log[0] = text;
	for (int i = 1; i < 3; i++)
		log[i] = malloc(1500);
	return log;
}

NOINLINE static void run_logs(void)
{
	for (int i = 0; i < 60; i++)
		keep(log_new(i));
}

/* ---- counts that are multiples, and no objects: a list of 480 nodes beside 60 peers */
NOINLINE static char *node_new(size_t size)
{
	char *node = malloc(size);

	keep(node);
	return node;
}

NOINLINE static void run_list_beside(void)
{
	for (int i = 0; i < 60; i++)
		keep(peer_new());
	for (int i = 0; i < 480; i++)
		keep(node_new(1500));
}

/* The same in one function: only the order tells. */
NOINLINE static void run_two_loops(void)
{
	for (int i = 0; i < 60; i++)
		keep(malloc(3000));
	for (int i = 0; i < 480; i++)
		keep(malloc(1500));
}

/* 60 rows of 5, 6 or 7 strings: 360 in all, six for each on average. */
NOINLINE static void run_regular_rows(void)
{
	for (int i = 0; i < 60; i++) {
		char **row = malloc(3000);

		for (int k = 0; k < 5 + i % 3; k++)
			row[k] = made(1000, 'r');
		keep(row);
	}
}

/* A pool: chunks of one size, made by one function for two kinds of things, one four times as often. */
NOINLINE static char *chunk_new(void)
{
	char *chunk = malloc(5000);

	keep(chunk);
	return chunk;
}

NOINLINE static void small_things(void)
{
	keep(chunk_new());
}

NOINLINE static void large_things(void)
{
	keep(chunk_new());
}

NOINLINE static void run_pool(void)
{
	for (int i = 0; i < 200; i++)
		if (i % 7 == 0 || i % 11 == 0 || i < 4 || i == 50)
			small_things();
		else
			large_things();
	for (int i = 0; i < 200; i++)
		small_things();
	for (int i = 0; i < 23; i++)
		large_things();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *mode;
		void (*run)(void);
	} quick[] = {{"peers", run_peers},          {"rings", run_rings},
		     {"workers", run_workers},      {"logs", run_logs},
		     {"beside", run_list_beside},   {"loops", run_two_loops},
		     {"regular", run_regular_rows}, {"pool", run_pool}};
	const char *mode = argc > 1 ? argv[1] : "";

	for (size_t i = 0; i < sizeof(quick) / sizeof(*quick); i++)
		if (!strcmp(mode, quick[i].mode)) {
			quick[i].run();
			say("done\n");
			return 0;
		}
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
