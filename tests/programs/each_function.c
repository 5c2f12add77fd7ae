/* One case for each interposed C function and for each rule about what counts.
 * argv[1] names the case; the expected numbers stand in
 * tests/integration/test_counts.py next to the same name. Nothing but the marked
 * lines allocates. */
#define _GNU_SOURCE
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/resource.h>

/* Not in glibc 2.36: there only if something preloaded brings them. */
extern void free_sized(void *p, size_t size) __attribute__((weak));
extern void free_aligned_sized(void *p, size_t alignment, size_t size) __attribute__((weak));

NOINLINE static void case_nothing(void)
{
}

NOINLINE static void case_malloc(void)
{
	void *a = malloc(100); /* @malloc.a */
	void *b = malloc(200); /* @malloc.b */
	void *c = malloc(300); /* @malloc.c */

	keep(a), keep(b), keep(c);
	free(b);
	free(a);
}

NOINLINE static void case_calloc(void)
{
	char *a = calloc(3, 50); /* @calloc.a */
	void *b = calloc(0, 8);  /* @calloc.b */
	void *c = calloc(opaque(SIZE_MAX / 2), 4);

	must(a && a[0] == 0 && a[149] == 0, "calloc: zeroed");
	must(b != NULL && c == NULL, "calloc: zero size succeeds, overflow fails");
	keep(a), keep(b);
	free(a);
}

NOINLINE static void case_realloc(void)
{
	char *p = malloc(100); /* @realloc.a */

	keep(p);
	p[99] = 'x';
	p = realloc(p, 300); /* @realloc.b */
	keep(p);
	must(p[99] == 'x', "realloc: content kept");
	p = realloc(p, 50); /* @realloc.c */
	keep(p);
}

NOINLINE static void case_realloc_null(void)
{
	void *p = realloc(NULL, 123); /* @realloc_null.a */

	keep(p);
	free(p);
}

NOINLINE static void case_realloc_zero(void)
{
	void *p = malloc(64); /* @realloc_zero.a */
	void *q;

	keep(p);
	q = realloc(p, opaque(0));
	must(q == NULL, "realloc(p, 0) frees with glibc");
	q = malloc(10); /* @realloc_zero.b */
	keep(q);
}

NOINLINE static void case_realloc_fails(void)
{
	char *p = malloc(40); /* @realloc_fails.a */

	keep(p);
	p[39] = 'y';
	must(realloc(p, opaque(PTRDIFF_MAX)) == NULL, "realloc: too much fails");
	must(p[39] == 'y', "realloc: the old block stays");
	free(p);
}

NOINLINE static void case_posix_memalign(void)
{
	void *p = NULL, *q = &p;

	must(posix_memalign(&p, 64, 1000) == 0, "posix_memalign"); /* @posix_memalign.a */
	must(((uintptr_t)p & 63) == 0, "posix_memalign: aligned");
	must(posix_memalign(&q, opaque(3), 10) == EINVAL, "posix_memalign: alignment 3");
	must(posix_memalign(&q, opaque(24), 10) == EINVAL, "posix_memalign: alignment 24");
	must(posix_memalign(&q, 64, opaque(PTRDIFF_MAX)) == ENOMEM, "posix_memalign: too much");
	must(q == &p, "posix_memalign: failure leaves the pointer alone");
	keep(p);
	free(p);
}

NOINLINE static void case_aligned_alloc(void)
{
	void *p = aligned_alloc(64, 640); /* @aligned_alloc.a */
	void *q = aligned_alloc(4096, 0); /* @aligned_alloc.b */

	must(((uintptr_t)p & 63) == 0 && ((uintptr_t)q & 4095) == 0, "aligned_alloc: aligned");
	must(aligned_alloc(64, opaque(PTRDIFF_MAX)) == NULL, "aligned_alloc: too much");
	keep(p), keep(q);
	free(p);
}

NOINLINE static void case_memalign(void)
{
	void *p = memalign(256, 77); /* @memalign.a */

	must(((uintptr_t)p & 255) == 0, "memalign: aligned");
	keep(p);
	free(p);
}

NOINLINE static void case_valloc(void)
{
	void *p = valloc(5000); /* @valloc.a */

	must(((uintptr_t)p & 4095) == 0, "valloc: aligned");
	keep(p);
	free(p);
}

NOINLINE static void case_pvalloc(void)
{
	void *p = pvalloc(5000); /* @pvalloc.a */

	must(((uintptr_t)p & 4095) == 0, "pvalloc: aligned");
	keep(p);
	free(p);
}

