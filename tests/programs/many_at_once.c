/* argv[1] children that allocate one block each and are all there at once, for argv[2] seconds from then on. */
#include "program.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int gate[2], ready[2], count = argc > 1 ? atoi(argv[1]) : 0;
	char byte;
	must(argc > 2 && pipe(gate) == 0 && pipe(ready) == 0, "pipe");
	for (int i = count; i > 0; i--) {
		pid_t pid = fork();
		must(pid >= 0, "fork");
		if (pid)
			continue;
		close(gate[1]);
		char *block = malloc(1000);
		must(block != NULL && write(ready[1], "x", 1) == 1, "malloc, write");
		_exit(read(gate[0], &byte, 1) != 0);
	}
	for (int i = 0; i < count; i++)
		must(read(ready[0], &byte, 1) == 1, "read");
	sleep((unsigned)atoi(argv[2]));
	close(gate[1]);
	while (wait(NULL) > 0)
		;
	return 0;
}
