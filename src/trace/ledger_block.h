/* A ledger as a block of a recording. */
#ifndef HEFT_TRACE_LEDGER_BLOCK_H
#define HEFT_TRACE_LEDGER_BLOCK_H

#include "hosted/ledger.h"
#include "trace/byte_buffer.h"

void ledger_block_put(struct byte_buffer *b, const struct ledger *l, uint32_t process);
/* Fills an empty ledger but for its pid. NULL, or what was expected; the ledger needs a fini in any case. */
const char *ledger_block_get(struct ledger *l, uint32_t *process, struct byte_cursor *c);

#endif
