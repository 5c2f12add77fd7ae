/* Asks heft about itself (include/heft.h) and prints what it is told, a line each, so that a test can compare that with
 * numbers worked out by hand. argv[1] says what to do. */
#include "heft.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE = 200, THREADS = 8, PAIRS = 20000 };

static void *volatile sink;

static void *keep(void *p)
{
	sink = p;
	return p;
}

/* No stdio: its buffers would be counted. */
static void say(const char *name, int rc, const struct heft_stats *s)
{
	char line[LINE];
	int n = snprintf(line, sizeof line, "%s %d %lu %lu %lu %lu %lu %ld %ld %lu\n", name, rc,
			 (unsigned long)s->allocations, (unsigned long)s->reallocations,
			 (unsigned long)s->frees, (unsigned long)s->allocated_bytes,
			 (unsigned long)s->freed_bytes, (long)s->live_bytes, (long)s->live_blocks,
			 (unsigned long)s->peak_bytes);
	if (write(1, line, (size_t)n) != n)
		_exit(3);
}

static void change(const char *name, const struct heft_region *r)
{
	struct heft_stats s = {0};
	int rc = heft_region_change(r, &s);
	say(name, rc, &s);
}

static void end(const char *name, struct heft_region *r)
{
	struct heft_stats s = {0};
	int rc = heft_region_end(r, &s);
	say(name, rc, &s);
}

static void nested(enum heft_scope scope)
{
	struct heft_region outer, inner;
	void *before = keep(malloc(1000));
	heft_region_begin_named(&outer, scope, "outer");
	void *a = keep(malloc(100)); /* 100 live */
	heft_region_begin(&inner, scope);
	void *b = keep(calloc(10, 30)); /* 400 */
	free(a);                        /* 300 */
	b = keep(realloc(b, 50));       /* 50 */
	void *c = keep(malloc(0));      /* 50 */
	end("inner", &inner);         /* 2 allocations of 300, 1 realloc, 1 free of 100, 250 less */
	void *d = keep(malloc(7777)); /* 7827 */
	free(before);                 /* 6827 */
	free(d);
	free(b);
	free(c);
	free(NULL);
	end("outer", &outer);
	change("ended", &outer); /* what it ended with */
}

static void overlapping(void)
{
	struct heft_region a, b;
	heft_region_begin(&a, HEFT_THREAD);
	void *p = keep(malloc(10));
	heft_region_begin(&b, HEFT_THREAD);
	void *q = keep(malloc(200));
	end("first", &a); /* 2 allocations, 210 */
	free(p);
	free(q);
	void *r = keep(malloc(3000));
	free(r);
	end("second", &b); /* 2 allocations of 3200, 3 frees of 3210, peak 2990 above */
}

/* Sizes whose slack needs more than a byte, and every function that allocates. */
static void functions(void)
{
	struct heft_region r;
	void *p[12] = {0};
	heft_region_begin(&r, HEFT_THREAD);
	p[0] = keep(malloc(1));
	p[1] = keep(calloc(3, 5));
	p[2] = keep(aligned_alloc(4096, 4096));
	p[3] = keep(memalign(64, 65));
	if (posix_memalign(&p[4], 1 << 16, 1000))
		_exit(4);
	keep(p[4]);
	p[5] = keep(valloc(10));
	p[6] = keep(pvalloc(10));
	p[7] = keep(strdup("seven"));
	p[8] = keep(realloc(NULL, 77));
	p[9] = keep(reallocarray(NULL, 11, 11));
	p[10] = keep(malloc(200001)); /* a mapping of its own: nearly a page of slack */
	p[11] = keep(malloc(5 << 20));
	change("made", &r);
	p[10] = keep(realloc(p[10], 900001)); /* its mapping is moved */
	p[0] = keep(realloc(p[0], 300000));
	p[11] = keep(realloc(p[11], 100));
	for (int i = 0; i < 12; i++)
		free(p[i]);
	if (keep(malloc((size_t)1 << 62)))
		_exit(5);
	end("freed", &r);
}

