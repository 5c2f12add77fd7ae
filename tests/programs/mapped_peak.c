/* A peak of memory that is not malloc's: mapped_peak HOW MIB [heap]. Maps so many pieces of 1 MiB, writes to all of them, gives
 * them back and ends by _exit. Meanwhile malloc has nothing; with "heap" it had a peak of 1.5 MiB before. Without heft it
 * prints the same: nothing. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MIB = 1 << 20, PIECES = 256 };

static __attribute__((noinline)) char *grow(void)
{
	char *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		abort();
	memset(p, 1, MIB);
	return p;
}

static int give_back(char *p, const char *how)
{
	if (!strcmp(how, "munmap"))
		return munmap(p, MIB);
	if (!strcmp(how, "madvise"))
		return madvise(p, MIB, MADV_DONTNEED);
	if (!strcmp(how, "by number"))
		return (int)syscall(SYS_munmap, p, (size_t)MIB);
	if (!strcmp(how, "shrink"))
		return mremap(p, MIB, 4096, 0) == MAP_FAILED;
	return mmap(p, MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
	       MAP_FAILED;
}

static void have_a_small_peak(void)
{
	static void *blocks[3000];
	for (int i = 0; i < 3000; i++) {
		blocks[i] = malloc(512);
		if (!blocks[i])
			abort();
		memset(blocks[i], 1, 512);
	}
	for (int i = 0; i < 3000; i++)
		free(blocks[i]);
}

int main(int argc, char **argv)
{
	if (argc > 3)
		have_a_small_peak();
	static char *pieces[PIECES];
	const int count = argc > 2 ? atoi(argv[2]) : 64;
	for (int i = 0; i < count && i < PIECES; i++)
		pieces[i] = grow();
	for (int i = 0; i < count && i < PIECES; i++)
		if (give_back(pieces[i], argc > 1 ? argv[1] : ""))
			abort();
	_exit(3);
}
