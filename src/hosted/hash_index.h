/* A hash table that finds the number of an element in the caller's own array.
 *
 * The table holds numbers and the hashes of their keys. The caller has the keys and compares them. So one
 * table works for keys of any type, and it grows without the keys. It uses open addressing with linear
 * steps and is at most half full. Nothing is ever removed.
 *
 *	uint32_t hash = hash_pair(a, b), at = hash, i;
 *	while ((i = hash_index_step(&x, hash, &at)) != HASH_NONE)
 *		if (pairs[i].a == a && pairs[i].b == b)
 *			return i;
 *	rc = hash_index_add_at(&x, hash, at, new_number);
 *
 * Debian's uthash chains elements through pointers in them, and stb_ds does not survive a failed
 * allocation. So heft has its own. */
#ifndef HEFT_HOSTED_HASH_INDEX_H
#define HEFT_HOSTED_HASH_INDEX_H

#include <stddef.h>
#include <stdint.h>

#define HASH_NONE UINT32_MAX

struct hash_slot {
	uint32_t hash;
	uint32_t number; /* the number + 1; 0: the slot is free */
};

/* All zero means empty */
struct hash_index {
	struct hash_slot *slots;
	uint32_t mask; /* the number of slots, a power of two, less one */
	uint32_t count;
};

/* Returns the next number that was added with this hash; HASH_NONE after the last. *at starts as the hash. */
static inline uint32_t hash_index_step(const struct hash_index *x, uint32_t hash, uint32_t *at)
{
	if (!x->slots)
		return HASH_NONE;
	for (;;) {
		const struct hash_slot *s = &x->slots[(*at)++ & x->mask];
		if (!s->number)
			return HASH_NONE;
		if (s->hash == hash)
			return s->number - 1;
	}
}

int hash_index_reserve(struct hash_index *x, uint32_t more); /* 0 or HEFT_ENOMEM */
/* Adds a number, which must be less than HASH_NONE. 0 or HEFT_ENOMEM. */
int hash_index_add(struct hash_index *x, uint32_t hash, uint32_t number);
/* The same after a search that found nothing: `at` is behind the free slot where it ended. */
static inline int hash_index_add_at(struct hash_index *x, uint32_t hash, uint32_t at,
				    uint32_t number)
{
	if (!x->slots || x->count >= x->mask / 2)
		return hash_index_add(x, hash, number);
	x->slots[(at - 1) & x->mask] = (struct hash_slot){hash, number + 1};
	x->count++;
	return 0;
}
void hash_index_clear(struct hash_index *x); /* empties it, keeps its memory */
void hash_index_fini(struct hash_index *x);

/* Random numbers of this process. Keys come from files, and whoever writes a file must not be able to choose keys
 * that all have one hash. So hashes differ from run to run: nothing may be written or put in order by them. */
extern uint64_t hash_secret[2];

/* Both halves of the product: no bits of the key cancel each other without knowing the secret. */
static inline uint64_t hash_fold(uint64_t n)
{
	unsigned __int128 product = (unsigned __int128)(n ^ hash_secret[0]) * hash_secret[1];
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint32_t hash_number(uint64_t n)
{
	uint64_t h = hash_fold(n);
	return (uint32_t)(h ^ (h >> 32));
}

static inline uint32_t hash_pair(uint32_t a, uint32_t b)
{
	return hash_number((uint64_t)a << 32 | b);
}

static inline uint32_t hash_pointer(const void *p)
{
	return hash_number((uintptr_t)p);
}

/* For longer keys: start with 0, mix in one number after the other, then take hash_number of the result. */
static inline uint64_t hash_mix(uint64_t h, uint64_t n)
{
	return hash_fold(h ^ n);
}

uint32_t hash_bytes(const void *bytes, size_t length);

#endif
