/* An allocator that a library brings along: blocks of its own memory, which nobody else may free. */
#include "program.h"

static _Alignas(16) char heap[8 << 20];
static size_t used;

void *malloc(size_t n);
void free(void *p);
void *realloc(void *p, size_t n);
void *calloc(size_t n, size_t each);
void *valloc(size_t n);

void *malloc(size_t n)
{
	void *p = heap + used;
	used += (n + 15) & ~(size_t)15;
	must(used <= sizeof heap, "the heap is full");
	return p;
}

void free(void *p)
{
	must(!p || (size_t)((char *)p - heap) < sizeof heap, "freed a block of another allocator");
}

void *realloc(void *p, size_t n)
{
	void *q = malloc(n);
	free(p);
	return q;
}

void *calloc(size_t n, size_t each)
{
	return memset(malloc(n * each), 0, n * each);
}

void *valloc(size_t n)
{
	return malloc(n);
}
