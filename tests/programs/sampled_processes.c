/* Processes, threads, libraries and ends of all kinds, for sampled recordings. argv[1] is the mode.
 *
 * Blocks that a test counts have BLOCK_BYTES: at a rate of 1 KiB one of them is missed once in
 * 10^17, so every number is exact and the test needs no statistics. Nothing is written into them:
 * they cost address space. */
#define _GNU_SOURCE
#include "program.h"

#include <dlfcn.h>
#include <grp.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>

enum { BLOCK_BYTES = 40000, PARENT_BLOCKS = 60, CHILD_BLOCKS = 25, CHILDREN = 4 };
enum { THREADS = 3000, AT_ONCE = 50 };

extern char **environ;

static void *parent_block[PARENT_BLOCKS];

/* A place of its own for each kind of block: found by its name in the recording. */
#define PLACE(name)                                                                                \
	NOINLINE static void *name(void)                                                           \
	{                                                                                          \
		void *p = malloc(BLOCK_BYTES);                                                     \
                                                                                                   \
		keep(p);                                                                           \
		return p;                                                                          \
	}
PLACE(keep_parent)
PLACE(keep_child)
PLACE(keep_executed)
PLACE(keep_thread)
PLACE(keep_first)

NOINLINE static void *keep_resized(void *old, size_t n)
{
	void *p = realloc(old, n);
	keep(p);
	return p;
}
static void fill_parent(void)
{
	for (int i = 0; i < PARENT_BLOCKS; i++)
		parent_block[i] = keep_parent();
}

static void expect_status(pid_t pid, int wanted)
{
	int status = 0;

	must(pid > 0 && waitpid(pid, &status, 0) == pid, "waitpid");
	must(WIFEXITED(status) && WEXITSTATUS(status) == wanted, "status of the child");
}

/* A worker of a pre-forking server: frees, resizes and shrinks what it was born with. */
static void child(int number)
{
	for (int i = 0; i < CHILD_BLOCKS; i++)
		must(keep_child() != NULL, "out of memory");
	for (int i = 0; i < PARENT_BLOCKS; i++) {
		if (i % 3 == 0)
			free(parent_block[i]);
		else if (i % 3 == 1 && number == 0) /* from here on it is this child's own */
			must(keep_resized(parent_block[i], 2 * BLOCK_BYTES) != NULL, "realloc");
	}
}

static void prefork(void)
{
	pid_t pid[CHILDREN];

	fill_parent();
	for (int i = 0; i < CHILDREN; i++) {
		pid[i] = fork();
		if (pid[i] == 0) {
			child(i);
			if (i % 2)
				exit(4);
			_exit(4);
		}
	}
	for (int i = 0; i < CHILDREN; i++)
		expect_status(pid[i], 4);
}

/* argv[2]: "kept" or "empty", the environment that the new program gets. */
static void execute(char **argv)
{
	char *no_environment[] = {NULL};
	char *next[] = {argv[0], "executed", NULL};

	fill_parent();
	execve(argv[0], next, strcmp(argv[2], "kept") ? no_environment : environ);
	must(0, "exec came back");
}

static void executed(void)
{
	for (int i = 0; i < CHILD_BLOCKS; i++)
		must(keep_executed() != NULL, "out of memory");
}

static void *short_thread(void *arg)
{
	(void)arg;
	free(keep_parent());
	return keep_thread();
}

/* Every thread leaves a block; every other one is freed by this thread. */
static void threads(void)
{
	for (int done = 0; done < THREADS; done += AT_ONCE) {
		pthread_t id[AT_ONCE];

		for (int i = 0; i < AT_ONCE; i++)
			must(!pthread_create(&id[i], NULL, short_thread, NULL), "pthread_create");
		for (int i = 0; i < AT_ONCE; i++) {
			void *block;

			pthread_join(id[i], &block);
			must(block != NULL, "out of memory");
			if (i % 2)
				free(block);
		}
	}
}

/* argv[2], argv[3]: libraries built from stack_plugin.c; their blocks outlive them. */
static void unload(char **argv)
{
	unsigned same = 0;
	void *last = NULL;

	for (int i = 0; i < 20; i++) {
		void *library = dlopen(argv[2 + i % 2], RTLD_NOW);
		void *(*entry)(size_t);

		must(library != NULL, "dlopen");
		entry = (void *(*)(size_t))dlsym(library, "plugin_entry");
		must(entry != NULL && entry(BLOCK_BYTES) != NULL, "plugin_entry");
		same += (void *)entry == last;
		last = (void *)entry;
		dlclose(library);
	}
	say_number("same address", same);
}

/* Drops privileges, then goes on with children and another program. */
static void become_nobody(char **argv)
{
	pid_t pid;

	fill_parent();
	must(setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0, "setuid");
	must(setuid(0) != 0, "still root");
	fill_parent();
	pid = fork();
	if (pid == 0) {
		char *next[] = {argv[0], "executed", NULL};

		child(1);
		execve(argv[0], next, environ);
		_exit(1);
	}
	expect_status(pid, 6);
}

/* argv[2]: an empty directory. The session's files are out of reach from there on. */
static void change_root(char **argv)
{
	pid_t pid;

	fill_parent();
	must(chroot(argv[2]) == 0 && chdir("/") == 0, "chroot");
	fill_parent();
	pid = fork();
	if (pid == 0) {
		child(1);
		_exit(4);
	}
	expect_status(pid, 4);
}

/* Everything that realloc may do to a sampled block. What is left: 10 of 3 x BLOCK_BYTES at
 * keep_resized, 10 at keep_first whose growth failed. */
static void resize(void)
{
	for (int i = 0; i < 1000; i++) {
		char *p = keep_resized(NULL, BLOCK_BYTES);

		p = keep_resized(p, 10 * BLOCK_BYTES);
		p = keep_resized(p, 3 * BLOCK_BYTES);
		must(p != NULL, "out of memory");
		if (i % 100)
			must(keep_resized(p, opaque(0)) == NULL, "realloc to nothing");
	}
	for (int i = 0; i < 10; i++) {
		void *p = keep_first();

		must(keep_resized(p, opaque(PTRDIFF_MAX)) == NULL, "absurd realloc");
	}
	for (int i = 0; i < 10; i++) { /* shrinks out of the samples */
		char *p = keep_first();

		p = realloc(p, 1);
		keep(p);
		free(p);
	}
}

int main(int argc, char **argv)
{
	must(argc >= 2, "usage: sampled_processes MODE [ARG...]");
	const char *mode = argv[1];

	if (!strcmp(mode, "prefork"))
		prefork();
	else if (!strcmp(mode, "exec") && argc == 3)
		execute(argv);
	else if (!strcmp(mode, "executed"))
		executed();
	else if (!strcmp(mode, "threads"))
		threads();
	else if (!strcmp(mode, "unload") && argc == 4)
		unload(argv);
	else if (!strcmp(mode, "setuid"))
		become_nobody(argv);
	else if (!strcmp(mode, "chroot") && argc == 3)
		change_root(argv);
	else if (!strcmp(mode, "resize"))
		resize();
	else if (!strcmp(mode, "abort"))
		fill_parent(), abort();
	else if (!strcmp(mode, "_exit"))
		fill_parent(), _exit(5);
	else
		must(0, "no such mode");
	return 6;
}
