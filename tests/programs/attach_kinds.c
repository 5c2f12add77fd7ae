/* Calls the allocator in every way that a program can, and keeps its own books: attach_kinds THREADS [LIBRARY...].
 * A library is loaded with RTLD_DEEPBIND at the start and called like the rest. Compiled with -fno-plt.
 *
 * Commands, one a line:
 *   round N      each thread does every kind N times and frees it; answers with the books
 *   keep N       each thread does every kind N times and keeps it; answers with the books
 *   drop         frees all that is kept
 *   run, halt    the threads go on by themselves until they are halted; "halt" answers with the books
 *   books        answers with the books
 * The books are one line of JSON: for each kind the calls and the bytes so far, and the frees. No thread is in a
 * call when they are written. */
#define _GNU_SOURCE
#include "program.h"

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { KINDS = 14, THREADS_MOST = 16, KEPT_MOST = 1 << 14 };

static void *(*volatile taken)(size_t) = malloc; /* &malloc, resolved at the start */
static void *(*volatile looked_up)(size_t);
static void *(*volatile bound_deep)(size_t);

/* Each kind is one function, which the stacks must name. */
NOINLINE static void *by_malloc(size_t n)
{
	void *p = malloc(n);
	keep(p);
	return p;
}
NOINLINE static void *by_calloc(size_t n)
{
	void *p = calloc(n, 1);
	keep(p);
	return p;
}
NOINLINE static void *by_pointer(size_t n)
{
	void *p = taken(n);
	keep(p);
	return p;
}
NOINLINE static void *by_dlsym(size_t n)
{
	void *p = looked_up(n);
	keep(p);
	return p;
}
NOINLINE static void *by_deepbind(size_t n)
{
	void *p = bound_deep(n);
	keep(p);
	return p;
}
NOINLINE static void *by_aligned_alloc(size_t n)
{
	void *p = aligned_alloc(64, n);
	keep(p);
	return p;
}
NOINLINE static void *by_memalign(size_t n)
{
	void *p = memalign(32, n);
	keep(p);
	return p;
}
NOINLINE static void *by_valloc(size_t n)
{
	void *p = valloc(n);
	keep(p);
	return p;
}
NOINLINE static void *by_pvalloc(size_t n)
{
	void *p = pvalloc(n);
	keep(p);
	return p;
}
NOINLINE static void *by_reallocarray(size_t n)
{
	void *p = reallocarray(NULL, n, 1);
	keep(p);
	return p;
}
NOINLINE static void *by_realloc(size_t n)
{
	void *p = realloc(NULL, n);
	keep(p);
	return p;
}
NOINLINE static void *by_strdup(size_t n)
{
	char text[2048];
	memset(text, 'x', n - 1);
	text[n - 1] = 0;
	void *p = strdup(text);
	keep(p);
	return p;
}
NOINLINE static void *by_strndup(size_t n)
{
	char text[2048];
	memset(text, 'y', n + 5);
	void *p = strndup(text, n - 1);
	keep(p);
	return p;
}
NOINLINE static void *by_posix_memalign(size_t n)
{
	void *p = NULL;
	must(!posix_memalign(&p, 128, n), "posix_memalign failed");
	keep(p);
	return p;
}

static const struct {
	const char *name;
	void *(*call)(size_t);
} kinds[KINDS] = {
#define KIND(name) {#name, name}
	KIND(by_malloc),   KIND(by_calloc),         KIND(by_pointer),  KIND(by_dlsym),
	KIND(by_deepbind), KIND(by_aligned_alloc),  KIND(by_memalign), KIND(by_valloc),
	KIND(by_pvalloc),  KIND(by_reallocarray),   KIND(by_realloc),  KIND(by_strdup),
	KIND(by_strndup),  KIND(by_posix_memalign),
};

static struct book {
	uint64_t calls[KINDS], bytes[KINDS], frees, resized, resized_bytes;
	void *kept[KEPT_MOST];
	size_t kept_count;
	uint64_t wanted; /* rounds, from here on */
	int keep_them;
	char pad[64];
} books[THREADS_MOST];
static unsigned thread_count;
static volatile int running;
static pthread_barrier_t begin, done;

NOINLINE static void *resize(void *p, size_t n)
{
	void *q = realloc(p, n);
	keep(q);
	return q;
}

