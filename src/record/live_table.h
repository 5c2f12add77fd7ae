/* Live blocks of one process by address: those that have no place in the shadow of
 * the heap (live_blocks.h). Most processes have few of them. Open addressing, linear
 * probing, and removal by shifting back, so there are no tombstones and the table
 * stays as dense as the blocks in it. */
#ifndef HEFT_RECORD_LIVE_TABLE_H
#define HEFT_RECORD_LIVE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct live_block {
	uint64_t addr; /* 0: empty slot. Real addresses are never 0 */
	uint64_t birth_tsc;
	uint64_t size : 47, grown : 1, slack : 16; /* grown: last sized by a realloc */
	uint32_t site;                             /* of the recording */
	uint32_t thread;                           /* who allocated it */
};

struct live_table {
	struct live_block *slots;
	uint64_t count;
	unsigned bits;
};

int live_table_init(struct live_table *t);
void live_table_fini(struct live_table *t);
/* Room for `more` further blocks: 0 or HEFT_ENOMEM. */
int live_table_reserve(struct live_table *t, uint64_t more);

static inline uint64_t live_table_slot(const struct live_table *t, uint64_t addr)
{
	return (addr >> 3) * 0x9e3779b97f4a7c15ull >> (64 - t->bits);
}
static inline struct live_block *live_table_find(const struct live_table *t, uint64_t addr)
{
	uint64_t mask = (1ull << t->bits) - 1;
	for (uint64_t i = live_table_slot(t, addr);; i++) {
		struct live_block *b = &t->slots[i & mask];
		if (b->addr == addr)
			return b;
		if (!b->addr)
			return NULL;
	}
}
/* The address must not be there, and room reserved. */
static inline void live_table_add(struct live_table *t, const struct live_block *block)
{
	uint64_t mask = (1ull << t->bits) - 1;
	uint64_t i = live_table_slot(t, block->addr);
	while (t->slots[i & mask].addr)
		i++;
	t->slots[i & mask] = *block;
	t->count++;
}
static inline void live_table_remove(struct live_table *t, struct live_block *block)
{
	uint64_t mask = (1ull << t->bits) - 1;
	uint64_t hole = (uint64_t)(block - t->slots);
	t->count--;
	for (uint64_t i = hole + 1;; i++) {
		struct live_block *b = &t->slots[i & mask];
		if (!b->addr)
			break;
		/* b may move into the hole if its home is not beyond it. */
		uint64_t home = live_table_slot(t, b->addr);
		if (((i - home) & mask) >= ((i - hole) & mask)) {
			t->slots[hole & mask] = *b;
			hole = i;
		}
	}
	t->slots[hole & mask].addr = 0;
}

#endif
