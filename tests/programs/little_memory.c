/* Works with addresses that are limited (its caller sets RLIMIT_AS), or locks all its memory: argv[1] is "limited" or
 * "locked"; "limits" and a number: it limits itself to so many KiB. Blocks come from keep_block: 1,000 before, 30,000 in each of two threads, 500 in each of three children one
 * after the other (and one of their own children), of which every fourth is freed. Says how large it is then, in KiB. */
#define _GNU_SOURCE
#include "program.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

NOINLINE static void *keep_block(void)
{
	void *p = malloc(50);

	must(p != NULL, "malloc");
	keep(p);
	return p;
}

static void work(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		void *p = keep_block();

		if (i % 4 == 0)
			free(p);
	}
}

/* Both threads are there at the same time, so there are always two stacks. */
static pthread_barrier_t both;

static void *thread(void *arg)
{
	pthread_barrier_wait(&both);
	work(30000);
	return arg;
}

static void child(int depth)
{
	int status = 0;
	pid_t pid = fork();

	must(pid >= 0, "fork");
	if (pid == 0) {
		work(500);
		if (depth)
			child(depth - 1);
		_exit(4);
	}
	must(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 4,
	     "the child");
}

/* A line "Name:   number kB" of /proc/self/status */
static unsigned long long number_of(const char *name)
{
	static char text[8192];
	int fd = open("/proc/self/status", O_RDONLY);
	ssize_t n = read(fd, text, sizeof text - 1);

	must(n > 0, "status");
	text[n] = '\0';
	close(fd);
	const char *at = strstr(text, name);

	must(at != NULL, name);
	return strtoull(at + strlen(name), NULL, 10);
}

int main(int argc, char **argv)
{
	pthread_t id[2];

	must(argc >= 2, "usage: little_memory limited|locked|limits N");
	work(1000);
	if (!strcmp(argv[1], "limits") && argc == 3) {
		rlim_t bytes = (rlim_t)strtoull(argv[2], NULL, 10) << 10;
		struct rlimit limit = {bytes, bytes}, was;

		must(setrlimit(RLIMIT_AS, (void *)opaque(8)) == -1, "a bad address");
		must(!prlimit(0, RLIMIT_AS, NULL, &was) && !setrlimit(RLIMIT_AS, &limit),
		     "setrlimit");
	}
	if (!strcmp(argv[1], "locked") && mlockall(MCL_CURRENT | MCL_FUTURE))
		return 77;
	must(!pthread_barrier_init(&both, NULL, 2), "pthread_barrier_init");
	for (int i = 0; i < 2; i++)
		must(!pthread_create(&id[i], NULL, thread, NULL), "pthread_create");
	for (int i = 0; i < 2; i++)
		pthread_join(id[i], NULL);
	for (int i = 0; i < 3; i++)
		child(i == 0);
	say_number("size", number_of("VmSize:"));
	say_number("resident", number_of("VmRSS:"));
	return 6;
}
