/* 2^LEVELS call stacks (14 unless an argument says otherwise), each of which allocates once: left() or
 * right() at every level. A second argument is how many random ones of them there shall be: with many
 * levels they have little in common. */
#include <stdlib.h>

static void *volatile kept;

static void step(unsigned long path, int depth);

static __attribute__((noinline)) void left(unsigned long path, int depth)
{
	step(path, depth);
	__asm__ volatile("");
}

static __attribute__((noinline)) void right(unsigned long path, int depth)
{
	step(path, depth);
	__asm__ volatile("");
}

static __attribute__((noinline)) void step(unsigned long path, int depth)
{
	if (depth == 0)
		kept = malloc(16 + path % 100);
	else if (path & 1)
		left(path >> 1, depth - 1);
	else
		right(path >> 1, depth - 1);
	__asm__ volatile("");
}

int main(int argc, char **argv)
{
	int levels = argc > 1 ? atoi(argv[1]) : 14;
	unsigned long random = 88172645463325252u;
	if (argc > 2) {
		for (long left = atol(argv[2]); left > 0; left--) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			step(random, levels);
		}
		return 0;
	}
	for (unsigned long path = 0; path < 1ul << levels; path++)
		step(path, levels);
	return 0;
}
