/* 100 blocks of 2,000 bytes that heft follows, and that nothing leads to in the end. With "fork" a child makes and loses as many
 * of its own. */
#include "heft.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static __attribute__((noinline)) void lose(void)
{
	for (int i = 0; i < 100; i++) {
		void *volatile p = malloc(2000);
		heft_mark_block(p, "made");
		p = NULL;
	}
}

static __attribute__((noinline)) void overwrite_stack(void)
{
	volatile char bytes[32768];
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = 0;
}

int main(int argc, char **argv)
{
	lose();
	overwrite_stack();
	if (argc > 1 && !strcmp(argv[1], "fork")) {
		pid_t child = fork();
		if (child < 0)
			return 1;
		if (child)
			return waitpid(child, NULL, 0) != child;
		lose();
		overwrite_stack();
	}
	return 0;
}
