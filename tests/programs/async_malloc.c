/* An allocator to preload that may be interrupted anywhere by a handler that allocates: a block is
 * one atomic addition. free does nothing; past KEPT bytes the space is used over and over, so what is
 * to stay must be allocated before that. For tests of what lies above it. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { HEADER = 16 };
#define KEPT (256ull << 20)
#define ROOM (2 * KEPT)

static _Alignas(4096) unsigned char space[ROOM]; /* address space, until it is touched */
static _Atomic uint64_t used;

static void *take(size_t size, size_t alignment)
{
	uint64_t need = ((uint64_t)size + alignment + HEADER + 15) & ~15ull;
	uint64_t at;
	uintptr_t p;

	if (size > KEPT / 2) {
		errno = ENOMEM;
		return NULL;
	}
	do {
		at = atomic_fetch_add(&used, need);
		if (at >= KEPT)
			at = KEPT + (at - KEPT) % KEPT;
	} while (at > ROOM - need);
	p = ((uintptr_t)space + at + HEADER + alignment - 1) & ~(uintptr_t)(alignment - 1);
	((size_t *)p)[-1] = size;
	return (void *)p;
}

void *malloc(size_t size)
{
	return take(size, 16);
}
void free(void *p)
{
	(void)p;
}

void *calloc(size_t n, size_t each)
{
	size_t size;

	if (__builtin_mul_overflow(n, each, &size)) {
		errno = ENOMEM;
		return NULL;
	}
	void *p = take(size, 16);

	return p ? memset(p, 0, size) : NULL;
}

void *realloc(void *old, size_t size)
{
	void *p = take(size, 16);

	if (p && old) {
		size_t had = ((size_t *)old)[-1];

		memcpy(p, old, had < size ? had : size);
	}
	return p;
}

void *memalign(size_t alignment, size_t size);
void *memalign(size_t alignment, size_t size)
{
	return take(size, alignment < 16 ? 16 : alignment);
}
void *aligned_alloc(size_t alignment, size_t size)
{
	return memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size);
int posix_memalign(void **out, size_t alignment, size_t size)
{
	*out = memalign(alignment, size);
	return *out ? 0 : ENOMEM;
}
