/* A heap whose contents are known, for sampled recordings: argv[1] names the shape, argv[2] scales
 * it. Each shape prints "allocated BYTES BLOCKS live BYTES BLOCKS", the truth that estimates are
 * held to. With a third argument "kill" the process kills itself at the end. */
#define _GNU_SOURCE
#include "program.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned long long allocated, blocks, live, live_blocks;

static void *made(void *p, size_t size)
{
	keep(p);
	allocated += size;
	blocks++;
	live += size;
	live_blocks++;
	return p;
}

static void dropped(void *p, size_t size)
{
	free(p);
	live -= size;
	live_blocks--;
}

NOINLINE static void *keep_small(void)
{
	return made(malloc(100), 100);
}
NOINLINE static void *pass_small(void)
{
	return made(malloc(48), 48);
}
NOINLINE static void *keep_large(void)
{
	return made(calloc(1, 300000), 300000);
}

/* Many small blocks are kept, many more come and go, a few large ones stay. */
static void mixed(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		keep_small();
		for (int k = 0; k < 5; k++)
			dropped(pass_small(), 48);
		if (i % 1000 == 0)
			keep_large();
	}
}

NOINLINE static void *grow(void *p, size_t size)
{
	return realloc(p, size);
}

/* Blocks that grow: what counts is what they are in the end. */
static void resized(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		char *p = malloc(64);
		p = grow(p, 256);
		p = grow(p, 2048);
		keep(p);
		allocated += 2048 + 256 + 64;
		blocks += 3;
		live += 2048;
		live_blocks++;
	}
}

static void aligned(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		void *p = NULL;
		must(posix_memalign(&p, 64, 500) == 0, "posix_memalign");
		made(p, 500);
		made(aligned_alloc(64, 512), 512);
		made(memalign(128, 700), 700);
	}
}

static void *allocate_all(void *n)
{
	void **all = calloc(*(unsigned *)n, sizeof *all);
	for (unsigned i = 0; i < *(unsigned *)n; i++)
		all[i] = malloc(400);
	return all;
}

/* Four threads allocate, this one frees three quarters of it. */
static void threads(unsigned n)
{
	pthread_t t[4];
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, allocate_all, &n);
	for (int i = 0; i < 4; i++) {
		void *all;
		pthread_join(t[i], &all);
		allocated += n * 400ull + n * sizeof(void *);
		blocks += n + 1;
		live += n * sizeof(void *) + (i == 3 ? n * 400ull : 0);
		live_blocks += 1 + (i == 3 ? n : 0);
		for (unsigned k = 0; k < n && i != 3; k++)
			free(((void **)all)[k]);
	}
}

/* The child has its own heap's growth to answer for, not the parent's. */
static void forked(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		keep_small();
	pid_t child = fork();
	if (child == 0) {
		for (unsigned i = 0; i < n; i++)
			keep_large();
		_exit(0);
	}
	waitpid(child, NULL, 0);
	allocated += n * 300000ull;
	blocks += n;
	live += n * 300000ull;
	live_blocks += n;
}

int main(int argc, char **argv)
{
	unsigned n = argc > 2 ? (unsigned)atoi(argv[2]) : 1000;
	static const struct {
		const char *name;
		void (*run)(unsigned);
	} shapes[] = {{"mixed", mixed},
		      {"resized", resized},
		      {"aligned", aligned},
		      {"threads", threads},
		      {"forked", forked}};
	for (size_t i = 0; argc > 1 && i < sizeof shapes / sizeof *shapes; i++)
		if (!strcmp(argv[1], shapes[i].name))
			shapes[i].run(n);
	char line[128];
	int length = snprintf(line, sizeof line, "allocated %llu %llu live %llu %llu\n", allocated,
			      blocks, live, live_blocks);
	if (write(1, line, (size_t)length) != length)
		return 1;
	if (argc > 3)
		kill(getpid(), SIGKILL);
	return 0;
}