NOINLINE static void case_reallocarray(void)
{
	char *p = reallocarray(NULL, 10, 20); /* @reallocarray.a */
	char *q;

	keep(p);
	p[199] = 'z';
	p = reallocarray(p, 20, 20); /* @reallocarray.b */
	keep(p);
	q = reallocarray(p, opaque(SIZE_MAX / 2), 3);
	must(q == NULL && p[199] == 'z', "reallocarray: overflow fails and keeps the block");
	free(p);
}

NOINLINE static void case_free_sized(void)
{
	void *p = malloc(48);              /* @free_sized.a */
	void *q = aligned_alloc(128, 256); /* @free_sized.b */

	keep(p), keep(q);
	if (!free_sized || !free_aligned_sized)
		_exit(77);
	free_sized(p, 48);
	free_aligned_sized(q, 128, 256);
	free_sized(NULL, 0);
	free_aligned_sized(NULL, 16, 0);
}

NOINLINE static void case_malloc_zero(void)
{
	void *a = malloc(10); /* @malloc_zero.a */
	void *b = malloc(0);  /* @malloc_zero.b */
	void *c = malloc(0);  /* @malloc_zero.c */

	must(b && c && b != c, "malloc(0) gives distinct blocks");
	keep(a);
	free(c);
}

NOINLINE static void case_strdup(void)
{
	static char text[100000 + 1]; /* so much that it is surely sampled */

	memset(text, 'x', sizeof text - 1);

	char *a = strdup(text);         /* @strdup.a */
	char *b = strndup(text, 60000); /* @strdup.b */

	must(!strcmp(a, text) && strlen(b) == 60000 && !strncmp(b, text, 60000),
	     "strdup: what was copied");
	free(a);
	keep(b);
}

NOINLINE static void case_free_null(void)
{
	free(NULL);
	free(NULL);
}

/* The block wanders between two sites; the last one owns it. */
NOINLINE static void *chain_even(void *p, size_t n)
{
	p = realloc(p, n); /* @chain.even */
	keep(p);
	return p;
}

NOINLINE static void *chain_odd(void *p, size_t n)
{
	p = realloc(p, n); /* @chain.odd */
	keep(p);
	return p;
}

NOINLINE static void case_chain(void)
{
	void *p = NULL;

	for (size_t step = 1; step <= 29; step++) { /* 16, 32, ... 320, then 304, 288, ... 176 */
		/* opaque: or gcc 14 makes two calls of the one below, each with its own numbers */
		size_t i = opaque(step <= 20 ? step : 40 - step);

		p = (i % 2 ? chain_odd : chain_even)(p, 16 * i);
	}
	free(p);
}

/* Two calls that read as one site: what each had at most was never there together. */
NOINLINE static void case_same_line(void)
{
	void *p = malloc(16); /* @same_line.first */

	keep(p);
	p = realloc(p, 304), keep(p), p = realloc(p, 320); /* @same_line.both */
	keep(p);
	free(p);
}

NOINLINE static void case_temporary(void)
{
	void *p, *q;

	p = malloc(1); /* @temporary.inner_outer: freed last, another came between */
	keep(p);
	q = malloc(2); /* @temporary.inner: freed at once */
	keep(q);
	free(q);
	free(p);

	p = malloc(4); /* @temporary.crossed */
	keep(p);
	q = malloc(8); /* @temporary.after_free: a free in between does not matter */
	keep(q);
	free(p);
	free(q);

	p = malloc(16); /* @temporary.grown: belongs to the realloc's site when it is freed */
	keep(p);
	p = realloc(p, 32); /* @temporary.grower: of the same block: still temporary */
	keep(p);
	free(p);

	p = malloc(64); /* @temporary.old */
	keep(p);
	q = malloc(128); /* @temporary.victim: the realloc of the other block ends its chance */
	keep(q);
	p = realloc(p, 65); /* @temporary.late */
	keep(p);
	free(p);
	free(q);

	p = malloc(256); /* @temporary.failed_between: a failed call is no allocation */
	keep(p);
	must(malloc(opaque(PTRDIFF_MAX)) == NULL, "temporary: too much fails");
	free(p);
}

/* Two equal maxima: the first instant counts. */
NOINLINE static void case_peak(void)
{
	void *a = malloc(1000); /* @peak.first */
	void *b;

	keep(a);
	free(a);
	a = malloc(400); /* @peak.second_a */
	b = malloc(600); /* @peak.second_b */
	keep(a), keep(b);
	free(a);
	free(b);
}