static void *work(void *x)
{
	struct heft_region r;
	struct heft_stats s = {0};
	const size_t size = 100 * ((size_t)x + 1);
	int rc = heft_region_begin(&r, HEFT_THREAD);
	void *kept = keep(malloc(10));
	for (int i = 0; i < PAIRS; i++)
		free(keep(malloc(size)));
	rc |= heft_region_end(&r, &s);
	free(kept);
	char name[16];
	snprintf(name, sizeof name, "thread%zu", (size_t)x);
	say(name, rc, &s);
	return NULL;
}

static void threads(void)
{
	struct heft_region r;
	pthread_t t[THREADS];
	heft_region_begin(&r, HEFT_THREAD);
	for (size_t i = 0; i < THREADS; i++)
		if (pthread_create(&t[i], NULL, work, (void *)i))
			_exit(6);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	end("main", &r); /* stacks of threads are mapped; pthread_create callocs for each */
}

static void forks(void)
{
	struct heft_region r;
	heft_region_begin(&r, HEFT_PROCESS);
	void *p = keep(malloc(100));
	if (!fork()) {
		void *q = keep(malloc(1000));
		free(p);
		end("child", &r); /* a copy: 2 allocations of 1100, 1 free of 100 */
		free(q);
		_exit(0);
	}
	wait(NULL);
	end("parent", &r);
	free(p);
}

static void *free_it(void *p)
{
	free(p);
	return NULL;
}

static void handed_over(void)
{
	struct heft_region mine, all;
	pthread_t t;
	heft_region_begin(&all, HEFT_PROCESS);
	if (pthread_create(&t, NULL, free_it, keep(malloc(500))))
		_exit(6);
	pthread_join(t, NULL);
	change("all", &all);
	heft_region_begin(&mine, HEFT_THREAD);
	void *p = keep(malloc(500));
	end("mine", &mine);
	free(p);
	(void)heft_region_end(&all, NULL);
}

/* Each must be refused, and none may crash. */
static void misuse(void)
{
	struct heft_region r, copy, many[100];
	struct heft_stats s = {0};
	int begun = 0;
	memset(&r, 0, sizeof r);
	say("never_begun", heft_region_change(&r, &s), &s);
	say("bad_scope", heft_region_begin(&r, (enum heft_scope)7), &s);
	heft_region_begin(&r, HEFT_THREAD);
	copy = r;
	(void)heft_region_end(&r, NULL);
	say("twice", heft_region_end(&r, NULL), &s);
	say("old_copy", heft_region_end(&copy, NULL), &s);
	for (int i = 0; i < 100; i++)
		begun += heft_region_begin(&many[i], HEFT_THREAD) == 0;
	say("many", begun, &s);
	for (int i = 0; i < 100; i++)
		(void)heft_region_end(&many[i], NULL);
	say("again", heft_region_begin(&r, HEFT_THREAD), &s);
	say("same", heft_region_begin(&r, HEFT_THREAD), &s); /* ends the first */
	say("end", heft_region_end(&r, NULL), &s);
}

static void print_failure(const char *message)
{
	if (write(1, message, strlen(message)) < 0)
		_exit(3);
}

static void parse_row(void)
{
	keep(malloc(64));
}

static void expectations(int calls_back)
{
	struct heft_region r;
	keep(malloc(4000));
	heft_region_begin_named(&r, HEFT_THREAD, "rows");
	for (int i = 0; i < 10; i++)
		parse_row();
	if (calls_back)
		heft_on_failure(print_failure);
	HEFT_EXPECT_LE(&r, allocations, 10);
	HEFT_EXPECT_EQ(&r, allocated_bytes, 640);
	HEFT_EXPECT_LE(&r, live_blocks, 3); /* the line that fails */
	(void)heft_region_end(&r, NULL);
	HEFT_EXPECT_EQ(&r, frees, 1); /* so does this one */
}

static void *expect_of_another(void *r)
{
	HEFT_EXPECT_LE((struct heft_region *)r, allocations, 1000); /* by another thread */
	return NULL;
}

