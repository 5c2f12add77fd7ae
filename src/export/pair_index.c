/* A hash table of pairs with open addressing: for functions (name, file), for places (a frame and
 * what it is inlined into). At most half full. */
#include "export/pair_index.h"

#include "hosted/error.h"

#include <stdlib.h>

enum { FIRST_SLOTS = 256 };

static uint32_t slot_of(const struct pair_index *x, uint32_t a, uint32_t b)
{
	uint64_t h = ((uint64_t)a << 32 | b) * 0x9e3779b97f4a7c15u;
	uint32_t at = (uint32_t)(h >> 32) & (x->slot_count - 1);
	while (x->slots[at]) {
		const struct pair *p = &x->pairs[x->slots[at] - 1];
		if (p->a == a && p->b == b)
			break;
		at = (at + 1) & (x->slot_count - 1);
	}
	return at;
}

static int grow(struct pair_index *x)
{
	uint32_t old_count = x->slot_count, count = old_count ? old_count * 2 : FIRST_SLOTS;
	uint32_t *slots = count ? calloc(count, sizeof *slots) : NULL;
	struct pair *pairs = slots ? realloc(x->pairs, count / 2 * sizeof *pairs) : NULL;
	if (!pairs) {
		free(slots);
		return HEFT_ENOMEM;
	}
	free(x->slots);
	x->pairs = pairs;
	x->capacity = count / 2;
	x->slots = slots;
	x->slot_count = count;
	for (uint32_t i = 0; i < x->count; i++)
		x->slots[slot_of(x, pairs[i].a, pairs[i].b)] = i + 1;
	return 0;
}

int pair_index_find(struct pair_index *x, uint32_t a, uint32_t b, uint32_t *number)
{
	if (x->count == x->capacity && grow(x) < 0)
		return HEFT_ENOMEM;
	uint32_t at = slot_of(x, a, b);
	if (!x->slots[at]) {
		x->pairs[x->count++] = (struct pair){a, b};
		x->slots[at] = x->count;
	}
	*number = x->slots[at] - 1;
	return 0;
}

void pair_index_fini(struct pair_index *x)
{
	free(x->pairs);
	free(x->slots);
	*x = (struct pair_index){0};
}
