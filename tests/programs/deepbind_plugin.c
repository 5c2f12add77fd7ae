/* A library to be loaded with RTLD_DEEPBIND: its malloc is its dependency's, not the preloaded one. It
 * allocates in its constructor, through its PLT, through a pointer that is relocated and one that it
 * takes later; it frees and resizes what others allocated. With -DBROUGHT it calls an allocator that
 * it brings along (deepbind_allocator.c). */
#include "program.h"

#include <stdlib.h>

void *plugin_block(void);
void *plugin_alloc(size_t n);
void *plugin_through(size_t n);
void *plugin_resize(void *p, size_t n);
void plugin_free(void *p);

static void *first;
static void *(*const fixed[])(size_t) = {malloc, valloc}; /* relocated, then closed */
static void *(*variable)(size_t) = malloc;

__attribute__((constructor)) static void begin(void)
{
	first = malloc(opaque(5555)); /* @plugin.begin */
}

NOINLINE void *plugin_block(void)
{
	void *p = first;
	first = NULL;
	return p;
}

NOINLINE void *plugin_alloc(size_t n)
{
	void *p = malloc(n); /* @plugin.alloc */
	keep(p);
	return p;
}

NOINLINE void *plugin_through(size_t n)
{
	void *p = fixed[0](n); /* @plugin.fixed */
	keep(p);
	free(p);
	p = variable(n); /* @plugin.variable */
	keep(p);
	return p;
}

NOINLINE void *plugin_resize(void *p, size_t n)
{
	p = realloc(p, n); /* @plugin.resize */
	keep(p);
	return p;
}

NOINLINE void plugin_free(void *p)
{
	free(p);
	keep(p);
}
