/* An idle program with live blocks, for scrapes: scraped BLOCKS. It allocates them at ten places, says
 * "ready" and waits for its end. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PLACE(n)                                                                                   \
	static __attribute__((noinline)) void *place_##n(void)                                     \
	{                                                                                          \
		void *volatile block = malloc(4096);                                               \
		return block;                                                                      \
	}
PLACE(0)
PLACE(1)
PLACE(2)
PLACE(3)
PLACE(4)
PLACE(5)
PLACE(6)
PLACE(7)
PLACE(8)
PLACE(9)

int main(int argc, char **argv)
{
	static void *(*const places[])(void) = {place_0, place_1, place_2, place_3, place_4,
						place_5, place_6, place_7, place_8, place_9};
	long blocks = argc > 1 ? atol(argv[1]) : 1000;
	for (long i = 0; i < blocks; i++)
		if (!places[i % 10]())
			return 1;
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
