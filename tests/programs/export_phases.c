/* For the tests of exports: a few stacks whose bytes are known to the byte.
 *
 *   keep     3 blocks of 1,000, kept                 live at the end
 *   burst    10 of 10,000, all freed                 the peak
 *   briefly  100 of 64, each freed at once           temporary
 *
 * Built without debug information its functions can be given any name (objcopy --redefine-sym). */
#include <stdlib.h>

static void *kept[3], *held[10];

__attribute__((noinline)) void keep(void);
__attribute__((noinline)) void burst(void);
__attribute__((noinline)) void briefly(void);

void keep(void)
{
	for (int i = 0; i < 3; i++)
		kept[i] = malloc(1000);
	__asm__ volatile("" ::: "memory");
}

void burst(void)
{
	for (int i = 0; i < 10; i++)
		held[i] = malloc(10000);
	for (int i = 0; i < 10; i++)
		free(held[i]);
}

void briefly(void)
{
	for (int i = 0; i < 100; i++) {
		void *p = malloc(64);
		__asm__ volatile("" ::"r"(p) : "memory");
		free(p);
	}
}

int main(void)
{
	keep();
	burst();
	briefly();
	return 0;
}
