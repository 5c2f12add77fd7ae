/* Takes the address of malloc and free. Linked so that it is not position independent, its own PLT
 * entry becomes the function's address everywhere: libraries that take the address, and dlsym, get
 * that one. With -DLIBRARY: the library that compares, and calls through such pointers. */
#define _GNU_SOURCE
#include "program.h"

#include <dlfcn.h>
#include <stdlib.h>

typedef void *alloc_fn(size_t);
alloc_fn *library_malloc(void);
void *library_call(alloc_fn *f, size_t n);

#ifdef LIBRARY
NOINLINE alloc_fn *library_malloc(void)
{
	return malloc;
}

NOINLINE void *library_call(alloc_fn *f, size_t n)
{
	void *p = f(n); /* @taken.library */
	keep(p);
	return p;
}
#else
int main(void)
{
	alloc_fn *own = malloc, *theirs = library_malloc();
	alloc_fn *found = (alloc_fn *)dlsym(RTLD_DEFAULT, "malloc");
	void (*release)(void *) = free;
	void *p;

	say(own == theirs && own == found ? "one address\n" : "several addresses\n");
	for (int i = 0; i < 10; i++) {
		p = own(opaque(100)); /* @taken.own */
		keep(p);
		release(p);
	}
	for (int i = 0; i < 20; i++) {
		p = theirs(opaque(200)); /* @taken.theirs */
		keep(p);
		free(p);
	}
	for (int i = 0; i < 30; i++) {
		p = found(opaque(300)); /* @taken.found */
		keep(p);
	}
	for (int i = 0; i < 40; i++)
		free(library_call(own, 400));
	return 0;
}
#endif
