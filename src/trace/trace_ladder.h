/* Tallies along a recording, kept in memory, so that any moment is near one. The file's own
 * checkpoints are seconds apart, which is many million events of a busy program: whoever asks for
 * many moments (a page with a timeline) lays a ladder once and climbs from the nearest rung. */
#ifndef HEFT_TRACE_TRACE_LADDER_H
#define HEFT_TRACE_TRACE_LADDER_H

#include "trace/trace.h"

#include <stdatomic.h>

struct trace_ladder;

/* For a recording with these contents, rungs at least so many events apart. NULL: no memory, or no
 * rung is needed. */
struct trace_ladder *trace_ladder_new(const struct trace_contents *c, size_t most_bytes,
				      uint64_t least_events);
void trace_ladder_free(struct trace_ladder *l);
/* Lays the rungs in one walk over the events, with a reader of its own: others may use the ladder
 * meanwhile. Returns early, with 0, when *stop becomes true. */
int trace_ladder_lay(struct trace_ladder *l, struct trace_reader *own, const atomic_bool *stop,
		     struct heft_error *err);
/* As trace_reader_tally_before, but starts at the nearest rung. May wait for trace_ladder_lay, which another thread
 * has to call. Only one caller at a time may use a reader. */
int trace_ladder_before(struct trace_ladder *l, struct trace_reader *r, uint64_t before_ns,
			struct tally *t, struct heft_error *err);

#endif
