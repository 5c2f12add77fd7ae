/* MAPPINGS blocks: calls that map memory, as a file has them (docs/trace-format.md). */
#ifndef HEFT_TRACE_MAPPINGS_BLOCK_H
#define HEFT_TRACE_MAPPINGS_BLOCK_H

#include "tally/mapping.h"
#include "trace/byte_buffer.h"

/* What a call is written relative to: the one before it in the block; zero at its start */
struct mappings_base {
	uint64_t time_ns, address;
};

void mappings_put(struct byte_buffer *b, struct mappings_base *base, const struct trace_mapping *m);
/* NULL, or what was expected. */
const char *mappings_get(struct byte_cursor *c, struct mappings_base *base, struct trace_mapping *m,
			 uint32_t site_limit, uint32_t thread_limit);

#endif
