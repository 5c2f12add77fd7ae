/* Where the exported functions (entry.c) go: to the hook of an exact recording
 * (hooks.c), in a sampled process to the function for a countdown that has run
 * out or a block that may be a sample (sample_hooks.c), and in one that only counts to its own hook (count_hooks.c). */
#ifndef HEFT_CAPTURE_HOOKS_H
#define HEFT_CAPTURE_HOOKS_H

#include "capture/inside.h"
#include "wire/via.h"

/* The functions that return a new block, all alike: name, parameters, arguments, size of the block, via. */
#define HEFT_ALLOCATING_FUNCTIONS(X)                                                               \
	X(malloc, (size_t size), (size), size, WIRE_VIA_MALLOC)                                    \
	X(calloc, (size_t n, size_t each), (n, each), n *each, WIRE_VIA_CALLOC)                    \
	X(aligned_alloc, (size_t alignment, size_t size), (alignment, size), size,                 \
	  WIRE_VIA_ALIGNED_ALLOC)                                                                  \
	X(memalign, (size_t alignment, size_t size), (alignment, size), size, WIRE_VIA_MEMALIGN)   \
	X(valloc, (size_t size), (size), size, WIRE_VIA_VALLOC)                                    \
	X(pvalloc, (size_t size), (size), size, WIRE_VIA_PVALLOC)

#define BOTH(type, name, parameters)                                                               \
	HIDDEN type heft_exact_##name parameters;                                                  \
	HIDDEN type heft_sampled_##name parameters;                                                \
	HIDDEN type heft_counted_##name parameters;
#define BOTH_ALLOCATE(name, parameters, arguments, size, via) BOTH(void *, name, parameters)
HEFT_ALLOCATING_FUNCTIONS(BOTH_ALLOCATE)
BOTH(int, posix_memalign, (void **out, size_t alignment, size_t size))
BOTH(void *, realloc, (void *old, size_t size))
BOTH(void, free, (void *p))
#undef BOTH_ALLOCATE
#undef BOTH
HIDDEN void *heft_exact_reallocarray(void *old, size_t size); /* of so many bytes in all */
/* A reallocarray of more bytes than can be counted: what libc's does. */
HIDDEN void *heft_too_large(void *old, size_t n, size_t each);

#ifdef HEFT_BLOB
/* Where the entries of the real functions lead to (entry.c) */
#define BLOB_ENTRY(name, parameters, arguments, size, via) HIDDEN void *heft_blob_##name parameters;
HEFT_ALLOCATING_FUNCTIONS(BLOB_ENTRY)
#undef BLOB_ENTRY
HIDDEN int heft_blob_posix_memalign(void **out, size_t alignment, size_t size);
HIDDEN void *heft_blob_realloc(void *old, size_t size);
HIDDEN void *heft_blob_reallocarray(void *old, size_t n, size_t each);
HIDDEN void heft_blob_free(void *p);
#endif

#endif
