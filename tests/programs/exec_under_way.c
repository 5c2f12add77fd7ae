/* A thread looks for a program that is nowhere along a very long PATH; another one ends the process
 * meanwhile. argv[1]: how ("exit", "_exit", "quick_exit"); "leave": execv of argv[2] by a thread that
 * succeeds, so that no exit is ever called. */
#define _GNU_SOURCE
#include "program.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { FOLDERS = 60000 };

static int begun[2];

static void *look(void *arg)
{
	char *argv[] = {"there-is-no-such-program", NULL};

	(void)arg;
	must(write(begun[1], "x", 1) == 1, "write");
	execvp(argv[0], argv);
	must(0, "the PATH was too short");
	return NULL;
}

static void *become(void *path)
{
	execl(path, path, "hold", "0", (char *)NULL);
	must(0, "exec");
	return NULL;
}

int main(int argc, char **argv)
{
	static char path[FOLDERS * 20];
	pthread_t thread;
	size_t n = 0;
	char x;

	must(argc >= 2 && pipe(begun) == 0, "how");
	if (!strcmp(argv[1], "leave")) {
		pthread_create(&thread, NULL, become, argv[2]);
		pause();
	}
	for (int i = 0; i < FOLDERS; i++) {
		memcpy(path + n, "/nowhere-at-all-ever:", 20);
		n += 20;
		path[n - 1] = ':';
	}
	path[n - 1] = 0;
	setenv("PATH", path, 1);
	pthread_create(&thread, NULL, look, NULL);
	must(read(begun[0], &x, 1) == 1, "read");
	usleep(3000);
	if (!strcmp(argv[1], "_exit"))
		_exit(0);
	if (!strcmp(argv[1], "quick_exit"))
		quick_exit(0);
	return 0;
}
