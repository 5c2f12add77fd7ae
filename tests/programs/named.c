/* One allocation of 4242 bytes, made by a function that is inlined into one that only this file
 * sees: with debug information two frames, with a symbol table one, with neither none. */
#include <stdio.h>
#include <stdlib.h>

static inline __attribute__((always_inline)) char *inner(size_t size)
{
	return malloc(size); /* @inner */
}

static __attribute__((noinline, noclone)) int hidden(size_t size)
{
	char *block = inner(size); /* @hidden */
	if (!block)
		return 1;
	block[0] = 1;
	printf("%d\n", block[0]);
	free(block);
	return 0;
}

int main(void)
{
	volatile int status = hidden(4242); /* @main; volatile: never a jump in place of a call */
	return status;
}
