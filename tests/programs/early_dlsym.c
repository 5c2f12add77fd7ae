/* A library to preload whose dlsym allocates, as that of older C libraries does: at a time when no
 * allocator is known yet. The block is kept for the program. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

void *early_dlsym_block;

void *dlsym(void *handle, const char *name)
{
	static void *(*next)(void *, const char *);

	if (!next)
		next = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
	if (!early_dlsym_block)
		early_dlsym_block = malloc(5000);
	return next(handle, name);
}