/* Sizes on both sides of every width that a compact record could have. */
NOINLINE static void case_sizes(void)
{
	static const size_t border[] = {
		0,        127,
		128,      16383,
		16384,    65535,
		65536,    (1u << 20) - 1,
		1u << 20, (1u << 24) - 1,
		1u << 24, (1u << 24) + 1,
		1u << 28,
	};

	for (size_t i = 0; i < sizeof(border) / sizeof(border[0]); i++) {
		void *p = malloc(border[i]); /* @sizes.border */
		keep(p);
		free(p);
	}
	for (size_t i = 0; i <= 3000; i++) {
		void *p = malloc(i); /* @sizes.each */
		keep(p);
		free(p);
	}
}

NOINLINE static void case_huge(void)
{
	void *p = malloc(((size_t)3 << 30) + 7); /* @huge.a */
	void *q = malloc(((size_t)1 << 32) + 5); /* @huge.b */

	if (!p || !q)
		_exit(77); /* not on this machine */
	keep(p), keep(q);
	free(p);
	q = realloc(q, ((size_t)1 << 32) + 4096 * 4); /* @huge.c */
	keep(q);
}

/* Every function fails under the address space limit, and none of that counts. */
NOINLINE static void case_limited(void)
{
	const size_t much = (size_t)2 << 30;
	struct rlimit limit;
	size_t pages = 0;
	char text[64];
	int fd, n;
	char *p;
	void *q = NULL;

	fd = open("/proc/self/statm", 0);
	n = (int)read(fd, text, sizeof(text) - 1);
	must(n > 0, "statm");
	close(fd);
	for (int i = 0; i < n && text[i] >= '0' && text[i] <= '9'; i++)
		pages = pages * 10 + (size_t)(text[i] - '0');
	limit.rlim_cur = limit.rlim_max = pages * 4096 + ((size_t)1 << 30);
	must(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");

	p = malloc(500); /* @limited.a */
	keep(p);
	p[499] = 'q';
	errno = 0;
	must(malloc(opaque(much)) == NULL && errno == ENOMEM, "limited: malloc");
	must(calloc(opaque(much), 1) == NULL, "limited: calloc");
	must(realloc(p, opaque(much)) == NULL && p[499] == 'q', "limited: realloc");
	must(realloc(NULL, opaque(much)) == NULL, "limited: realloc of NULL");
	must(reallocarray(p, opaque(much), 1) == NULL, "limited: reallocarray");
	must(posix_memalign(&q, 64, opaque(much)) == ENOMEM && !q, "limited: posix_memalign");
	must(aligned_alloc(64, opaque(much)) == NULL, "limited: aligned_alloc");
	must(memalign(64, opaque(much)) == NULL, "limited: memalign");
	must(valloc(opaque(much)) == NULL, "limited: valloc");
	must(pvalloc(opaque(much)) == NULL, "limited: pvalloc");
	p = realloc(p, 600); /* @limited.b */
	keep(p);
	free(p);
}

/* The same failures without a limit of its own: for a shell's ulimit -v. */
NOINLINE static void case_under_ulimit(void)
{
	void *p = malloc(500); /* @under_ulimit.a */

	keep(p);
	must(malloc(opaque((size_t)64 << 30)) == NULL, "ulimit -v did not hold");
	free(p);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{"nothing", case_nothing},
		{"malloc", case_malloc},
		{"calloc", case_calloc},
		{"realloc", case_realloc},
		{"realloc_null", case_realloc_null},
		{"realloc_zero", case_realloc_zero},
		{"realloc_fails", case_realloc_fails},
		{"posix_memalign", case_posix_memalign},
		{"aligned_alloc", case_aligned_alloc},
		{"memalign", case_memalign},
		{"valloc", case_valloc},
		{"pvalloc", case_pvalloc},
		{"reallocarray", case_reallocarray},
		{"free_sized", case_free_sized},
		{"malloc_zero", case_malloc_zero},
		{"free_null", case_free_null},
		{"strdup", case_strdup},
		{"chain", case_chain},
		{"same_line", case_same_line},
		{"temporary", case_temporary},
		{"peak", case_peak},
		{"sizes", case_sizes},
		{"huge", case_huge},
		{"limited", case_limited},
		{"under_ulimit", case_under_ulimit},
	};

	must(argc == 2, "usage: each_function CASE");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(argv[1], cases[i].name) == 0) {
			cases[i].run();
			say("done\n");
			return 0;
		}
	}
	must(0, "no such case");
}
