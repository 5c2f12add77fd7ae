/* Two call stacks that look the same to whoever compares return addresses alone: `sized` has a frame of a
 * size that only rbp knows, below callers of two sizes, so that the stack pointer inside is the same; and
 * where the one's return address stood, the other has memory that it never wrote, and so the address of
 * before. Only rbp tells them apart. */
#include "program.h"

#include <alloca.h>
#include <stdlib.h>

/* PAD: more than what other calls write over. */
enum { ROUNDS = 1000, PAD = 32 << 10 };

static char *room_of[2]; /* of the small caller, of the large one */

NOINLINE static void sized(size_t bytes, size_t block, int large)
{
	char *room = alloca(bytes); /* never written */
	room_of[large] = room;
	void *p = malloc(block);
	keep(p);
	free(p);
	__asm__ volatile("" : : "r"(room) : "memory");
}

NOINLINE static void through_small(void)
{
	sized(2 * PAD, 111, 0);
	__asm__ volatile("" : : : "memory");
}

NOINLINE static void through_large(void)
{
	char pad[PAD];
	__asm__ volatile("" : : "r"(pad) : "memory");
	sized(PAD, 222, 1);
	__asm__ volatile("" : : "r"(pad) : "memory");
}

NOINLINE static void elsewhere(size_t block)
{
	void *p = malloc(block);
	keep(p);
	free(p);
}

NOINLINE static void far_away(void)
{
	elsewhere(333);
	__asm__ volatile("" : : : "memory");
}

int main(void)
{
	/* In any order, with others between: what was seen last is not what comes next. */
	void (*const way[])(void) = {through_large, far_away,      through_small, far_away,
				     through_small, through_large, far_away};
	for (int i = 0; i < ROUNDS; i++)
		for (unsigned k = 0; k < sizeof way / sizeof *way; k++) {
			way[k]();
			__asm__ volatile("" : : : "memory");
		}
	must(room_of[0] == room_of[1], "the two do not look the same");
	return 0;
}
