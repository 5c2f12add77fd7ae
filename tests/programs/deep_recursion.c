/* Recursion DEPTH levels deep that allocates at every STEPth level, so that a recording has thousands
 * of stacks that differ in their depth alone. How it recurses:
 *   self    one function calls itself
 *   mutual  three functions call each other in turn
 *   mixed   which of three functions comes next is random: nothing repeats
 *   pair    two malloc lines at every such level, in functions of their own
 * Every block has 100 bytes and stays. */
#include "program.h"

#include <stdlib.h>
#include <sys/resource.h>

static unsigned long depth, step, blocks;
static uint64_t state = 88172645463325252u;

static NOINLINE void take(void)
{
	keep(malloc(100)); /* @deep.take */
	blocks++;
}

static NOINLINE void take_other(void)
{
	keep(malloc(100)); /* @deep.other */
	blocks++;
}

static unsigned roll(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (unsigned)(state >> 33) % 3;
}

static NOINLINE int self(unsigned long level)
{
	if (level % step == 0)
		take();
	return level < depth ? self(level + 1) + 1 : 0; /* @deep.self */
}

static NOINLINE int pair(unsigned long level)
{
	if (level % step == 0) {
		take();
		take_other();
	}
	return level < depth ? pair(level + 1) + 1 : 0;
}

static NOINLINE int second(unsigned long level);
static NOINLINE int third(unsigned long level);

static NOINLINE int first(unsigned long level)
{
	if (level % step == 0)
		take();
	return level < depth ? second(level + 1) + 1 : 0;
}

static NOINLINE int second(unsigned long level)
{
	if (level % step == 0)
		take();
	return level < depth ? third(level + 1) + 1 : 0;
}

static NOINLINE int third(unsigned long level)
{
	if (level % step == 0)
		take();
	return level < depth ? first(level + 1) + 1 : 0;
}

static int go_on(unsigned long level);

static NOINLINE int red(unsigned long level)
{
	return go_on(level) + 1;
}

static NOINLINE int green(unsigned long level)
{
	return go_on(level) + 1;
}

static NOINLINE int blue(unsigned long level)
{
	return go_on(level) + 1;
}

static inline __attribute__((always_inline)) int go_on(unsigned long level)
{
	static int (*const next[])(unsigned long) = {red, green, blue};
	if (level % step == 0)
		take();
	return level < depth ? next[roll()](level + 1) : 0;
}

int main(int argc, char **argv)
{
	const struct rlimit stack = {1ul << 30, RLIM_INFINITY};
	if (argc < 4)
		return 2;
	depth = strtoul(argv[2], NULL, 10);
	step = strtoul(argv[3], NULL, 10);
	/* the stack's limit is read at exec */
	if (argc == 4 && setrlimit(RLIMIT_STACK, &stack) == 0) {
		char *again[] = {argv[0], argv[1], argv[2], argv[3], (char *)"again", NULL};
		execv("/proc/self/exe", again);
	}
	switch (argv[1][0]) {
	case 's': self(1); break;
	case 'p': pair(1); break;
	default: argv[1][1] == 'u' ? first(1) : red(1);
	}
	say_number("blocks", blocks);
	return 0;
}
