/* Prints what an allocator makes of a list of sizes: usable size, alignment, and how far apart
 * blocks of one size lie. The output must not change when the blocks are sampled.
 *
 * usage: size_classes MOST (alignment to ask for: what mimalloc 2.0 gives for larger ones depends on
 * where it happens to be, and is not always aligned) */
#define _GNU_SOURCE
#include "program.h"

#include <malloc.h>
#include <stdlib.h>

enum { BLOCKS = 40 };

static const size_t sizes[] = {0,     1,      8,      15,     16,      17,     24,    25,
			       31,    32,     48,     64,     100,     128,    200,   256,
			       500,   512,    513,    1000,   1024,    1025,   2048,  3000,
			       4095,  4096,   4097,   8192,   12000,   16384,  32768, 50000,
			       65536, 100000, 131072, 200000, 1000000, 4 << 20};

static void show(const char *what, void *const *block)
{
	for (int i = 0; i < BLOCKS; i++)
		must(block[i] != NULL && (uintptr_t)block[i] % 8 == 0, "address");
	say_number(what, malloc_usable_size(block[0]));
	say_number(what, malloc_usable_size(block[BLOCKS - 1]));
}

static void free_all(void **block)
{
	for (int i = 0; i < BLOCKS; i++)
		free(block[i]);
}

static void by_size(size_t size)
{
	void *block[BLOCKS];
	size_t pages = 0;

	for (int i = 0; i < BLOCKS; i++) {
		block[i] = malloc(size);
		pages += (uintptr_t)block[i] % 4096 == 0;
	}
	say_number("size", size);
	show("malloc", block);
	/* Sampled blocks that were moved to pages of their own would show here. */
	if (size < 1024)
		say(pages > BLOCKS / 2 ? "on pages\n" : "packed\n");
	for (int i = 0; i < BLOCKS; i++)
		block[i] = realloc(block[i], size + size / 3 + 1);
	show("realloc", block);
	free_all(block);
}

static void by_alignment(size_t size, size_t alignment)
{
	void *block[BLOCKS];

	for (int i = 0; i < BLOCKS; i++) {
		must(!posix_memalign(&block[i], alignment, size), "posix_memalign");
		must((uintptr_t)block[i] % alignment == 0, "alignment");
	}
	show("aligned", block);
	free_all(block);
}

int main(int argc, char **argv)
{
	size_t count = sizeof sizes / sizeof *sizes;

	must(argc == 2, "usage: size_classes MOST");
	for (size_t i = 0; i < count; i++)
		by_size(opaque(sizes[i]));
	for (size_t i = 0; i < count; i++)
		for (size_t alignment = 16; alignment <= (size_t)atoi(argv[1]); alignment *= 4)
			by_alignment(opaque(sizes[i]), alignment);
	return 0;
}
