/* Where the exported functions (entry.c) go: to the hook of an exact recording
 * (hooks.c), or, in a sampled process, to the function for a countdown that has run
 * out or a block that may be a sample (sample_hooks.c). */
#ifndef HEFT_CAPTURE_HOOKS_H
#define HEFT_CAPTURE_HOOKS_H

#include "capture/inside.h"

#define BOTH(type, name, args)                                                                     \
	HIDDEN type heft_exact_##name args;                                                        \
	HIDDEN type heft_sampled_##name args
BOTH(void *, malloc, (size_t size));
BOTH(void *, calloc, (size_t n, size_t each));
BOTH(void, free, (void *p));
BOTH(void *, realloc, (void *old, size_t size));
BOTH(void *, reallocarray, (void *old, size_t n, size_t each));
BOTH(int, posix_memalign, (void **out, size_t alignment, size_t size));
BOTH(void *, aligned_alloc, (size_t alignment, size_t size));
BOTH(void *, memalign, (size_t alignment, size_t size));
BOTH(void *, valloc, (size_t size));
BOTH(void *, pvalloc, (size_t size));
#undef BOTH

#endif
