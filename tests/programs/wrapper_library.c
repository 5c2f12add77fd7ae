/* A library with a wrapper around malloc, for wrapper_shapes.cc. */
#include <stdlib.h>

void *shared_take(size_t size);
__attribute__((noinline)) void *shared_take(size_t size)
{
	void *block = malloc(size);
	if (!block)
		abort();
	return block;
}
