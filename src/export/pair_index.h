/* Inside src/export: numbers, from 0 up, for pairs of numbers as they are first met. */
#ifndef HEFT_EXPORT_PAIR_INDEX_H
#define HEFT_EXPORT_PAIR_INDEX_H

#include "hosted/hash_index.h"

#include <stdint.h>

struct pair {
	uint32_t a, b;
};

struct pair_index {
	struct pair *pairs; /* by number */
	uint32_t count, capacity;
	struct hash_index index;
};

int pair_index_find(struct pair_index *x, uint32_t a, uint32_t b,
		    uint32_t *number); /* 0, HEFT_ENOMEM */
void pair_index_fini(struct pair_index *x);

#endif
