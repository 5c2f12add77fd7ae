/* A parent and its children, for what shows processes.
 *
 *   family few      the parent holds 1,000,000 bytes; one after the other three children hold 2, 4 and
 *                   6 million, free these, and leave 1000, 2000 and 3000 behind
 *   family many N   the parent holds as much; N children become "tiny K" by exec and leave 100 bytes
 *                   each
 *   tiny K          one of these */
#include "program.h"

#include <stdlib.h>
#include <sys/wait.h>

enum { PARENT_BYTES = 1000000, CHILD_BYTES = 2000000, LEFT_BYTES = 1000, TINY_BYTES = 100 };

static NOINLINE void *hold(size_t bytes)
{
	void *p = malloc(opaque(bytes)); /* @hold */
	must(p != NULL, "malloc");
	memset(p, 1, bytes);
	keep(p);
	return p;
}

static NOINLINE void serve(size_t number)
{
	void *left = malloc(opaque(number * LEFT_BYTES)); /* @left */
	keep(left);
	void *p = hold(number * CHILD_BYTES);
	free(p);
}

static NOINLINE void stay_tiny(void)
{
	void *left = malloc(opaque(TINY_BYTES)); /* @tiny */
	keep(left);
}

/* Runs one child to its end. */
static void have_child(size_t number, char *self, char *name)
{
	pid_t pid = fork();
	must(pid >= 0, "fork");
	if (pid == 0 && self) {
		char *argv[] = {name, "x", NULL};
		execv(self, argv);
		_exit(98);
	}
	if (pid == 0) {
		serve(number);
		_exit(0);
	}
	int status;
	must(waitpid(pid, &status, 0) == pid && status == 0, "waitpid");
}

int main(int argc, char **argv)
{
	if (strcmp(argv[0], "tiny") == 0) {
		stay_tiny();
		return 0;
	}
	must(argc > 1, "usage: family few | many N");
	void *own = hold(PARENT_BYTES);
	if (strcmp(argv[1], "few") == 0)
		for (size_t i = 1; i <= 3; i++)
			have_child(i, NULL, NULL);
	else
		for (int i = atoi(argv[2]); i > 0; i--)
			have_child(0, "/proc/self/exe", "tiny");
	free(own);
	return 0;
}
