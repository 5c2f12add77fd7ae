/* Has 2,000 blocks of 1,000 bytes and ends in the way that it is told. Exit handlers give all of them back. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 2000, BYTES = 1000 };
static void *volatile blocks[BLOCKS];

static void fill(void)
{
	for (int i = 0; i < BLOCKS; i++)
		blocks[i] = memset(malloc(BYTES), 1, BYTES);
}

static void give_back(void)
{
	for (int i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	if (write(1, "handled\n", 8) < 0)
		abort();
}

static void *spin(void *unused)
{
	void *volatile p;
	for (;;) {
		p = malloc(100);
		free(p);
	}
	return unused;
}

static void *exit_here(void *unused)
{
	(void)unused;
	exit(7);
}

static void exit_there(int signal)
{
	(void)signal;
	exit(9);
}

static void start(void *(*what)(void *))
{
	pthread_t t;
	if (pthread_create(&t, NULL, what, NULL))
		abort();
}

static int fork_some(void)
{
	int status, sum = 0;
	for (int i = 0; i < 3; i++)
		if (!fork()) {
			fill();
			return 1;
		}
	while (wait(&status) > 0)
		sum += WEXITSTATUS(status);
	return sum;
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "";
	fill();
	atexit(give_back);
	if (!strcmp(way, "exit"))
		exit(4);
	if (!strcmp(way, "quick_exit"))
		quick_exit(5);
	if (!strcmp(way, "_exit"))
		_exit(6);
	if (!strcmp(way, "abort"))
		abort();
	if (!strcmp(way, "killed"))
		raise(SIGKILL);
	if (!strcmp(way, "exec"))
		execl("/bin/true", "true", NULL);
	if (!strcmp(way, "threads"))
		for (int i = 0; i < 4; i++)
			start(spin);
	if (!strcmp(way, "in thread")) {
		start(exit_here);
		pause();
	}
	if (!strcmp(way, "in handler")) {
		signal(SIGUSR1, exit_there);
		raise(SIGUSR1);
	}
	if (!strcmp(way, "fork"))
		return fork_some();
	return 3;
}
