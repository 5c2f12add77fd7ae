/* forks_late READY GO: allocates, makes the file READY, waits for the file GO, then
 * forks. The child allocates and exits with 7; the parent says how the child ended
 * and exits with 5. */
#include "program.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int status = 0;
	if (argc < 3)
		return 2;
	keep(malloc(100));
	close(open(argv[1], O_CREAT | O_WRONLY, 0600));
	for (int i = 0; access(argv[2], F_OK) && i < 6000; i++)
		usleep(10000);
	pid_t child = fork();
	if (!child) {
		for (int i = 0; i < 1000; i++)
			keep(malloc(100 + (size_t)i * 10));
		_exit(7);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return 3;
	if (WIFEXITED(status))
		say_number("child", (uint64_t)WEXITSTATUS(status));
	else
		say_number("killed", (uint64_t)WTERMSIG(status));
	return 5;
}
