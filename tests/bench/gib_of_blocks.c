/* Has a GiB in blocks of 112 bytes, which take 128 each: gib_of_blocks apart|linked [MIB]. apart: one array leads to all of
 * them; linked: each also leads to two others, chosen at random. Then it exits. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 112, CHUNK = 128 };

static void ***volatile kept;

int main(int argc, char **argv)
{
	size_t mib = argc > 2 ? strtoul(argv[2], NULL, 10) : 1024;
	size_t count = mib * ((1 << 20) / CHUNK);
	void ***blocks = malloc(count * sizeof *blocks);
	uint64_t seed = 1;
	if (!blocks)
		return 1;
	kept = blocks;
	for (size_t i = 0; i < count; i++) {
		blocks[i] = malloc(BLOCK);
		if (!blocks[i])
			return 1;
		memset(blocks[i], 0, BLOCK);
		blocks[i][2] = (void **)i;
	}
	for (size_t i = 0; argc > 1 && !strcmp(argv[1], "linked") && i < count; i++)
		for (size_t k = 0; k < 2; k++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			blocks[i][k] = (void **)blocks[(seed >> 20) % count];
		}
	return 0;
}
