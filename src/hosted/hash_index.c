/* Grows the table. A large table is read at random places, so it gets huge pages if the system has them:
 * they need fewer page faults and cause fewer TLB misses. */
#include "hosted/hash_index.h"

#include "hosted/error.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include <sys/mman.h>

enum { FIRST_SLOTS = 64, HUGE_PAGE = 2 << 20 };

static struct hash_slot *new_slots(size_t count)
{
	size_t size = count * sizeof(struct hash_slot);
	if (size < HUGE_PAGE)
		return calloc(count, sizeof(struct hash_slot));
	struct hash_slot *slots = aligned_alloc(HUGE_PAGE, size); /* both are powers of two */
	if (!slots)
		return NULL;
	madvise(slots, size, MADV_HUGEPAGE);
	memset(slots, 0, size);
	return slots;
}

static void put(struct hash_slot *slots, uint32_t mask, struct hash_slot s)
{
	uint32_t at = s.hash & mask;
	while (slots[at].number)
		at = (at + 1) & mask;
	slots[at] = s;
}

int hash_index_reserve(struct hash_index *x, uint32_t more)
{
	uint64_t needed = ((uint64_t)x->count + more) * 2,
		 count = x->slots ? (uint64_t)x->mask + 1 : FIRST_SLOTS;
	if (x->slots && needed <= count)
		return 0;
	while (count < needed)
		count *= 2;
	if (count > UINT32_MAX)
		return HEFT_ENOMEM;
	struct hash_slot *slots = new_slots(count);
	if (!slots)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; x->slots && i <= x->mask; i++)
		if (x->slots[i].number)
			put(slots, (uint32_t)count - 1, x->slots[i]);
	free(x->slots);
	x->slots = slots;
	x->mask = (uint32_t)count - 1;
	return 0;
}

int hash_index_add(struct hash_index *x, uint32_t hash, uint32_t number)
{
	if (hash_index_reserve(x, 1) < 0)
		return HEFT_ENOMEM;
	put(x->slots, x->mask, (struct hash_slot){hash, number + 1});
	x->count++;
	return 0;
}

void hash_index_clear(struct hash_index *x)
{
	if (x->slots)
		memset(x->slots, 0, ((size_t)x->mask + 1) * sizeof *x->slots);
	x->count = 0;
}

void hash_index_fini(struct hash_index *x)
{
	free(x->slots);
	*x = (struct hash_index){0};
}

uint64_t hash_secret[2];

static __attribute__((constructor)) void choose_secret(void)
{
	/* Without random numbers (a filter of system calls) addresses are the next best. */
	if (getrandom(hash_secret, sizeof hash_secret, GRND_NONBLOCK) != sizeof hash_secret) {
		hash_secret[0] = (uintptr_t)&choose_secret ^ (uint64_t)getpid() << 40;
		hash_secret[1] = (uintptr_t)&hash_secret * 0x9e3779b97f4a7c15u;
	}
	hash_secret[1] |= 1;
}

uint32_t hash_bytes(const void *bytes, size_t length)
{
	const char *s = bytes;
	uint64_t h = hash_fold(length);
	for (; length >= 8; s += 8, length -= 8) {
		uint64_t word;
		memcpy(&word, s, 8);
		h = hash_mix(h, word);
	}
	uint64_t rest = 0;
	memcpy(&rest, s, length);
	return hash_number(h ^ rest);
}
