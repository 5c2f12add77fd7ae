/* In the middle of the run the block of seed() becomes one of resize(), that of hold() is freed, and grow()
 * makes one. Before and after that nothing happens for a while. */
#include "program.h"

#include <stdlib.h>

static NOINLINE void *seed(void)
{
	void *p = malloc(4096);
	keep(p);
	return p;
}

static NOINLINE void *hold(void)
{
	void *p = malloc(10000);
	keep(p);
	return p;
}

static NOINLINE void *resize(void *p)
{
	p = realloc(p, 100);
	keep(p);
	return p;
}

static NOINLINE void *grow(void)
{
	void *p = malloc(300000);
	keep(p);
	return p;
}

int main(void)
{
	void *first = seed(), *second = hold();
	usleep(600000);
	keep(resize(first));
	free(second);
	keep(grow());
	usleep(600000);
	return 0;
}
