/* Functions that call one another from several places each, every way once: without line numbers the
 * ways through one function read the same, and only addresses tell them apart. */
#include "program.h"

#include <stdlib.h>

#define AND_BACK                                                                                   \
	__asm__ volatile("nop") /* the call before it is no jump, and not its neighbour's twin */

NOINLINE static void leaf(size_t n)
{
	if (n & 1) {
		keep(malloc(n));
		AND_BACK;
	} else {
		keep(malloc(n)); /* @even */
	}
}

NOINLINE static void left(size_t n)
{
	leaf(n);
	AND_BACK;
	leaf(n + 1);
	AND_BACK;
}

NOINLINE static void right(size_t n)
{
	leaf(n);
	AND_BACK;
	leaf(n + 1);
	AND_BACK;
}

int main(void)
{
	left(100);
	AND_BACK;
	right(200);
	AND_BACK;
	left(300);
	AND_BACK;
	right(400), left(500); /* two calls of one line */
	AND_BACK;
	right(600), right(700);
	AND_BACK;
	return 0;
}
