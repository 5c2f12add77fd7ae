/* Children that follow one another, each with 1 MiB that it never frees, so that
 * never more than one of them is there. argv[1]: how they end; argv[2]: how many.
 * The parent itself takes nothing. "together": two at a time, by pipes; "batches": 150. "hold":
 * no child; takes argv[2] MiB, touches them, and ends. */
#define _GNU_SOURCE
#include "program.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static const char *how;
static const char *self;

static int is(const char *name)
{
	return strcmp(how, name) == 0;
}

NOINLINE static void take(size_t bytes)
{
	char *p = malloc(bytes); /* @children_in_turn.take */

	memset(p, 1, bytes);
	keep(p);
}

static void wait_for_death(int ready)
{
	must(write(ready, "x", 1) == 1, "write");
	for (;;)
		pause();
}

static void child(int ready)
{
	struct rlimit none = {0, 0};

	setrlimit(RLIMIT_CORE, &none);
	if (is("exec-first")) {
		take(1 << 20);
		execl(self, self, "hold", "1", (char *)NULL);
		_exit(9);
	}
	take(1 << 20);
	if (is("_exit"))
		_exit(0);
	if (is("quick_exit"))
		quick_exit(0);
	if (is("exit_group"))
		syscall(SYS_exit_group, 0);
	if (is("abort"))
		abort();
	if (is("kill") || is("waitid") || is("sigchld"))
		wait_for_death(ready);
	exit(0);
}

static volatile sig_atomic_t reaped;

static void on_child(int sig)
{
	int saved = errno;

	(void)sig;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		reaped++;
	errno = saved;
}

static void one_after_the_other(int count)
{
	if (is("sigchld"))
		signal(SIGCHLD, on_child);
	for (int i = 0; i < count; i++) {
		int ready[2];
		char x;

		must(pipe(ready) == 0, "pipe");
		pid_t pid = fork();
		must(pid >= 0, "fork");
		if (pid == 0)
			child(ready[1]);
		if (is("kill") || is("waitid") || is("sigchld")) {
			while (read(ready[0], &x, 1) < 0)
				must(errno == EINTR, "read");
			kill(pid, SIGKILL);
		}
		close(ready[0]);
		close(ready[1]);
		if (is("sigchld"))
			while (reaped <= i)
				usleep(100);
		else if (is("waitid")) {
			siginfo_t info;
			must(waitid(P_PID, (id_t)pid, &info, WEXITED) == 0, "waitid");
		} else
			must(waitpid(pid, NULL, 0) == pid, "waitpid");
	}
}

/* Each child lives until the one after the next has been made: three at once, but for the ends. */
static void overlapping(int count)
{
	int end[2][2];
	pid_t pids[2] = {0, 0};

	for (int i = 0; i < count + 2; i++) {
		int at = i % 2, ready[2];
		char x;

		if (pids[at]) {
			must(write(end[at][1], "x", 1) == 1, "write");
			must(waitpid(pids[at], NULL, 0) == pids[at], "waitpid");
			close(end[at][0]);
			close(end[at][1]);
			pids[at] = 0;
		}
		if (i >= count)
			continue;
		must(pipe(ready) == 0 && pipe(end[at]) == 0, "pipe");
		pids[at] = fork();
		if (pids[at] == 0) {
			take(1 << 20);
			must(write(ready[1], "x", 1) == 1, "write");
			must(read(end[at][0], &x, 1) == 1, "read");
			_exit(0);
		}
		must(read(ready[0], &x, 1) == 1, "read");
		close(ready[0]);
		close(ready[1]);
	}
}

/* 150 at a time with 64 KiB each, all killed and waited for before the next ones begin. */
static void batches(int count)
{
	enum { SIZE = 150 };
	pid_t pids[SIZE];

	for (int i = 0; i < count; i++) {
		int ready[2];
		char x;

		must(pipe(ready) == 0, "pipe");
		for (int k = 0; k < SIZE; k++) {
			pids[k] = fork();
			must(pids[k] >= 0, "fork");
			if (pids[k] == 0) {
				take(65536);
				wait_for_death(ready[1]);
			}
		}
		for (int k = 0; k < SIZE; k++)
			must(read(ready[0], &x, 1) == 1, "read");
		for (int k = 0; k < SIZE; k++)
			kill(pids[k], SIGKILL);
		for (int k = 0; k < SIZE; k++)
			must(waitpid(pids[k], NULL, 0) == pids[k], "waitpid");
		close(ready[0]);
		close(ready[1]);
	}
}

int main(int argc, char **argv)
{
	must(argc == 3, "how, how many");
	self = argv[0];
	how = argv[1];
	if (is("hold"))
		take((size_t)atoi(argv[2]) << 20);
	else if (is("together"))
		overlapping(atoi(argv[2]));
	else if (is("batches"))
		batches(atoi(argv[2]));
	else
		one_after_the_other(atoi(argv[2]));
	return 0;
}
