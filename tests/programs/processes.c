/* Every way to get another process or another program. argv[1] is the mode,
 * argv[2] the program to execute (leaf.c). The process itself always takes three
 * blocks of 1,000 bytes before and one of 2,000 after, and frees one of the first. */
#define _GNU_SOURCE
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;

static const char *mode, *leaf;
static void *before_block[3];

NOINLINE static void before(void)
{
	for (int i = 0; i < 3; i++) {
		before_block[i] = malloc(1000); /* @processes.before */
		keep(before_block[i]);
	}
	free(before_block[0]);
}

NOINLINE static void after(void)
{
	void *p = malloc(2000); /* @processes.after */

	keep(p);
}

/* What a forked child does: seven blocks of 30 bytes, three freed. */
NOINLINE static void child_work(void)
{
	void *block[7];

	for (int i = 0; i < 7; i++) {
		block[i] = malloc(30); /* @processes.child */
		keep(block[i]);
	}
	for (int i = 0; i < 3; i++)
		free(block[i]);
}

static void expect_status(pid_t pid, int wanted)
{
	int status = 0;

	must(pid > 0, "no child");
	while (waitpid(pid, &status, 0) < 0)
		must(errno == EINTR, "waitpid");
	must(WIFEXITED(status) && WEXITSTATUS(status) == wanted, "status of the child");
}

static int is(const char *name)
{
	return strcmp(mode, name) == 0;
}

/* Comes back only if there is no such mode. */
static void execute(char *const argv[])
{
	static char *const empty[] = {NULL};
	static char *const little[] = {"ONLY=this", NULL};
	char *slash = strrchr(leaf, '/');
	char directory[4096];

	memcpy(directory, leaf, (size_t)(slash - leaf));
	directory[slash - leaf] = '\0';
	if (is("execv"))
		execv(leaf, argv);
	if (is("execve"))
		execve(leaf, argv, environ);
	if (is("execve-empty"))
		execve(leaf, argv, empty);
	if (is("execve-null"))
		execve(leaf, argv, (char *const *)opaque(0));
	if (is("execve-little"))
		execve(leaf, argv, little);
	if (is("execl"))
		execl(leaf, leaf, "one", "two", (char *)NULL);
	if (is("execle"))
		execle(leaf, leaf, "one", "two", (char *)NULL, little);
	if (is("execlp")) {
		setenv("PATH", directory, 1);
		execlp("leaf", leaf, "one", "two", (char *)NULL);
	}
	if (is("execvp")) {
		setenv("PATH", directory, 1);
		execvp("leaf", argv);
	}
	if (is("execvpe")) {
		setenv("PATH", directory, 1);
		execvpe("leaf", argv, little);
	}
	if (is("fexecve"))
		fexecve(open(leaf, O_RDONLY | O_CLOEXEC), argv, little);
	if (is("execveat"))
		execveat(AT_FDCWD, leaf, argv, little, 0);
}

static void grandchild_of_daemon(const char *marker)
{
	int fd;

	setsid();
	must(chdir("/") == 0, "chdir");
	fd = open("/dev/null", O_RDWR);
	for (int i = 0; i < 3; i++)
		dup2(fd, i);
	usleep(700000);
	child_work();
	fd = open(marker, O_WRONLY | O_CREAT | O_EXCL, 0600);
	must(fd >= 0, "marker");
	_exit(0);
}

static void drop_privileges(void)
{
	must(setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0, "setuid");
	must(setuid(0) != 0, "still root");
}

