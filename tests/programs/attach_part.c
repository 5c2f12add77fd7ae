/* A library that attach_lives and attach_kinds load: it allocates, checks and frees. */
#include "program.h"

#include <stdlib.h>

size_t attach_part_work(size_t bytes);
void *attach_part_malloc(size_t bytes);

size_t attach_part_work(size_t bytes)
{
	char *block = malloc(bytes);
	if (!block)
		return 0;
	memset(block, 'x', bytes);
	size_t same = 0;
	for (size_t i = 0; i < bytes; i++)
		same += block[i] == 'x';
	free(block);
	return same;
}

NOINLINE void *attach_part_malloc(size_t bytes)
{
	void *block = malloc(bytes);
	keep(block);
	return block;
}
