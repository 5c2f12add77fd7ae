/* Has a GiB in memory: gib_of_pages small|sparse|huge. sparse: every second page of it. Waits until its input ends. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "small";
	size_t page = 4096, bytes = (size_t)1 << 30, step = strcmp(how, "sparse") ? page : 2 * page;
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
	     byte;
	if (at == MAP_FAILED)
		return 1;
	madvise(at, bytes, strcmp(how, "huge") ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
	for (size_t i = 0; i < bytes; i += step)
		at[i] = 1;
	puts("ready");
	fflush(stdout);
	return read(0, &byte, 1) < 0;
}
