/* 2^14 call stacks of depth 14, each of which allocates once: left() or right() at every level. */
#include <stdlib.h>

static void *volatile kept;

static void step(unsigned path, int depth);

static __attribute__((noinline)) void left(unsigned path, int depth)
{
	step(path, depth);
	__asm__ volatile("");
}

static __attribute__((noinline)) void right(unsigned path, int depth)
{
	step(path, depth);
	__asm__ volatile("");
}

static __attribute__((noinline)) void step(unsigned path, int depth)
{
	if (depth == 0)
		kept = malloc(16 + path % 100);
	else if (path & 1)
		left(path >> 1, depth - 1);
	else
		right(path >> 1, depth - 1);
	__asm__ volatile("");
}

int main(void)
{
	for (unsigned path = 0; path < 1u << 14; path++)
		step(path, 14);
	return 0;
}