static void all_kinds(struct book *b, unsigned i, int keep_them)
{
	void *blocks[KINDS];
	for (unsigned k = 0; k < KINDS; k++) {
		size_t n = 1 + (i * 13 + k * 101) % 1000;
		blocks[k] = kinds[k].call(n);
		must(blocks[k] != NULL, "no memory");
		memset(blocks[k], (int)k, n);
		b->calls[k]++;
		b->bytes[k] += n;
	}
	for (unsigned k = 0; k < KINDS; k++) {
		must(*(unsigned char *)blocks[k] == k, "a block does not hold what was written");
		if (k == 0 && !keep_them) { /* to a size that says what it grew by */
			size_t n = 1 + i * 13 % 1000;
			blocks[k] = resize(blocks[k], n + 50);
			b->resized++;
			b->resized_bytes += 50;
		}
		if (keep_them && b->kept_count < KEPT_MOST) {
			b->kept[b->kept_count++] = blocks[k];
		} else {
			free(blocks[k]);
			b->frees++;
		}
	}
}

static void *worker(void *arg)
{
	struct book *b = arg;
	for (unsigned i = 0;;) {
		pthread_barrier_wait(&begin);
		if (b->wanted == UINT64_MAX)
			while (running)
				all_kinds(b, i++, 0);
		else
			for (uint64_t n = 0; n < b->wanted; n++)
				all_kinds(b, i++, b->keep_them);
		pthread_barrier_wait(&done);
	}
	return arg;
}

static void say_books(void)
{
	char line[4096];
	int at = snprintf(line, sizeof line, "{");
	uint64_t frees = 0, resized = 0, grown = 0;
	for (unsigned k = 0; k < KINDS; k++) {
		uint64_t calls = 0, bytes = 0;
		for (unsigned t = 0; t < thread_count; t++) {
			calls += books[t].calls[k];
			bytes += books[t].bytes[k];
		}
		at += snprintf(line + at, sizeof line - (size_t)at, "\"%s\":[%llu,%llu],",
			       kinds[k].name, (unsigned long long)calls, (unsigned long long)bytes);
	}
	for (unsigned t = 0; t < thread_count; t++) {
		frees += books[t].frees;
		resized += books[t].resized;
		grown += books[t].resized_bytes;
	}
	snprintf(line + at, sizeof line - (size_t)at, "\"frees\":%llu,\"resize\":[%llu,%llu]}\n",
		 (unsigned long long)frees, (unsigned long long)resized, (unsigned long long)grown);
	say(line);
}

static void set_work(uint64_t wanted, int keep_them)
{
	for (unsigned t = 0; t < thread_count; t++) {
		books[t].wanted = wanted;
		books[t].keep_them = keep_them;
	}
	pthread_barrier_wait(&begin);
}

static void drop_all(void)
{
	for (unsigned t = 0; t < thread_count; t++) {
		for (size_t i = 0; i < books[t].kept_count; i++)
			free(books[t].kept[i]);
		books[t].frees += books[t].kept_count;
		books[t].kept_count = 0;
	}
}

/* A line without stdio, which would allocate. */
static int read_line(char *line, size_t size)
{
	size_t used = 0;
	while (used < size - 1 && read(0, line + used, 1) == 1)
		if (line[used++] == '\n')
			break;
	line[used] = 0;
	return used > 0;
}

int main(int argc, char **argv)
{
	char line[64], word[32];
	thread_count = (unsigned)atoi(argv[1]);
	must(argc > 2 && thread_count && thread_count <= THREADS_MOST,
	     "usage: attach_kinds THREADS LIBRARY");
	looked_up = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "malloc");
	void *library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
	must(library != NULL, "dlopen failed");
	bound_deep = (void *(*)(size_t))dlsym(library, "attach_part_malloc");
	pthread_barrier_init(&begin, NULL, thread_count + 1);
	pthread_barrier_init(&done, NULL, thread_count + 1);
	for (unsigned t = 0; t < thread_count; t++) {
		pthread_t thread;
		must(!pthread_create(&thread, NULL, worker, &books[t]), "no thread");
	}
	say("ready\n");
	while (read_line(line, sizeof line)) {
		unsigned long long n = 0;
		must(sscanf(line, "%31s %llu", word, &n) >= 1, "an empty line");
		if (!strcmp(word, "run")) {
			running = 1;
			set_work(UINT64_MAX, 0);
			say("runs\n");
			continue;
		}
		if (!strcmp(word, "halt")) {
			running = 0;
			pthread_barrier_wait(&done);
		} else if (!strcmp(word, "round") || !strcmp(word, "keep")) {
			set_work(n, *word == 'k');
			pthread_barrier_wait(&done);
		} else if (!strcmp(word, "drop")) {
			drop_all();
		}
		say_books();
	}
	say("right\n");
	return 0;
}
