/* Behaviour as the payload of a block, beside the tally that it belongs to. */
#ifndef HEFT_TRACE_BEHAVIOUR_BLOCK_H
#define HEFT_TRACE_BEHAVIOUR_BLOCK_H

#include "tally/tally.h"
#include "trace/byte_buffer.h"

/* Leaves out the rows of sites that did not stay notable. */
void behaviour_put(struct byte_buffer *out, const struct behaviour *b, const struct tally *t);
/* Reads into an initialised one. NULL, or what was expected. */
const char *behaviour_get(struct byte_cursor *c, struct behaviour *b, uint32_t site_limit,
			  uint32_t thread_limit);

#endif