/* Expectations that nobody can check must not pass. */
static void unchecked(void)
{
	struct heft_region r, many[100];
	pthread_t t;
	heft_on_failure(print_failure);
	memset(&r, 0, sizeof r);
	HEFT_EXPECT_LE(&r, allocations, 1000); /* never begun */
	heft_region_begin_named(&r, HEFT_THREAD, "mine");
	if (pthread_create(&t, NULL, expect_of_another, &r))
		_exit(6);
	pthread_join(t, NULL);
	for (int i = 0; i < 100; i++)
		heft_region_begin(&many[i], HEFT_THREAD);
	HEFT_EXPECT_LE(&many[99], frees, 1000); /* too many */
	HEFT_EXPECT_LE(&r, frees, 1000);
}

/* A name that would colour a terminal, and a line with four digits */
static void odd_places(void)
{
	struct heft_region r;
	heft_on_failure(print_failure);
	heft_region_begin_named(&r, HEFT_THREAD,
				"\033[31mred\n\xc2\x9b"
				"2J \xc3\xa4");
	keep(malloc(1));
	heft_expect(&r, offsetof(struct heft_stats, allocations), HEFT_AT_MOST, 0, "allocations",
		    "far.c", 12345);
}

/* Each process is forked by the one before. The first one has 5000 bytes for a moment, the last one 1000. */
static void generations(int left)
{
	struct heft_region r;
	struct heft_stats s = {0};
	if (left && fork() == 0) {
		generations(left - 1);
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
	if (left)
		return;
	int rc = heft_region_begin(&r, HEFT_PROCESS);
	free(keep(malloc(1000)));
	rc |= heft_region_end(&r, &s);
	say("last", rc, &s);
}

/* The peak of a region is what came on top of 40,000 bytes; and a region in which nothing happens. */
static void peaks(void)
{
	struct heft_region r;
	keep(malloc(40000));
	heft_on_failure(print_failure);
	heft_region_begin(&r, HEFT_THREAD);
	parse_row();
	HEFT_EXPECT_LE(&r, peak_bytes, 63);
	(void)heft_region_end(&r, NULL);
	heft_region_begin(&r, HEFT_THREAD);
	(void)heft_region_end(&r, NULL);
	HEFT_EXPECT_EQ(&r, allocations, 1);
}

static void all(void)
{
	struct heft_stats s = {0};
	int rc = heft_stats_get(HEFT_PROCESS, &s);
	say("process", rc, &s);
	rc = heft_stats_get(HEFT_THREAD, &s);
	say("thread", rc, &s);
}

/* heft_stop and heft_start: 1,000 blocks in between are not recorded, and their frees are no faults. */
static void stops(void)
{
	void *kept[1000];
	void *before = keep(malloc(11));
	heft_stop();
	for (int i = 0; i < 1000; i++)
		kept[i] = keep(malloc(100));
	free(before);
	heft_start();
	for (int i = 0; i < 1000; i++)
		free(kept[i]);
	free(keep(malloc(22)));
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	char line[32];
	int n = snprintf(line, sizeof line, "running %d\n", heft_running());
	if (write(1, line, (size_t)n) != n)
		return 3;
	if (!strcmp(what, "nested"))
		nested(HEFT_THREAD);
	else if (!strcmp(what, "process"))
		nested(HEFT_PROCESS);
	else if (!strcmp(what, "overlapping"))
		overlapping();
	else if (!strcmp(what, "functions"))
		functions();
	else if (!strcmp(what, "threads"))
		threads();
	else if (!strcmp(what, "forks"))
		forks();
	else if (!strcmp(what, "handed"))
		handed_over();
	else if (!strcmp(what, "misuse"))
		misuse();
	else if (!strcmp(what, "callback"))
		expectations(1);
	else if (!strcmp(what, "abort"))
		expectations(0);
	else if (!strcmp(what, "peaks"))
		peaks();
	else if (!strcmp(what, "unchecked"))
		unchecked();
	else if (!strcmp(what, "odd"))
		odd_places();
	else if (!strcmp(what, "generations")) {
		free(keep(malloc(5000)));
		generations(100);
	} else if (!strcmp(what, "all"))
		all();
	else if (!strcmp(what, "stops"))
		stops();
	else if (!strcmp(what, "dump"))
		return heft_dump(argv[2]) ? 7 : 0;
	else
		return 2;
	return 0;
}
