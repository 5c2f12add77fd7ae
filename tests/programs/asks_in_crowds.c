/* Uses include/heft.h as programs do that are not careful: many threads at once, an early end, a question while nobody can
 * answer. Prints a line that a test compares. argv[1] says what to do. */
#define _GNU_SOURCE
#include "heft.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CROWD = 1000, STACK = 64 << 10, PAIRS = 100000 };

static void *volatile sink;
static __thread void *volatile own_sink;
static pthread_barrier_t all_here;
static _Atomic int wrong;

static void pairs(int count)
{
	for (int i = 0; i < count; i++) {
		sink = malloc(100);
		free(sink);
	}
}

/* ---- many threads that begin at once, each with a region of its own */

static void *in_crowd(void *x)
{
	struct heft_region r;
	struct heft_stats s = {0};
	int rc = heft_region_begin(&r, HEFT_THREAD);
	own_sink = malloc(123);
	pthread_barrier_wait(&all_here);
	free(own_sink);
	rc |= heft_region_end(&r, &s);
	if (rc || s.allocations != 1 || s.frees != 1 || s.peak_bytes != 123)
		wrong++;
	return x;
}

static int crowd(void)
{
	pthread_t threads[CROWD];
	pthread_attr_t small;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, STACK);
	pthread_barrier_init(&all_here, NULL, CROWD);
	for (int i = 0; i < CROWD; i++)
		if (pthread_create(&threads[i], &small, in_crowd, NULL))
			_exit(6);
	for (int i = 0; i < CROWD; i++)
		pthread_join(threads[i], NULL);
	printf("wrong %d\n", wrong);
	return 0;
}

/* ---- counting begins with the first call, which several threads make at once */

typedef int stats_get(enum heft_scope scope, struct heft_stats *out);
static stats_get *first_call;

static void *calls_first(void *x)
{
	struct heft_stats s;
	pthread_barrier_wait(&all_here);
	if (first_call(HEFT_THREAD, &s))
		wrong++;
	return x;
}

static int first_calls(void)
{
	enum { THREADS = 64 };
	pthread_t threads[THREADS];
	first_call = (stats_get *)dlsym(RTLD_DEFAULT, "heft_stats_get");
	pthread_barrier_init(&all_here, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		if (!first_call || pthread_create(&threads[i], NULL, calls_first, NULL))
			_exit(6);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("wrong %d\n", wrong);
	return 0;
}

/* ---- heft is stopped in the middle of an answer: the program gives up, and asks something else */

static int threads_of(pid_t pid)
{
	char path[64];
	int count = 0;
	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	DIR *d = opendir(path);
	while (d && readdir(d))
		count++;
	if (d)
		closedir(d);
	return count;
}

/* heft makes an answer in a thread of its own. */
static void stop_heft(pid_t heft, int ready)
{
	const struct timespec patience = {3, 500000000};
	const int before = threads_of(heft);
	const time_t end = time(NULL) + 10;
	if (write(ready, "", 1) != 1)
		_exit(3);
	while (threads_of(heft) <= before && time(NULL) < end)
		;
	kill(heft, SIGSTOP);
	nanosleep(&patience, NULL);
	kill(heft, SIGCONT);
	_exit(0);
}

static void ignore(const char *message)
{
	printf("%s", strstr(message, "does not answer") ? "given up\n" : "answered\n");
}

static int gives_up(const char *path)
{
	struct heft_region r;
	int ready[2];
	char byte;
	const pid_t heft = getppid();
	heft_on_failure(ignore);
	heft_region_begin(&r, HEFT_THREAD);
	pairs(100);
	if (pipe(ready))
		return 3;
	if (!fork())
		stop_heft(heft, ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		return 3;
	HEFT_EXPECT_LE(&r, allocations, 1);
	printf("dump %d\n", heft_dump(path));
	wait(NULL);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	setvbuf(stdout, NULL, _IONBF, 0);
	if (!strcmp(what, "crowd"))
		return crowd();
	if (!strcmp(what, "first"))
		return first_calls();
	if (!strcmp(what, "gives_up"))
		return gives_up(argv[2]);
	pairs(PAIRS);
	if (!strcmp(what, "killed"))
		raise(SIGKILL);
	if (!strcmp(what, "leaves"))
		syscall(SYS_exit_group, 5);
	return 2;
}
