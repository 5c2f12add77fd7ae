/* Numbers for pairs: functions (name, file) and places (a frame and what it is inlined into). */
#include "export/pair_index.h"

#include "hosted/error.h"
#include "hosted/vector.h"

int pair_index_find(struct pair_index *x, uint32_t a, uint32_t b, uint32_t *number)
{
	uint32_t hash = hash_pair(a, b), at = hash;
	while ((*number = hash_index_step(&x->index, hash, &at)) != HASH_NONE)
		if (x->pairs[*number].a == a && x->pairs[*number].b == b)
			return 0;
	if (!array_reserve(x->pairs, x->count, x->capacity, 1) ||
	    hash_index_add_at(&x->index, hash, at, x->count) < 0)
		return HEFT_ENOMEM;
	x->pairs[x->count] = (struct pair){a, b};
	*number = x->count++;
	return 0;
}

void pair_index_fini(struct pair_index *x)
{
	free(x->pairs);
	hash_index_fini(&x->index);
	*x = (struct pair_index){0};
}
