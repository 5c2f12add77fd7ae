/* What a look at a heap told (hosted/heap_look.h) as a block of a recording. */
#ifndef HEFT_TRACE_HEAP_BLOCK_H
#define HEFT_TRACE_HEAP_BLOCK_H

#include "hosted/heap_look.h"
#include "trace/byte_buffer.h"

void heap_block_put(struct byte_buffer *b, const struct heap_look *l, uint32_t process);
/* Fills an empty look but for its pid; sites are below site_count. NULL, or what was expected; the look needs a fini in
 * any case. */
const char *heap_block_get(struct heap_look *l, uint32_t *process, uint32_t site_count,
			   struct byte_cursor *c);

#endif
