/* What the programs share that heft is attached to and detached from while they work. Each counts its work in a
 * file that the test has mapped too, checks what it reads back from its own blocks, and goes on until the test
 * says so. The last line that it prints is "right", and its status 0, if nothing was ever wrong. */
#ifndef HEFT_TESTS_ATTACH_LIFE_H
#define HEFT_TESTS_ATTACH_LIFE_H

#include "program.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

/* The layout is read by attach_rounds.py. */
struct life {
	uint64_t progress, stop, ready;
};

static struct life *life;

static inline void life_open(const char *path)
{
	int fd = open(path, O_RDWR);
	must(fd >= 0, "no file for the progress");
	life = (struct life *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(life != MAP_FAILED, "no map for the progress");
	close(fd);
}

static inline int life_goes_on(void)
{
	return !__atomic_load_n(&life->stop, __ATOMIC_RELAXED);
}

static inline void life_step(void)
{
	__atomic_add_fetch(&life->progress, 1, __ATOMIC_RELAXED);
}

static inline void life_ready(void)
{
	__atomic_store_n(&life->ready, 1, __ATOMIC_RELEASE);
}

static inline void block_fill(void *block, size_t bytes, unsigned seed)
{
	memset(block, (int)(seed & 0xff), bytes);
}

static inline void block_check(const void *block, size_t bytes, unsigned seed)
{
	const unsigned char *b = (const unsigned char *)block;
	must(b[0] == (seed & 0xff) && b[bytes / 2] == (seed & 0xff) &&
		     b[bytes - 1] == (seed & 0xff),
	     "a block does not hold what was written to it");
}

/* A few blocks of several kinds, which live at the same time. */
static inline void life_work(unsigned seed)
{
	const size_t a = 1 + seed % 300, b = 1 + seed % 5000, c = 1 + seed * 7 % 900;
	void *p = malloc(opaque(a)), *q = calloc(1, opaque(b)), *r = NULL;
	must(p && q && !posix_memalign(&r, 64, opaque(c)), "no memory");
	must(((uintptr_t)r & 63) == 0, "a block is not aligned");
	must(((unsigned char *)q)[0] == 0 && ((unsigned char *)q)[b - 1] == 0,
	     "calloc did not clear");
	block_fill(p, a, seed);
	block_fill(q, b, seed + 1);
	block_fill(r, c, seed + 2);
	p = realloc(p, opaque(2 * a));
	must(p != NULL, "no memory");
	block_check(p, a, seed);
	block_check(q, b, seed + 1);
	block_check(r, c, seed + 2);
	free(p);
	free(q);
	free(r);
}

#endif
