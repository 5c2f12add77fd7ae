/* first_call FUNCTION: the first call of the process, before any constructor has run,
 * takes 100,000 bytes from FUNCTION. */
#include "program.h"

#include <malloc.h>
#include <stdlib.h>

enum { BYTES = 100000 };

NOINLINE static void in_preinit(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	void *p = NULL;
	if (!strcmp(name, "malloc"))
		p = malloc(BYTES);
	else if (!strcmp(name, "calloc"))
		p = calloc(BYTES / 100, 100);
	else if (!strcmp(name, "realloc"))
		p = realloc(NULL, BYTES);
	else if (!strcmp(name, "reallocarray"))
		p = reallocarray(NULL, BYTES / 100, 100);
	else if (!strcmp(name, "posix_memalign"))
		must(!posix_memalign(&p, 64, BYTES), "posix_memalign");
	else if (!strcmp(name, "aligned_alloc"))
		p = aligned_alloc(32, BYTES);
	else if (!strcmp(name, "memalign"))
		p = memalign(64, BYTES);
	else if (!strcmp(name, "valloc"))
		p = valloc(BYTES);
	must(p != NULL, "first call");
	keep(p);
}

__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int,
									      char **) = in_preinit;

int main(void)
{
	return 0;
}
