/* The break cannot grow, since something is mapped right behind it: glibc's main arena goes on in mappings. Prints glibc's
 * own count and waits until its input ends. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BLOCKS = 6000 };
static void *blocks[BLOCKS];

int main(void)
{
	char byte;
	setvbuf(stdout, NULL, _IONBF, 0);
	blocks[0] = malloc(100);
	if (mmap(sbrk(0), 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
		 0) == MAP_FAILED)
		return 1;
	for (int i = 1; i < BLOCKS; i++)
		*(char *)(blocks[i] = malloc(100)) = 1;
	struct mallinfo2 m = mallinfo2();
	printf("%zu %zu %zu %zu\n", m.arena, m.uordblks, m.fordblks, m.hblkhd);
	return read(0, &byte, 1) < 0;
}
