/* An allocator that a program has linked in, as the mimalloc crate does: two of its entries, none of
 * them malloc. As a program it takes blocks of 1 MiB and answers when told ("keep N", as service.c
 * does); with -DLIBRARY it is a library that takes them for another. */
#include "program.h"

#include <stdio.h>

#include <sys/mman.h>

void *mi_malloc_aligned(size_t size, size_t align);
void mi_free(void *block);

__attribute__((noinline)) void *mi_malloc_aligned(size_t size, size_t align)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	(void)align;
	must(p != MAP_FAILED, "mmap");
	memset(p, 1, size);
	return p;
}

__attribute__((noinline)) void mi_free(void *block)
{
	munmap(block, 1);
}

void take_megabytes(int count);
void take_megabytes(int count)
{
	for (int i = 0; i < count; i++)
		mi_malloc_aligned(1 << 20, 16);
	if (count < 0)
		mi_free(NULL);
}

#ifndef LIBRARY
int main(void)
{
	char line[100];
	int count;
	while (fgets(line, sizeof line, stdin)) {
		if (sscanf(line, "keep %d", &count) == 1)
			take_megabytes(count);
		printf("kept %d\n", count);
		fflush(stdout);
	}
	return 0;
}
#endif
