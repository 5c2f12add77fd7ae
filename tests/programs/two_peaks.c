/* Makes 4 MiB in 1,024 blocks, frees them, and 200 ms later makes 400 MiB that it writes to and keeps. It ends by _exit. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SMALL = 1024, LARGE = 400 };
static void *blocks[SMALL];

int main(void)
{
	for (int i = 0; i < SMALL; i++)
		blocks[i] = memset(malloc(4096), 1, 4096);
	for (int i = 0; i < SMALL; i++)
		free(blocks[i]);
	nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
	for (int i = 0; i < LARGE; i++)
		blocks[i] = memset(malloc(1 << 20), 1, 1 << 20);
	_exit(0);
}
