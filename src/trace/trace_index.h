/* Where a recording's blocks are: collected by the writer, stored in the index
 * block, rebuilt by a scan when that is missing. */
#ifndef HEFT_TRACE_TRACE_INDEX_H
#define HEFT_TRACE_TRACE_INDEX_H

#include "trace/byte_buffer.h"
#include "trace/trace_block.h"

#include <stdbool.h>

struct trace_index_entry {
	uint64_t offset, first_ns, last_ns, count;
	uint32_t type; /* enum trace_block_type */
};

struct trace_index {
	struct trace_index_entry *entries;
	size_t count, capacity;
};

/* Adds the block at an offset; false: no memory. */
bool trace_index_add(struct trace_index *x, uint64_t offset, const struct trace_block_header *h);
void trace_index_fini(struct trace_index *x);
void trace_index_put(struct byte_buffer *b, const struct trace_index *x);
/* Offsets must rise and stay below limit. NULL, or what was expected. */
const char *trace_index_get(struct byte_cursor *c, struct trace_index *x, uint64_t count,
			    uint64_t limit);

#endif
