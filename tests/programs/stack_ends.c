/* Call stacks that differ in their inner ends and meet at the same addresses: one
 * wrapper around malloc, called from many functions whose frames are as large as
 * each other's, or of a size that only the run knows (alloca), to and fro and in
 * no order. What a profiler remembers of one must not be taken for another. */
#include "program.h"

#include <alloca.h>
#include <stdlib.h>
#include <string.h>

static unsigned state = 1;
static unsigned next_random(void)
{
	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state;
}

static void *volatile kept[64];

NOINLINE static void *wrapper(size_t size)
{
	void *p = malloc(size);
	__asm__ volatile("" : : "r"(p) : "memory");
	return p;
}

NOINLINE static void take(size_t size)
{
	unsigned i = next_random() % 64;
	free(kept[i]);
	kept[i] = wrapper(size);
	__asm__ volatile("");
}

NOINLINE static void choose(unsigned depth);

/* Frames of one size, told apart by their return addresses alone. */
#define PLAIN(name)                                                                                \
	NOINLINE static void name(unsigned depth)                                                  \
	{                                                                                          \
		choose(depth);                                                                     \
		__asm__ volatile("" : : : "memory");                                               \
	}
PLAIN(plain_a)
PLAIN(plain_b)
PLAIN(plain_c)

/* Their size is known to rbp alone; one of them may look like another one with less above it. */
#define SIZED(name)                                                                                \
	NOINLINE static void name(unsigned depth)                                                  \
	{                                                                                          \
		char *room = alloca(16 + next_random() % 4 * 16);                                  \
		room[0] = 1;                                                                       \
		__asm__ volatile("" : : "r"(room) : "memory");                                     \
		choose(depth);                                                                     \
		__asm__ volatile("" : : "r"(room) : "memory");                                     \
	}
SIZED(sized_a)
SIZED(sized_b)

NOINLINE static void choose(unsigned depth)
{
	if (depth == 0) {
		take(24);
		take(40);
		return;
	}
	for (unsigned i = next_random() % 3 + 1; i > 0; i--)
		switch (next_random() % 6) {
		case 0: plain_a(depth - 1); break;
		case 1: plain_b(depth - 1); break;
		case 2: plain_c(depth - 1); break;
		case 3: sized_a(depth - 1); break;
		case 4: sized_b(depth - 1); break;
		default: take(16);
		}
	__asm__ volatile("" : : : "memory");
}

int main(void)
{
	for (int i = 0; i < 100; i++)
		choose(7);
	for (unsigned i = 0; i < 6000; i++)
		choose(1 + i % 3);
	for (int i = 0; i < 64; i++)
		free(kept[i]);
	return 0;
}
