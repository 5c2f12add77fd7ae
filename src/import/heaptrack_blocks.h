/* Inside src/import: live blocks by address, for raw heaptrack files. */
#ifndef HEFT_IMPORT_HEAPTRACK_BLOCKS_H
#define HEFT_IMPORT_HEAPTRACK_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

struct heaptrack_block {
	uint64_t address; /* 0: an empty slot */
	uint64_t size;
	uint32_t trace;
	uint32_t birth_ms;
};

struct heaptrack_blocks {
	struct heaptrack_block *slots;
	uint64_t mask, count;
};

/* 0, HEFT_ENOMEM, or HEFT_EFORMAT if there are too many. A block that is there is replaced: *was becomes
 * the old one, or has address 0. */
int heaptrack_blocks_put(struct heaptrack_blocks *b, const struct heaptrack_block *block,
			 struct heaptrack_block *was);
bool heaptrack_blocks_take(struct heaptrack_blocks *b, uint64_t address,
			   struct heaptrack_block *block);

#endif
