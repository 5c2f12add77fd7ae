/* A tally as the payload of checkpoint and tally blocks. A large one is spread
 * over several blocks ("parts"), each with its range of sites and threads. */
#ifndef HEFT_TRACE_TALLY_BLOCK_H
#define HEFT_TRACE_TALLY_BLOCK_H

#include "trace/byte_buffer.h"
#include "tally/tally.h"

uint32_t tally_block_parts(const struct tally *t);
/* Appends part `part` of a tally whose peaks are up to date. */
void tally_block_put(struct byte_buffer *b, const struct tally *t, uint32_t part);
/* Reads the next part into t, which was initialised before the first; ids must stay below the
 * limits. NULL, or what was expected. *left is how many parts must follow. */
const char *tally_block_get(struct byte_cursor *c, struct tally *t, uint32_t site_limit,
			    uint32_t thread_limit, uint32_t *left);
/* Whether two tallies of the same events agree, peaks up to date, one of them from events whose times were
 * rounded down to ticks: lifetimes and the peak's time may differ by that. NULL, or what differs
 * (in a static buffer of the caller's thread). */
const char *tally_block_difference(const struct tally *exact, const struct tally *rounded,
				   uint64_t tick_ns);

#endif
