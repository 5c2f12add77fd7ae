/* More call stacks than the table of a process holds (2^20 nodes): paths of 1,000 turns at random, each of
 * which allocates once. About 1,050 of them fit. Later blocks are larger. */
#include "program.h"

#include <stdlib.h>

enum { TURNS = 1000, PATHS = 1200 };

static uint64_t random_word = 88172645463325252u;

static unsigned turn(void)
{
	random_word ^= random_word << 13;
	random_word ^= random_word >> 7;
	random_word ^= random_word << 17;
	return random_word >> 63;
}

NOINLINE static void walk(int turns, size_t size)
{
	if (turns == 0) {
		keep(malloc(size));
		return;
	}
	if (turn()) {
		walk(turns - 1, size);
		__asm__ volatile("nop");
	} else {
		walk(turns - 1, size);
		__asm__ volatile("");
	}
}

int main(void)
{
	for (size_t i = 0; i < PATHS; i++)
		walk(TURNS, 1000 + i);
	return 0;
}
