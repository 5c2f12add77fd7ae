/* Processes whose sums look like what none of them does, and one that does it. argv[1] is the mode.
 *
 *   turn       200 children, one after the other, each with 1,000 temporary blocks
 *   prefork    4 workers serve requests; the third keeps 1000 bytes of each, and its pid is printed
 *   all        the same, but every worker keeps as much
 *   objects    16 children at once, each with one object of two large parts
 *   rounding   2 children at once, each with 2,500 blocks of 17 bytes
 *   churn      3 children at once, each with 60,000 temporary blocks */
#include "program.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

enum {
	SESSIONS = 64,
	CHILDREN = 200,
	FEW_TEMPORARIES = 1000,
	WORKERS = 4,
	LEAKING = 2,
	REQUESTS = 2000,
	OBJECTS = 16,
	SMALL_BLOCKS = 2500,
	TEMPORARIES = 60000,
};

static void pause_us(long us)
{
	nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

static void *session[SESSIONS];

NOINLINE static void serve(int n)
{
	free(session[n % SESSIONS]);
	session[n % SESSIONS] = memset(malloc(2000), 's', 2000);
	pause_us(50);
}

NOINLINE static void hold(size_t size)
{
	keep(memset(malloc(opaque(size)), 'h', size)); /* @hold */
}

/* Two pipes: children say that they are ready, and end when the other one is closed. */
static int ready[2], end[2];

static pid_t start(void)
{
	pid_t pid = fork();
	must(pid >= 0, "fork");
	if (pid == 0)
		close(end[1]);
	return pid;
}

static void wait_here(void)
{
	char c = 'r';
	must(write(ready[1], &c, 1) == 1, "write");
	must(read(end[0], &c, 1) == 0, "read");
	_exit(0);
}

/* Until all of them are ready; then they end. */
static void meet(int children)
{
	char c;
	for (int i = 0; i < children; i++)
		must(read(ready[0], &c, 1) == 1, "read");
	close(end[1]);
	while (wait(NULL) > 0)
		;
}

static void prefork(int all)
{
	for (int i = 0; i < WORKERS; i++) {
		pid_t pid = start();
		if (pid == 0) {
			for (int n = 0; n < REQUESTS; n++) {
				serve(n);
				if (i == LEAKING || all)
					hold(1000);
			}
			_exit(0);
		}
		if (i == LEAKING)
			say_number("leaking", (unsigned long long)pid);
	}
	while (wait(NULL) > 0)
		;
}

NOINLINE static void make_object(void)
{
	keep(memset(malloc(opaque(40000)), 'o', 40000));
	keep(memset(malloc(opaque(30000)), 'o', 30000));
}

NOINLINE static void make_small(void)
{
	for (int i = 0; i < SMALL_BLOCKS; i++)
		keep(memset(malloc(opaque(17)), 'x', 17));
}

NOINLINE static void make_temporaries(int count)
{
	for (int i = 0; i < count; i++) {
		void *p = malloc(opaque(100));
		keep(p);
		free(p);
	}
}

static void make_many_temporaries(void)
{
	make_temporaries(TEMPORARIES);
}

static void in_turn(void)
{
	int status;
	for (int i = 0; i < CHILDREN; i++) {
		pid_t pid = start();
		if (pid == 0) {
			make_temporaries(FEW_TEMPORARIES);
			_exit(0);
		}
		must(waitpid(pid, &status, 0) == pid && status == 0, "waitpid");
	}
}

static void together(int children, void (*work)(void))
{
	for (int i = 0; i < children; i++)
		if (start() == 0) {
			work();
			wait_here();
		}
	meet(children);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	must(pipe(ready) == 0 && pipe(end) == 0, "pipe");
	if (!strcmp(mode, "turn"))
		in_turn();
	else if (!strcmp(mode, "prefork"))
		prefork(0);
	else if (!strcmp(mode, "all"))
		prefork(1);
	else if (!strcmp(mode, "objects"))
		together(OBJECTS, make_object);
	else if (!strcmp(mode, "rounding"))
		together(2, make_small);
	else if (!strcmp(mode, "churn"))
		together(3, make_many_temporaries);
	else
		must(0, "which mode?");
	return 0;
}
