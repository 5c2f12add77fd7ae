/* Children that follow one another, each with 1 MiB that it never frees, so that
 * never more than one of them is there. argv[1]: how they end; argv[2]: how many.
 * The parent itself takes nothing (a stream of popen's is libc's). "together": two at a time, by pipes;
 * "batches": 150; "crowd": argv[2] at a time. "hold": no child; takes argv[2] MiB, touches them, and
 * ends; "die": the same, and is killed; "leaderless": a child whose first thread ends before it does. */
#define _GNU_SOURCE
#include "program.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
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

/* These are killed by their parent. */
static int is_killed(void)
{
	return is("kill") || is("waitid") || is("sigchld") || is("raw-wait4") || is("raw-waitid") ||
	       is("nobody-waits");
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
	if (is_killed())
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
	if (is("nobody-waits"))
		signal(SIGCHLD, SIG_IGN);
	for (int i = 0; i < count; i++) {
		int ready[2];
		char x;

		must(pipe(ready) == 0, "pipe");
		pid_t pid = fork();
		must(pid >= 0, "fork");
		if (pid == 0)
			child(ready[1]);
		if (is_killed()) {
			while (read(ready[0], &x, 1) < 0)
				must(errno == EINTR, "read");
			kill(pid, SIGKILL);
		}
		close(ready[1]);
		if (is("nobody-waits")) /* the end of the pipe says that it is gone */
			must(read(ready[0], &x, 1) == 0, "read");
		close(ready[0]);
		if (is("nobody-waits"))
			continue;
		if (is("raw-wait4"))
			must(syscall(SYS_wait4, pid, NULL, 0, NULL) == pid, "wait4");
		else if (is("raw-waitid"))
			must(syscall(SYS_waitid, P_PID, pid, NULL, WEXITED, NULL) == 0, "waitid");
		else if (is("sigchld"))
			while (reaped <= i)
				usleep(100);
		else if (is("waitid")) {
			siginfo_t info;
			must(waitid(P_PID, (id_t)pid, &info, WEXITED) == 0, "waitid");
		} else
			must(waitpid(pid, NULL, 0) == pid, "waitpid");
	}
}

extern char **environ;

/* Programs that take 1 MiB and are killed, made and waited for by libc, or by a system call. */
static void programs(int count)
{
	char command[4200];
	char *argv[] = {(char *)self, "die", "1", NULL};

	snprintf(command, sizeof command, "exec %s die 1", self);
	for (int i = 0; i < count; i++) {
		int status = 0;
		pid_t pid = 0;

		if (is("system"))
			status = system(command);
		else if (is("pclose")) {
			FILE *stream = popen(command, "r");
			must(stream != NULL, "popen");
			status = pclose(stream);
		} else {
			if (is("vfork-raw")) {
				pid = vfork();
				if (pid == 0) {
					execv(self, argv);
					_exit(9);
				}
			} else
				must(posix_spawn(&pid, self, NULL, NULL, argv, environ) == 0,
				     "spawn");
			must(syscall(SYS_wait4, pid, &status, 0, NULL) == pid, "wait4");
		}
		must(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "status");
	}
}

/* As many as are wanted at a time, all killed and waited for; then one more, with as much as all of them. */
static void crowd(int count)
{
	pid_t *pids = mmap(NULL, (size_t)count * sizeof *pids, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int ready[2];
	char x;

	must(pids != MAP_FAILED && pipe(ready) == 0, "mmap, pipe");
	for (int i = 0; i <= count; i++) {
		pid_t pid = fork();
		must(pid >= 0, "fork");
		if (pid == 0) {
			take(i < count ? 65536 : 65536 * (size_t)count);
			wait_for_death(ready[1]);
		}
		must(read(ready[0], &x, 1) == 1, "read");
		pids[i < count ? i : 0] = pid;
		if (i == count)
			kill(pid, SIGKILL);
		for (int k = 0; i == count - 1 && k < count; k++)
			kill(pids[k], SIGKILL);
		for (int k = 0; i == count - 1 && k < count; k++)
			must(waitpid(pids[k], NULL, 0) == pids[k], "waitpid");
	}
	must(wait(NULL) > 0, "wait");
}

static void *second_thread(void *end)
{
	char x;

	must(read(*(int *)end, &x, 1) == 1, "read");
	take(2 << 20);
	exit(0);
}

/* A child whose first thread ends, and another one that begins and ends before the rest of it. */
static void leaderless(void)
{
	int end[2], ready[2];
	pid_t first, second;
	pthread_t thread;
	char x;

	must(pipe(end) == 0 && pipe(ready) == 0, "pipe");
	first = fork();
	if (first == 0) {
		take(1 << 20);
		pthread_create(&thread, NULL, second_thread, end);
		must(write(ready[1], "x", 1) == 1, "write");
		pthread_exit(NULL);
	}
	must(read(ready[0], &x, 1) == 1, "read");
	usleep(50000); /* until it has */
	second = fork();
	if (second == 0) {
		take(1 << 20);
		exit(0);
	}
	must(waitpid(second, NULL, 0) == second, "waitpid");
	usleep(50000);
	must(write(end[1], "x", 1) == 1, "write");
	must(waitpid(first, NULL, 0) == first, "waitpid");
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
	if (is("hold") || is("die"))
		take((size_t)atoi(argv[2]) << 20);
	if (is("die"))
		kill(getpid(), SIGKILL);
	else if (is("hold"))
		;
	else if (is("together"))
		overlapping(atoi(argv[2]));
	else if (is("batches"))
		batches(atoi(argv[2]));
	else if (is("leaderless"))
		leaderless();
	else if (is("crowd"))
		crowd(atoi(argv[2]));
	else if (is("system") || is("pclose") || is("spawn-raw") || is("vfork-raw"))
		programs(atoi(argv[2]));
	else
		one_after_the_other(atoi(argv[2]));
	return 0;
}
