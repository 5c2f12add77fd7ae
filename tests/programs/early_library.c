/* The library of early_late.c: allocates in its constructor, frees that block and
 * takes another one in its destructor, after the program's own. */
#include "program.h"

#include <stdlib.h>

static void *block;

void *early_library_block(void);
void *early_library_block(void)
{
	return block;
}

__attribute__((constructor, noipa)) static void library_constructor(void)
{
	block = malloc(2001); /* @library_constructor */
	keep(block);
}

__attribute__((destructor, noipa)) static void library_destructor(void)
{
	void *p = malloc(2002); /* @library_destructor */

	keep(p);
	free(block);
	say("library destructor\n");
}
