/* A program that brings its own malloc, as one with an allocator linked in does: no
 * preloaded hook is ever called. heft must notice and say so. */
#include "program.h"

#include <errno.h>

static _Alignas(16) char heap[16 << 20];
static size_t used;

void *malloc(size_t n)
{
	size_t *p = (size_t *)(void *)(heap + used);

	if (n > sizeof(heap) - used - 32) {
		errno = ENOMEM;
		return NULL;
	}
	used += (n + 16 + 15) & ~(size_t)15;
	p[0] = n;
	return p + 2;
}

void free(void *p)
{
	(void)p;
}

void *calloc(size_t a, size_t b)
{
	size_t n;
	void *p;

	if (__builtin_mul_overflow(a, b, &n))
		return NULL;
	p = malloc(n);
	return p ? memset(p, 0, n) : NULL;
}

void *realloc(void *old, size_t n)
{
	void *p = malloc(n);

	if (p && old) {
		size_t before = ((size_t *)old)[-2];

		memcpy(p, old, before < n ? before : n);
	}
	return p;
}

int main(void)
{
	char *p = NULL;

	for (size_t i = 1; i <= 100; i++) {
		p = realloc(p, i * 10);
		must(p != NULL, "realloc");
		p[i * 10 - 1] = 'x';
	}
	say_number("used", used);
	return 12;
}