int main(int argc, char **argv)
{
	char *leaf_argv[] = {NULL, "one", "two", NULL};
	pid_t pid;

	must(argc >= 3, "usage: processes MODE LEAF");
	mode = argv[1];
	leaf = argv[2];
	leaf_argv[0] = argv[2];
	before();

	if (strncmp(mode, "exec", 4) == 0 || is("fexecve")) {
		execute(leaf_argv);
		must(0, "exec came back");
	} else if (is("missing")) {
		must(execve("/nonexistent/program", leaf_argv, environ) < 0 && errno == ENOENT,
		     "exec of a missing file");
	} else if (is("fork")) {
		pid = fork();
		if (pid == 0) {
			child_work();
			free(before_block[1]); /* inherited: counts in the parent alone */
			_exit(4);
		}
		expect_status(pid, 4);
	} else if (is("fork-return")) { /* the child ends through exit handlers */
		pid = fork();
		if (pid == 0) {
			child_work();
			exit(4);
		}
		expect_status(pid, 4);
	} else if (is("fork-realloc")) {
		pid = fork();
		if (pid == 0) {
			char *p = realloc(before_block[1], 5000);

			must(p != NULL, "realloc in the child");
			keep(p);
			child_work();
			free(p);
			_exit(4);
		}
		expect_status(pid, 4);
	} else if (is("fork-deep")) { /* a chain of five generations */
		int generation = 0;

		while (generation < 5) {
			pid = fork();
			if (pid > 0) {
				expect_status(pid, 4);
				break;
			}
			generation++;
			child_work();
		}
		if (generation > 0)
			_exit(4);
	} else if (is("fork-many")) {
		for (int i = 0; i < 50; i++) {
			pid = fork();
			if (pid == 0) {
				child_work();
				_exit(4);
			}
			expect_status(pid, 4);
		}
	} else if (is("fork-exec")) {
		pid = fork();
		if (pid == 0) {
			child_work();
			execv(leaf, leaf_argv);
			_exit(1);
		}
		expect_status(pid, 9);
	} else if (is("vfork")) {
		pid = vfork();
		if (pid == 0) {
			execv(leaf, leaf_argv);
			_exit(1);
		}
		expect_status(pid, 9);
	} else if (is("vfork-malloc")) { /* not allowed, but done: on the parent's heap */
		void *volatile p = NULL;

		pid = vfork();
		if (pid == 0) {
			p = malloc(3000); /* @processes.vfork */
			execve(leaf, leaf_argv, environ);
			_exit(1);
		}
		expect_status(pid, 9);
		must(p != NULL, "block of the vfork child");
		free(p);
	} else if (is("posix_spawn")) {
		must(!posix_spawn(&pid, leaf, NULL, NULL, leaf_argv, environ), "posix_spawn");
		expect_status(pid, 9);
	} else if (is("posix_spawn-empty")) {
		char *empty[] = {NULL};

		must(!posix_spawn(&pid, leaf, NULL, NULL, leaf_argv, empty), "posix_spawn");
		expect_status(pid, 9);
	} else if (is("posix_spawnp")) {
		char *slash = strrchr(leaf, '/');

		must(chdir((*slash = '\0', leaf)) == 0, "chdir");
		*slash = '/';
		must(!posix_spawnp(&pid, leaf, NULL, NULL, leaf_argv, environ), "posix_spawnp");
		expect_status(pid, 9);
	} else if (is("clone")) { /* no handler of libc runs */
		pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
		if (pid == 0) {
			child_work();
			free(before_block[1]);
			_exit(4);
		}
		expect_status(pid, 4);
	} else if (is("_Fork")) {
		pid = _Fork();
		if (pid == 0) {
			child_work();
			_exit(4);
		}
		expect_status(pid, 4);
	} else if (is("system")) {
		must(WEXITSTATUS(system(leaf)) == 9, "system");
	} else if (is("popen")) {
		FILE *f = popen(leaf, "r");

		must(f && WEXITSTATUS(pclose(f)) == 9, "popen");
	} else if (is("daemon")) { /* argv[3]: the file it leaves when it is done */
		must(argc == 4, "usage: processes daemon LEAF MARKER");
		if (fork() == 0) {
			if (fork() == 0)
				grandchild_of_daemon(argv[3]);
			_exit(0);
		}
		while (wait(NULL) > 0)
			;
	} else if (is("close")) {
		must(close_range(3, ~0U, 0) == 0, "close_range");
		child_work();
		pid = fork();
		if (pid == 0) {
			must(close_range(0, ~0U, 0) == 0, "close_range");
			child_work();
			execv(leaf, (char *[]){(char *)leaf, NULL});
			_exit(1);
		}
		expect_status(pid, 9);
	} else if (is("chdir")) {
		must(chdir("/") == 0, "chdir");
		child_work();
		pid = fork();
		if (pid == 0) {
			child_work();
			execv(leaf, leaf_argv);
			_exit(1);
		}
		expect_status(pid, 9);
	} else if (is("setuid")) {
		drop_privileges();
		child_work();
		pid = fork();
		if (pid == 0) {
			child_work();
			execv(leaf, leaf_argv);
			_exit(1);
		}
		expect_status(pid, 9);
	} else {
		must(0, "no such mode");
	}
	after();
	return 6;
}
