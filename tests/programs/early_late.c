/* Allocations before main and frees after it: .preinit_array and constructors of
 * the program and of a library it links (whose constructor may run before that of
 * anything preloaded), atexit handlers and destructors. */
#include "program.h"

#include <stdlib.h>

void *early_library_block(void);

static void *preinit_block, *constructor_block, *atexit_block;

NOINLINE static void in_preinit(int argc, char **argv, char **envp)
{
	(void)argc, (void)argv, (void)envp;
	preinit_block = malloc(1001); /* @preinit */
	keep(preinit_block);
}
__attribute__((section(".preinit_array"),
	       used)) static void (*const preinit[])(int, char **, char **) = {in_preinit};

__attribute__((constructor, noipa)) static void in_constructor(void)
{
	constructor_block = malloc(1002); /* @constructor */
	keep(constructor_block);
}

__attribute__((destructor, noipa)) static void in_destructor(void)
{
	void *p = malloc(1003); /* @destructor */

	keep(p);
	free(preinit_block);
	free(constructor_block);
	say("destructor\n");
}

NOINLINE static void in_atexit(void)
{
	void *p = malloc(1004); /* @atexit: freed at once */

	keep(p);
	free(p);
	free(atexit_block);
	say("atexit\n");
}

int main(void)
{
	atexit(in_atexit);
	atexit_block = malloc(1005); /* @main */
	keep(atexit_block);
	must(early_library_block() != NULL, "library constructor");
	say("main\n");
	return 5;
}
