/* An arena with a hash table of the strings in it. Symbolising sees the same few thousand names millions of
 * times. One copy of each saves memory, and stacks can be merged by comparing pointers.
 *
 * The size of chunks doubles up to 256 KiB: a run of `true` needs only a few hundred bytes of names.
 *
 * Invariant: what a returned pointer points to never moves. */
#include "hosted/name_pool.h"

#include "hosted/hash_index.h"
#include "hosted/vector.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CHUNK = 4096, BIGGEST_CHUNK = 256 * 1024 };

struct chunk {
	struct chunk *next;
	_Alignas(max_align_t) char data[];
};

struct entry {
	const char *name;
	uint32_t length;
};

struct name_pool {
	struct chunk *chunks;
	char *at;
	size_t left, next_size;
	VECTOR(struct entry) entries;
	struct hash_index index; /* finds entries by name */
};

struct name_pool *name_pool_new(void)
{
	struct name_pool *pool = calloc(1, sizeof *pool);
	if (!pool)
		return NULL;
	pool->next_size = FIRST_CHUNK;
	return pool;
}

void name_pool_free(struct name_pool *pool)
{
	if (!pool)
		return;
	while (pool->chunks) {
		struct chunk *next = pool->chunks->next;
		free(pool->chunks);
		pool->chunks = next;
	}
	vector_free(&pool->entries);
	hash_index_fini(&pool->index);
	free(pool);
}

static void *take(struct name_pool *pool, size_t size, size_t align)
{
	size_t skip = (size_t)(-(uintptr_t)pool->at) & (align - 1);
	if (pool->at && skip <= pool->left && size <= pool->left - skip) {
		char *p = pool->at + skip;
		pool->at = p + size;
		pool->left -= skip + size;
		return p;
	}
	size_t want = pool->next_size;
	if (size > SIZE_MAX - sizeof(struct chunk))
		return NULL;
	if (size > want / 2) { /* a large one gets its own chunk; the current chunk stays in use */
		struct chunk *own = malloc(sizeof *own + size);
		if (!own)
			return NULL;
		own->next = pool->chunks;
		pool->chunks = own;
		return own->data;
	}
	struct chunk *c = malloc(sizeof *c + want);
	if (!c)
		return NULL;
	if (pool->next_size < BIGGEST_CHUNK)
		pool->next_size *= 2;
	c->next = pool->chunks;
	pool->chunks = c;
	pool->at = c->data + size;
	pool->left = want - size;
	return c->data;
}

void *name_pool_alloc(struct name_pool *pool, size_t size)
{
	void *p = take(pool, size ? size : 1, _Alignof(max_align_t));
	if (p)
		memset(p, 0, size);
	return p;
}

const char *name_pool_add_n(struct name_pool *pool, const char *s, size_t length)
{
	if (length >= UINT32_MAX)
		return NULL;
	uint32_t hash = hash_bytes(s, length), i;
	for (uint32_t at = hash; (i = hash_index_step(&pool->index, hash, &at)) != HASH_NONE;) {
		const struct entry *e = &pool->entries.items[i];
		if (e->length == length && memcmp(e->name, s, length) == 0)
			return e->name;
	}
	/* Reserve both first, so that either both are added or none. */
	if (hash_index_reserve(&pool->index, 1) < 0 || !vector_reserve(&pool->entries, 1))
		return NULL;
	char *copy = take(pool, length + 1, 1);
	if (!copy)
		return NULL;
	memcpy(copy, s, length);
	copy[length] = 0;
	hash_index_add(&pool->index, hash, (uint32_t)pool->entries.count);
	vector_push(&pool->entries, (struct entry){copy, (uint32_t)length});
	return copy;
}

const char *name_pool_add(struct name_pool *pool, const char *s)
{
	return name_pool_add_n(pool, s, strlen(s));
}
