/* A program with functions of its own that have the names of libc's, built on others of
 * libc's: as a portability layer has them. Its child ends with 4; it ends with 9. With
 * an argument the child becomes /bin/true through its own execve, and ends with 0. */
#define _GNU_SOURCE
#include "program.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;

pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
	if (usage)
		memset(usage, 0, sizeof *usage);
	return waitpid(pid, status, options);
}

void _exit(int status)
{
	_Exit(status);
	for (;;)
		;
}

int execve(const char *path, char *const *argv, char *const *env)
{
	environ = (char **)env;
	return execv(path, argv);
}

int main(int argc, char **argv)
{
	int status = 0;
	pid_t pid = fork();

	(void)argv;
	if (pid == 0) {
		char *const arguments[] = {"true", NULL};

		keep(malloc(100));
		if (argc > 1)
			execve("/bin/true", arguments, environ);
		syscall(SYS_exit_group, 4);
	}
	must(waitpid(pid, &status, 0) == pid, "waitpid");
	printf("%d\n", WEXITSTATUS(status));
	fflush(stdout);
	_exit(9);
}
