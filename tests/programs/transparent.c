/* Prints what a program can notice of its allocator without looking at addresses:
 * errno after every call, results of failing calls, usable sizes, alignment. The
 * output must be the same with and without heft. */
#define _GNU_SOURCE
#include "program.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>

static void errno_after(const char *call)
{
	say(call);
	say_number(" errno", (unsigned long long)errno);
	errno = 1234;
}

static void calls(int with_pvalloc)
{
	void *p, *q = NULL;

	errno = 1234;
	p = malloc(100);
	errno_after("malloc");
	say_number("usable", malloc_usable_size(p));
	p = realloc(p, 5000);
	errno_after("realloc");
	say_number("usable", malloc_usable_size(p));
	must(realloc(p, opaque(PTRDIFF_MAX)) == NULL, "realloc");
	errno_after("realloc fails");
	free(p);
	errno_after("free");
	free(NULL);
	errno_after("free of NULL");
	p = calloc(10, 10);
	errno_after("calloc");
	free(p);
	must(calloc(opaque(SIZE_MAX), 2) == NULL, "calloc");
	errno_after("calloc fails");
	must(malloc(opaque(PTRDIFF_MAX)) == NULL, "malloc");
	errno_after("malloc fails");
	say_number("posix_memalign", (unsigned)posix_memalign(&q, 64, 100));
	errno_after("posix_memalign");
	say_number("usable", malloc_usable_size(q));
	free(q);
	say_number("posix_memalign, bad alignment", (unsigned)posix_memalign(&q, opaque(3), 100));
	errno_after("posix_memalign, bad alignment");
	say_number("posix_memalign fails", (unsigned)posix_memalign(&q, 64, opaque(PTRDIFF_MAX)));
	errno_after("posix_memalign fails");
	p = aligned_alloc(64, 128);
	errno_after("aligned_alloc");
	free(p);
	must(aligned_alloc(64, opaque(PTRDIFF_MAX)) == NULL, "aligned_alloc");
	errno_after("aligned_alloc fails");
	p = memalign(4096, 10);
	errno_after("memalign");
	free(p);
	p = valloc(10);
	errno_after("valloc");
	say_number("usable", malloc_usable_size(p));
	free(p);
	if (with_pvalloc) { /* jemalloc has none, and does not know what glibc's gives */
		p = pvalloc(10);
		errno_after("pvalloc");
		say_number("usable", malloc_usable_size(p));
		free(p);
	}
	p = reallocarray(NULL, 10, 10);
	errno_after("reallocarray");
	must(reallocarray(p, opaque(SIZE_MAX), 2) == NULL, "reallocarray");
	errno_after("reallocarray fails");
	keep(&p); /* still ours: the call before has failed */
	p = realloc(p, opaque(0));
	errno_after("realloc to 0");
	say(p ? "a block\n" : "no block\n");
	free(p);
	for (size_t n = 0; n < 200; n += 7) {
		p = malloc(n);
		say_number("usable", malloc_usable_size(p));
		free(p);
	}
	errno_after("the end");
}

int main(int argc, char **argv)
{
	must(argc == 2, "usage: transparent calls|calls-portable|HOW TO END");
	if (strncmp(argv[1], "calls", 5) == 0) {
		calls(strcmp(argv[1], "calls-portable") != 0);
		return 0;
	}
	keep(malloc(10));
	say("before the end\n");
	if (strcmp(argv[1], "segv") == 0)
		*(volatile int *)opaque(8) = 1;
	if (strcmp(argv[1], "abort") == 0)
		abort();
	if (strcmp(argv[1], "term") == 0)
		raise(SIGTERM);
	if (strcmp(argv[1], "kill") == 0)
		raise(SIGKILL);
	if (strcmp(argv[1], "_exit") == 0)
		_exit(17);
	if (strcmp(argv[1], "double-free") == 0) { /* glibc's own words on stderr, then SIGABRT */
		void *p = malloc(100);
		void *volatile again = p;

		keep(p);
		free(p);
		free(again);
	}
	return atoi(argv[1]);
}
