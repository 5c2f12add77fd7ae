/* Three blocks of 1,000 bytes at the peak, one at the end; two of the three were made with 10 bytes by
 * seed() and resized by grow(). */
#include "program.h"

#include <stdlib.h>

static NOINLINE void *keep_one(void)
{
	void *p = malloc(1000);
	keep(p);
	return p;
}

static NOINLINE void *seed(void)
{
	void *p = malloc(10);
	keep(p);
	return p;
}

static NOINLINE void *grow(void *p)
{
	p = realloc(p, 1000);
	keep(p);
	return p;
}

int main(void)
{
	void *two[2];
	keep(keep_one());
	for (int i = 0; i < 2; i++)
		two[i] = seed();
	for (int i = 0; i < 2; i++)
		two[i] = grow(two[i]);
	usleep(600000); /* long, so that half of the run is here on a busy machine, too */
	for (int i = 0; i < 2; i++)
		free(two[i]);
	usleep(100000);
	return 0;
}
