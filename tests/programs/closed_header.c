/* Closes the first page of its own file, or of the library argv[1] (built from stack_plugin.c), as packers do, and
 * allocates from places that were not seen before. All its symbols are bound at start. */
#define _GNU_SOURCE
#include "program.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

static const char *whose; /* "": the program's */

static int find_first_page(struct dl_phdr_info *info, size_t bytes, void *page)
{
	(void)bytes;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type == PT_LOAD && ph->p_offset == 0 && !strcmp(info->dlpi_name, whose))
			*(uintptr_t *)page = info->dlpi_addr + ph->p_vaddr;
	}
	return 0;
}

NOINLINE static void *first(void)
{
	void *p = malloc(10);

	keep(p);
	return p;
}

NOINLINE static void *second(void)
{
	void *p = first();

	keep(p);
	return p;
}

int main(int argc, char **argv)
{
	uintptr_t page = 0;
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	void *(*entry)(size_t) = NULL;

	must(argc == 1 || library != NULL, "dlopen");
	if (library)
		entry = (void *(*)(size_t))dlsym(library, "plugin_entry");
	whose = argc > 1 ? argv[1] : "";
	dl_iterate_phdr(find_first_page, &page);
	must(page && !mprotect((void *)page, PAGE, PROT_NONE), "mprotect");
	for (int i = 0; i < 100; i++) {
		first();
		second();
		if (entry)
			keep(entry(10));
	}
	_exit(7);
}
