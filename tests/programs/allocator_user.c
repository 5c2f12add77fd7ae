/* A program whose library has an allocator linked in (linked_allocator.c): it is linked with it, or
 * loads it when it runs. */
#include "program.h"

#include <dlfcn.h>
#include <time.h>

#ifdef LINKED
void take_megabytes(int count);
#endif

int main(int argc, char **argv)
{
#ifdef LINKED
	(void)argc;
	(void)argv;
	take_megabytes(40);
#else
	nanosleep(&(struct timespec){0, 300000000}, NULL);
	void *library = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW);
	must(library != NULL, dlerror());
	void (*take)(int);
	*(void **)(void *)&take = dlsym(library, "take_megabytes");
	take(40);
	nanosleep(&(struct timespec){1, 200000000}, NULL);
#endif
	nanosleep(&(struct timespec){0, 200000000}, NULL);
	return 0;
}
