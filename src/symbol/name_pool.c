/* An arena with a hash table of the strings in it. Symbolising meets the same
 * few thousand names millions of times: one copy each keeps the memory flat,
 * and merging stacks by name becomes comparing pointers.
 *
 * Chunks double up to 256 KiB, because a run of `true` needs a few hundred
 * bytes of names and must not pay for more.
 *
 * Invariants: a pointer handed out never moves; the table is at most half full. */
#include "symbol/name_pool.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CHUNK = 4096, BIGGEST_CHUNK = 256 * 1024 };

struct chunk {
	struct chunk *next;
	_Alignas(max_align_t) char data[];
};

struct entry {
	const char *name; /* NULL: empty */
	uint32_t length, hash;
};

struct name_pool {
	struct chunk *chunks;
	char *at;
	size_t left, next_size;
	struct entry *table;
	size_t mask, used;
};

struct name_pool *name_pool_new(void)
{
	struct name_pool *pool = calloc(1, sizeof *pool);
	if (!pool)
		return NULL;
	pool->mask = 255;
	pool->next_size = FIRST_CHUNK;
	pool->table = calloc(pool->mask + 1, sizeof *pool->table);
	if (!pool->table) {
		free(pool);
		return NULL;
	}
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
	free(pool->table);
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
	if (size > want / 2) { /* big ones get a chunk of their own, the current one goes on */
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

static uint32_t hash_bytes(const char *s, size_t length)
{
	uint64_t h = 0x9e3779b97f4a7c15u ^ length;
	while (length >= 8) {
		uint64_t word;
		memcpy(&word, s, 8);
		h = (h ^ word) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
		s += 8;
		length -= 8;
	}
	uint64_t rest = 0;
	memcpy(&rest, s, length);
	h = (h ^ rest) * 0xc4ceb9fe1a85ec53u;
	return (uint32_t)(h ^ (h >> 32));
}

static int grow(struct name_pool *pool)
{
	size_t mask = pool->mask * 2 + 1;
	struct entry *table = calloc(mask + 1, sizeof *table);
	if (!table)
		return -1;
	for (size_t i = 0; i <= pool->mask; i++) {
		if (!pool->table[i].name)
			continue;
		size_t at = pool->table[i].hash & mask;
		while (table[at].name)
			at = (at + 1) & mask;
		table[at] = pool->table[i];
	}
	free(pool->table);
	pool->table = table;
	pool->mask = mask;
	return 0;
}

const char *name_pool_add_n(struct name_pool *pool, const char *s, size_t length)
{
	if (length >= UINT32_MAX)
		return NULL;
	uint32_t hash = hash_bytes(s, length);
	size_t at = hash & pool->mask;
	for (; pool->table[at].name; at = (at + 1) & pool->mask) {
		const struct entry *e = &pool->table[at];
		if (e->hash == hash && e->length == length && memcmp(e->name, s, length) == 0)
			return e->name;
	}
	if (pool->used * 2 >= pool->mask) {
		if (grow(pool) < 0)
			return NULL;
		for (at = hash & pool->mask; pool->table[at].name;)
			at = (at + 1) & pool->mask;
	}
	char *copy = take(pool, length + 1, 1);
	if (!copy)
		return NULL;
	memcpy(copy, s, length);
	copy[length] = 0;
	pool->table[at] = (struct entry){.name = copy, .length = (uint32_t)length, .hash = hash};
	pool->used++;
	return copy;
}

const char *name_pool_add(struct name_pool *pool, const char *s)
{
	return name_pool_add_n(pool, s, strlen(s));
}
