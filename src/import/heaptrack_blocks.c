/* A table of live blocks, with open addressing and at most half full. If a block is removed, those behind it
 * move back, so there are no tombstones however many come and go. hash_index cannot be used: it never removes. */
#include "import/heaptrack_blocks.h"

#include "hosted/error.h"
#include "hosted/hash_index.h"

#include <stdlib.h>

#define MAX_BLOCKS ((uint64_t)1 << 28)

static uint64_t slot_of(const struct heaptrack_blocks *b, uint64_t address)
{
	return hash_fold(address) & b->mask;
}

static int grow(struct heaptrack_blocks *b)
{
	uint64_t mask = b->slots ? b->mask * 2 + 1 : 4095;
	if (mask > MAX_BLOCKS)
		return HEFT_EFORMAT;
	struct heaptrack_blocks bigger = {calloc(mask + 1, sizeof *bigger.slots), mask, b->count};
	if (!bigger.slots)
		return HEFT_ENOMEM;
	for (uint64_t i = 0; b->slots && i <= b->mask; i++) {
		if (!b->slots[i].address)
			continue;
		uint64_t at = slot_of(&bigger, b->slots[i].address);
		while (bigger.slots[at].address)
			at = (at + 1) & mask;
		bigger.slots[at] = b->slots[i];
	}
	free(b->slots);
	*b = bigger;
	return 0;
}

int heaptrack_blocks_put(struct heaptrack_blocks *b, const struct heaptrack_block *block,
			 struct heaptrack_block *was)
{
	if (!b->slots || b->count * 2 > b->mask) {
		int rc = grow(b);
		if (rc < 0)
			return rc;
	}
	uint64_t at = slot_of(b, block->address);
	while (b->slots[at].address && b->slots[at].address != block->address)
		at = (at + 1) & b->mask;
	*was = b->slots[at];
	b->count += !was->address;
	b->slots[at] = *block;
	return 0;
}

bool heaptrack_blocks_take(struct heaptrack_blocks *b, uint64_t address,
			   struct heaptrack_block *block)
{
	if (!b->slots || !address)
		return false;
	uint64_t at = slot_of(b, address);
	while (b->slots[at].address != address) {
		if (!b->slots[at].address)
			return false;
		at = (at + 1) & b->mask;
	}
	*block = b->slots[at];
	b->count--;
	for (uint64_t next = (at + 1) & b->mask; b->slots[next].address;
	     next = (next + 1) & b->mask) {
		uint64_t home = slot_of(b, b->slots[next].address);
		if (((next - home) & b->mask) >= ((next - at) & b->mask)) {
			b->slots[at] = b->slots[next];
			at = next;
		}
	}
	b->slots[at].address = 0;
	return true;
}
