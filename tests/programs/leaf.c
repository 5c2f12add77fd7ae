/* The program at the end of an exec: five blocks of 100 bytes, two freed, status 9.
 * With arguments it prints them; with "environ" it prints its environment too. */
#include "program.h"

#include <stdlib.h>

extern char **environ;

NOINLINE static void leaf_work(void)
{
	void *block[5];

	for (int i = 0; i < 5; i++) {
		block[i] = malloc(100); /* @leaf.block */
		keep(block[i]);
	}
	free(block[0]);
	free(block[4]);
}

int main(int argc, char **argv)
{
	leaf_work();
	for (int i = 1; i < argc; i++) {
		say(argv[i]);
		say("\n");
	}
	if (argc > 1 && strcmp(argv[1], "environ") == 0) {
		for (char **e = environ; *e; e++) {
			say(*e);
			say("\n");
		}
	}
	return 9;
}
