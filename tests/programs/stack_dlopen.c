/* Loads and unloads two libraries in turn, calling into each. Prints how often the
 * second one landed at the address of the first: the case that matters. */
#define _GNU_SOURCE
#include "program.h"

#include <dlfcn.h>
#include <stdlib.h>

NOINLINE static void *use(const char *path, size_t n)
{
	void *library = dlopen(path, RTLD_NOW);
	void *(*entry)(size_t);
	void *p, *at;

	must(library != NULL, "dlopen");
	entry = (void *(*)(size_t))dlsym(library, "plugin_entry");
	must(entry != NULL, "dlsym");
	at = (void *)entry;
	for (int i = 0; i < 3; i++) {
		p = entry(n); /* @dlopen.call */
		keep(p);
		free(p);
	}
	dlclose(library);
	return at;
}

int main(int argc, char **argv)
{
	unsigned same = 0;

	must(argc == 3, "usage: stack_dlopen A B");
	for (int i = 0; i < 20; i++)
		same += use(argv[1], 901) == use(argv[2], 902);
	say_number("same address", same);
	return 0;
}
