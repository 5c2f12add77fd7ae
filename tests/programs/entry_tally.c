/* Allocates from its first constructor on, in several threads, and prints what it has done: for programs that heft gets
 * into at their start. Everything is allocated in functions called tally_*; the rest of the program uses no
 * malloc that would count there. */
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, EACH = 2000, KEPT = 10 };

static _Atomic long allocations, reallocations, kept, bytes;
static void *volatile early;

static void *count(void *p, size_t size)
{
	allocations++;
	bytes += (long)size;
	return p;
}

__attribute__((noinline)) static void *tally_malloc(size_t size)
{
	return count(malloc(size), size);
}

__attribute__((noinline)) static void *tally_calloc(size_t n, size_t size)
{
	return count(calloc(n, size), n * size);
}

__attribute__((noinline)) static void *tally_aligned(size_t alignment, size_t size)
{
	void *p = NULL;
	if (posix_memalign(&p, alignment, size))
		abort();
	return count(p, size);
}

__attribute__((noinline)) static void *tally_realloc(void *old, size_t old_size, size_t size)
{
	void *p = realloc(old, size);
	reallocations++;
	bytes += (long)(size - old_size); /* it grows */
	return p;
}

__attribute__((constructor)) static void begin(void)
{
	early = tally_malloc(77);
	kept++;
}

static void *work(void *arg)
{
	for (int i = 0; i < EACH; i++) {
		void *a = tally_malloc(16 + (size_t)i), *b = tally_calloc(3, 50);
		void *c = tally_aligned(64, 100);
		a = tally_realloc(a, 16 + (size_t)i, 40 + (size_t)i * 2);
		if (i < KEPT)
			kept += 3;
		else {
			free(a);
			free(b);
			free(c);
		}
	}
	return arg;
}

static char *number(char *to, long n)
{
	char digits[24];
	int count_of = 0;
	do
		digits[count_of++] = (char)('0' + n % 10);
	while (n /= 10);
	while (count_of)
		*to++ = digits[--count_of];
	*to++ = ' ';
	return to;
}

static int status_of(pid_t child)
{
	int status = 0;
	if (child < 0 || waitpid(child, &status, 0) < 0)
		return 1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

/* A thread that is not the first one spawns. */
static void *spawn_in_thread(void *arg)
{
	extern char **environ;
	char **argv = arg;
	pid_t child = -1;
	if (posix_spawn(&child, argv[0], NULL, NULL, argv, environ))
		return NULL;
	return (void *)(long)status_of(child);
}

/* Starts another program in the way that `how` names. Returns its exit status; -1: there is no such way. */
static int start(const char *how, char **argv)
{
	extern char **environ;
	static char *nothing[] = {NULL};
	char *const searched[] = {"sh", "-c", argv[0], NULL};
	pid_t child = -1;
	pthread_t thread;
	void *result = NULL;
	if (!strcmp(how, "exec"))
		execv(argv[0], argv);
	if (!strcmp(how, "bare"))
		execve(argv[0], argv, nothing);
	if (!strcmp(how, "forks")) {
		child = fork();
		if (!child)
			_exit(execv(argv[0], argv));
		return status_of(child);
	}
	if (!strcmp(how, "vforks")) {
		child = vfork();
		if (!child)
			_exit(execv(argv[0], argv));
		return status_of(child);
	}
	if (!strcmp(how, "spawns"))
		return posix_spawn(&child, argv[0], NULL, NULL, argv, environ) ? 1
									       : status_of(child);
	if (!strcmp(how, "spawns bare"))
		return posix_spawn(&child, argv[0], NULL, NULL, argv, nothing) ? 1
									       : status_of(child);
	if (!strcmp(how, "spawns sh"))
		return posix_spawnp(&child, "sh", NULL, NULL, searched, environ) ? 1
										 : status_of(child);
	if (!strcmp(how, "thread spawns")) {
		if (pthread_create(&thread, NULL, spawn_in_thread, argv) ||
		    pthread_join(thread, &result))
			abort();
		return (int)(long)result;
	}
	if (!strcmp(how, "system"))
		return WEXITSTATUS(system(argv[0]));
	if (!strcmp(how, "popen")) {
		FILE *f = popen(argv[0], "w");
		return f ? WEXITSTATUS(pclose(f)) : 1;
	}
	return -1;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	char line[128], *end = line;
	if (argc > 2) {
		int status = start(argv[1], argv + 2);
		if (status >= 0)
			return status;
	}
	if (argc > 1 && !strcmp(argv[1], "fork")) {
		pid_t child = fork();
		if (child == 0) {
			for (int i = 0; i < 123; i++)
				free(tally_malloc(5));
			_exit(0);
		}
		waitpid(child, NULL, 0);
	}
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, NULL))
			abort();
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	work(NULL);
	end = number(end, allocations);
	end = number(end, reallocations);
	end = number(end, bytes);
	end = number(end, kept);
	end[-1] = '\n';
	return write(1, line, (size_t)(end - line)) < 0 ? 1 : 7;
}
