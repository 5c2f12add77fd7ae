/* A library whose segments have closed pages between them (see gap_program.c). */
#include "program.h"

#include <stdlib.h>

void *library_alloc(size_t n);
NOINLINE void *library_alloc(size_t n)
{
	void *p = malloc(n); /* @gap.library */
	keep(p);
	return p;
}
