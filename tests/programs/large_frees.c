/* A peak of a few large blocks, of which the first free is a large step: large_frees COUNT MIB [heap]. Makes so many blocks of
 * so many MiB, writes to all of them, frees them and ends by _exit. "heap": malloc has learned not to map blocks of their
 * size one by one. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 64 };

static __attribute__((noinline)) char *make(size_t bytes)
{
	char *p = malloc(bytes);
	if (!p)
		abort();
	memset(p, 1, bytes);
	return p;
}

int main(int argc, char **argv)
{
	static char *blocks[MOST];
	const int count = argc > 2 ? atoi(argv[1]) : 0;
	const size_t bytes = (size_t)(argc > 2 ? atoi(argv[2]) : 0) << 20;
	if (argc > 3) /* glibc raises its limit to the size of a mapped block that is freed. */
		free(malloc(bytes + 65536));
	for (int i = 0; i < count && i < MOST; i++)
		blocks[i] = make(bytes);
	for (int i = 0; i < count && i < MOST; i++)
		free(blocks[i]);
	_exit(3);
}
