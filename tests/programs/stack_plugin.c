/* A library to load and unload, built twice with another NAME: same layout, so the
 * second one is likely to land where the first one was. */
#include "program.h"

#include <stdlib.h>

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)

NOINLINE static void *JOIN(NAME, _inner)(size_t n)
{
	void *p = malloc(n);

	keep(p);
	return p;
}

NOINLINE void *plugin_entry(size_t n);
NOINLINE void *plugin_entry(size_t n)
{
	void *p = JOIN(NAME, _inner)(n);

	keep(p);
	return p;
}
