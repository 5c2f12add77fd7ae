/* Programs that make life hard for hooks: signals on every kind of stack, forks while others
 * allocate, cancelled threads, libraries that come and go, tiny and very deep stacks. argv[1] is the
 * mode.
 *
 * Blocks that are counted come from keep_block and have BLOCK_BYTES (see sampled_processes.c: at a
 * rate of 1 KiB none is missed). Every mode says how many it has made and how many of them it has
 * left; other blocks come from elsewhere. */
#define _GNU_SOURCE
#include "program.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { BLOCK_BYTES = 40000, WORKERS = 3 };

static _Atomic unsigned made, left;
static _Atomic int stop;

NOINLINE static void *keep_block(void)
{
	void *p = malloc(BLOCK_BYTES);

	must(p != NULL, "out of memory");
	keep(p);
	atomic_fetch_add(&made, 1);
	return p;
}

NOINLINE static void *one_of_many(size_t size)
{
	void *p = malloc(size);

	keep(p);
	return p;
}

/* Blocks of all sizes come, change and go. */
static void churn(unsigned rounds)
{
	void *some[16] = {NULL};

	for (unsigned i = 0; i < rounds; i++) {
		void **p = &some[i % 16];

		free(*p);
		*p = one_of_many(opaque(16 + i * 37 % 2000));
		if (i % 5 == 0)
			*p = realloc(*p, opaque(24 + i * 91 % 5000));
		if (i % 64 == 0)
			free(keep_block());
	}
	for (int i = 0; i < 16; i++)
		free(some[i]);
}

static void *worker(void *arg)
{
	(void)arg;
	do
		churn(64);
	while (!atomic_load(&stop));
	return NULL;
}

static void with_workers(void (*body)(char **), char **argv)
{
	pthread_t id[WORKERS];

	for (int i = 0; i < WORKERS; i++)
		must(!pthread_create(&id[i], NULL, worker, NULL), "pthread_create");
	body(argv);
	atomic_store(&stop, 1);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(id[i], NULL);
}

static void forks(char **argv)
{
	(void)argv;
	for (int i = 0; i < 30; i++) {
		int status = 0;
		pid_t pid = fork();

		if (pid == 0) {
			for (int k = 0; k < 20; k++)
				free(one_of_many(BLOCK_BYTES));
			_exit(4);
		}
		must(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
			     WEXITSTATUS(status) == 4,
		     "the child");
	}
}

static void executes(char **argv)
{
	(void)argv;
	for (int i = 0; i < 60; i++) {
		char *none[] = {"true", NULL}, *bare[] = {NULL};
		int status = 0;
		pid_t pid = vfork();

		if (pid == 0) {
			execve("/bin/true", none, bare);
			_exit(9);
		}
		must(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "the child");
	}
}

/* argv[2]: a library built from stack_plugin.c. */
static void libraries(char **argv)
{
	for (int i = 0; i < 300; i++) {
		void *library = dlopen(argv[2], RTLD_NOW);
		void *(*entry)(size_t);

		must(library != NULL, "dlopen");
		entry = (void *(*)(size_t))dlsym(library, "plugin_entry");
		must(entry != NULL, "dlsym");
		free(entry(100));
		free(keep_block());
		dlclose(library);
	}
}

static void release(void *p)
{
	free(p);
}

static void *to_be_cancelled(void *arg)
{
	(void)arg;
	for (;;) {
		void *p = keep_block();

		pthread_cleanup_push(release, p);
		churn(10);
		pthread_testcancel();
		pthread_cleanup_pop(1);
	}
	return NULL;
}

static void cancels(char **argv)
{
	(void)argv;
	for (int i = 0; i < 150; i++) {
		pthread_t id;
		void *end;

		must(!pthread_create(&id, NULL, to_be_cancelled, NULL), "pthread_create");
		if (i % 3)
			churn(20);
		pthread_cancel(id);
		must(!pthread_join(id, &end) && end == PTHREAD_CANCELED, "the cancelled thread");
	}
}

static void *short_life(void *arg)
{
	(void)arg;
	free(one_of_many(100));
	return keep_block();
}

static void *in_small_stack(void *arg)
{
	churn(200);
	return short_life(arg);
}

