/* Blocks of 1 to 24 bytes, as close together as the allocator puts them: jemalloc
 * and mimalloc have several in 32 bytes. Three rounds of 30,000; of the last one
 * every second block stays. */
#include <stdlib.h>

enum { ROUNDS = 3, BLOCKS = 30000 };
static void *blocks[BLOCKS];

int main(void)
{
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < BLOCKS; i++)
			blocks[i] = malloc((size_t)(1 + i % 24));
		for (int i = 0; i < BLOCKS; i++)
			if (round < ROUNDS - 1 || i % 2)
				free(blocks[i]);
	}
	return 0;
}
