/*
 * The least that a preloaded allocation hook can do: call the next allocator. What heft costs while
 * it is switched off is measured against this, since any hook at all costs this much.
 *
 * The next functions are looked up by a constructor; what is called before it goes to glibc's own
 * names, and a block of theirs is the next allocator's too (this is for glibc below, nothing else).
 */
#include <dlfcn.h>
#include <stddef.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void __libc_free(void *block);

static void *(*next_malloc)(size_t) = __libc_malloc;
static void *(*next_calloc)(size_t, size_t) = __libc_calloc;
static void *(*next_realloc)(void *, size_t) = __libc_realloc;
static void (*next_free)(void *) = __libc_free;

__attribute__((constructor)) static void look_up(void)
{
	next_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
	next_calloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
	next_realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
	next_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
}

void *malloc(size_t size)
{
	return next_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	return next_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
	return next_realloc(block, size);
}

void free(void *block)
{
	next_free(block);
}
