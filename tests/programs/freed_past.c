/* Grown blocks that heft sees come and not go: libc's own free takes them, and their memory is used again
 * for other things. Nobody may ask the allocator about them at the end. */
#define _GNU_SOURCE
#include "program.h"

#include <dlfcn.h>
#include <stdlib.h>

#define BLOCKS 20000

int main(void)
{
	void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
	void (*libc_free)(void *) = (void (*)(void *))dlsym(libc, "free");
	void *(*libc_malloc)(size_t) = (void *(*)(size_t))dlsym(libc, "malloc");
	static char *kept[BLOCKS];

	must(libc_free && libc_malloc, "dlsym");
	for (int i = 0; i < BLOCKS; i++) {
		kept[i] = realloc(malloc(100), 300);
		memset(kept[i], 'k', 300);
	}
	for (int i = 0; i < BLOCKS; i++)
		libc_free(kept[i]);
	/* What was a header is text now. */
	for (int i = 0; i < 64; i++)
		memset(libc_malloc(90000), 'A', 90000);
	say("done\n");
	return 7;
}
