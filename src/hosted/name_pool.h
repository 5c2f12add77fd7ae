/* A pool keeps one copy of each name until the end, so that names can be compared by pointer. */
#ifndef HEFT_HOSTED_NAME_POOL_H
#define HEFT_HOSTED_NAME_POOL_H

#include <stddef.h>

struct name_pool;
struct name_pool *name_pool_new(void); /* NULL: no memory */
void name_pool_free(struct name_pool *pool);
/* Returns the pool's copy of a string: equal strings give equal pointers. NULL: no memory. */
const char *name_pool_add(struct name_pool *pool, const char *s);
const char *name_pool_add_n(struct name_pool *pool, const char *s, size_t length);
/* Zeroed memory that lives as long as the pool, aligned for any object. */
void *name_pool_alloc(struct name_pool *pool, size_t size);

#endif
