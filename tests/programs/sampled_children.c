/* Processes whose heaps are known at every instant, ordered by pipes and wait, never by sleeping:
 *
 *   turns N END     N children, one after the other, each holds CHILD bytes
 *   pairs N END     the same, but each begins to hold before the one before it is let go
 *   groups N SIZE   N groups of SIZE children that all hold at the same time
 *   chain N         N programs in one process, each executed by the one before it, each holds CHILD
 *   many N          N children, one after the other, any number of them
 *   tasks N         N children, one after the other, each fills a table at an even pace and ends; then
 *                   the parent is killed
 *
 * The parent holds PARENT bytes all the time (not in a chain). END: exit, _exit or kill. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PARENT (3 << 20)
#define CHILD (8 << 20)
#define MOST 64

struct child {
	pid_t pid;
	int order, answer; /* pipes: our ends */
};

__attribute__((noinline)) void *hold_parent(void)
{
	return malloc(PARENT);
}

__attribute__((noinline)) void *hold_child(void)
{
	return malloc(CHILD);
}

__attribute__((noinline)) void *fill_table(void)
{
	return malloc(50000);
}

static void do_task(void)
{
	for (int i = 0; i < 100; i++) {
		fill_table();
		usleep(2500); /* the pace: births spread over the life of the process */
	}
	_exit(0);
}

static void say(int fd)
{
	if (write(fd, "x", 1) != 1)
		_exit(99);
}

static void await(int fd)
{
	char byte;
	if (read(fd, &byte, 1) != 1)
		_exit(98);
}

static void end(const char *how)
{
	if (!strcmp(how, "kill"))
		kill(getpid(), SIGKILL);
	if (!strcmp(how, "_exit"))
		_exit(0);
	exit(0);
}

/* Holds at the first order, lets go at the second, by its end. */
static struct child begin(const char *how)
{
	int to[2], from[2];
	struct child c;
	if (pipe(to) || pipe(from))
		_exit(97);
	c.pid = fork();
	if (!c.pid) {
		close(to[1]);
		await(to[0]);
		hold_child();
		say(from[1]);
		await(to[0]);
		end(how);
	}
	close(to[0]);
	close(from[1]);
	c.order = to[1];
	c.answer = from[0];
	return c;
}

static void hold(struct child *c)
{
	say(c->order);
	await(c->answer);
}

static void let_go(struct child *c)
{
	int status;
	say(c->order);
	waitpid(c->pid, &status, 0);
	close(c->order);
	close(c->answer);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	int n = argc > 2 ? atoi(argv[2]) : 1;
	const char *how = argc > 3 ? argv[3] : "exit";
	if (n > MOST && strcmp(mode, "many") != 0)
		return 2;
	if (!strcmp(mode, "chain")) {
		char left[16];
		hold_child();
		snprintf(left, sizeof left, "%d", n - 1);
		if (n > 1)
			execl("/proc/self/exe", argv[0], "chain", left, (char *)NULL);
		return 0;
	}
	hold_parent();
	if (!strcmp(mode, "turns"))
		for (int i = 0; i < n; i++) {
			struct child c = begin(how);
			hold(&c);
			let_go(&c);
		}
	if (!strcmp(mode, "pairs")) {
		struct child last = begin(how);
		hold(&last);
		for (int i = 1; i < n; i++) {
			struct child next = begin(how);
			hold(&next);
			let_go(&last);
			last = next;
		}
		let_go(&last);
	}
	if (!strcmp(mode, "groups"))
		for (int i = 0; i < n; i++) {
			struct child group[MOST];
			int size = atoi(how);
			for (int k = 0; k < size; k++) {
				group[k] = begin("exit");
				hold(&group[k]);
			}
			for (int k = 0; k < size; k++)
				let_go(&group[k]);
		}
	if (!strcmp(mode, "many"))
		for (int i = 0; i < n; i++) {
			pid_t pid = fork();
			if (!pid) {
				hold_child();
				_exit(0);
			}
			waitpid(pid, NULL, 0);
		}
	if (!strcmp(mode, "tasks")) {
		for (int i = 0; i < n; i++) {
			pid_t pid = fork();
			if (!pid)
				do_task();
			waitpid(pid, NULL, 0);
		}
		kill(getpid(), SIGKILL);
	}
	return 0;
}