/* Storms of threads that end at once; every other block stays. */
static void storm(void *(*life)(void *), unsigned rounds, size_t stack_bytes)
{
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	if (stack_bytes)
		must(!pthread_attr_setstacksize(&attributes, stack_bytes), "stack size");
	for (unsigned done = 0; done < rounds; done++) {
		pthread_t id[20];

		for (int i = 0; i < 20; i++)
			must(!pthread_create(&id[i], &attributes, life, NULL), "pthread_create");
		for (int i = 0; i < 20; i++) {
			void *block;

			pthread_join(id[i], &block);
			if (i % 2)
				free(block);
			else
				atomic_fetch_add(&left, 1);
		}
	}
}

static void on_profile(int number)
{
	void *frames[64];

	(void)number;
	must(backtrace(frames, 64) > 1, "backtrace");
}

static void profile_timer(int flags)
{
	struct sigaction action = {.sa_handler = on_profile, .sa_flags = SA_RESTART | flags};
	struct itimerval each = {{0, 1000}, {0, 1000}};
	void *frames[4];

	backtrace(frames, 4); /* loads what it needs */
	sigaction(SIGPROF, &action, NULL);
	setitimer(ITIMER_PROF, &each, NULL);
}

static void no_timer(void)
{
	struct itimerval none = {{0, 0}, {0, 0}};

	setitimer(ITIMER_PROF, &none, NULL);
}

static void profiled(char **argv)
{
	(void)argv;
	churn(150000);
}

static void *on_alternate_stack(void *arg)
{
	char local[32768];
	stack_t stack = {.ss_sp = local, .ss_size = sizeof local};

	(void)arg;
	must(!sigaltstack(&stack, NULL), "sigaltstack");
	churn(60000);
	stack.ss_flags = SS_DISABLE;
	sigaltstack(&stack, NULL);
	return keep_block();
}

/* Through `depth` frames of `pad` bytes to a block that stays. */
NOINLINE static unsigned deep(unsigned depth, unsigned pad)
{
	volatile char space[pad];
	unsigned below;

	space[0] = 1;
	if (depth == 0) {
		keep_block();
		keep_block();
		atomic_fetch_add(&left, 2);
		return space[0];
	}
	below = deep(depth - 1, pad);
	keep((const void *)space);
	return below + space[0];
}

static void *very_deep(void *arg)
{
	unsigned pad = *(unsigned *)arg;

	for (int i = 0; i < 3; i++)
		must(deep(120000, pad) == 120001, "deep");
	return NULL;
}

static void deep_stack(unsigned pad)
{
	pthread_attr_t attributes;
	pthread_t id;

	pthread_attr_init(&attributes);
	must(!pthread_attr_setstacksize(&attributes, 400u << 20), "stack size");
	must(!pthread_create(&id, &attributes, very_deep, &pad), "pthread_create");
	pthread_join(id, NULL);
}

int main(int argc, char **argv)
{
	must(argc >= 2, "usage: rough_life MODE [ARG]");
	const char *mode = argv[1];

	if (!strcmp(mode, "forks"))
		with_workers(forks, argv);
	else if (!strcmp(mode, "executes"))
		with_workers(executes, argv);
	else if (!strcmp(mode, "libraries") && argc == 3)
		with_workers(libraries, argv);
	else if (!strcmp(mode, "cancels"))
		with_workers(cancels, argv);
	else if (!strcmp(mode, "storm"))
		storm(short_life, 60, 0);
	else if (!strcmp(mode, "small"))
		storm(in_small_stack, 20, 16384);
	else if (!strcmp(mode, "profiled")) {
		profile_timer(0);
		with_workers(profiled, argv);
		no_timer();
	} else if (!strcmp(mode, "alternate")) {
		profile_timer(SA_ONSTACK);
		storm(on_alternate_stack, 1, 0);
		no_timer();
	} else if (!strcmp(mode, "deep"))
		deep_stack(16);
	else if (!strcmp(mode, "deep_and_wide"))
		deep_stack(2000);
	else
		must(0, "no such mode");
	say_number("made", made);
	say_number("left", left);
	return 6;
}
