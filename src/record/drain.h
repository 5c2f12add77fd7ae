/* The drain: raw records of all streams, merged by time up to the watermark,
 * matched (a free finds its block), tallied and written. See drain.c. */
#ifndef HEFT_RECORD_DRAIN_H
#define HEFT_RECORD_DRAIN_H

#include "record/process.h"
#include "record/tsc_clock.h"
#include "tally/tally.h"
#include "trace/trace.h"

struct drain {
	struct trace_writer *writer;
	struct tally tally;
	struct behaviour behaviour;
	struct stack_map stacks;
	struct tsc_clock clock;
	uint32_t thread_count;
	uint64_t last_ns; /* time of the last event: never goes back */
	struct stream **heap;
	uint32_t heap_count, heap_capacity;
	struct trace_batch batch;
	struct reorder_output out; /* the way into batch; failed: stop recording, keep the program going */
	uint64_t event_total;
	bool no_membarrier;
};

void drain_init(struct drain *d, struct trace_writer *writer);
void drain_fini(struct drain *d);
uint64_t drain_now_ns(const struct drain *d);
/* Begins a round: returns its stamp. Whatever was done before it, in any process, is seen by whoever looks
 * from now on: new processes, ends, records. */
uint64_t drain_begin(struct drain *d);
/* One round over all processes, up to the stamp `limit`, which is not after the round's. Processes that
 * have ended (with end_tsc) end in their place among the events. Returns the number of events, so that
 * the caller knows whether to sleep. A process that makes no sense gets `corrupt` set. */
uint64_t drain_round(struct drain *d, struct process **processes, size_t count, uint64_t round,
		     uint64_t limit);
/* p is over, at end_tsc, and nothing more is read of it: what is still live is gone now. */
void drain_process_end(struct drain *d, struct process *p);
void drain_flush(struct drain *d);

/* Time since the start of the recording of a stamp. */
static inline uint64_t drain_stamp_ns(const struct drain *d, uint64_t tsc)
{
	return tsc_clock_time(&d->clock, tsc);
}

/* match.c: reads some of s, which has the oldest record of all, and of `next`, if not NULL the stream with
 * the one after; nothing younger than the stamp `limit`, which is not older than either. HEFT_EFORMAT if
 * what *failed has makes no sense. */
int match_streams(struct drain *d, struct stream *s, struct stream *next, uint64_t limit,
		  struct stream **failed);
/* match_plain.c: the same for ordinary records: 1 if it read any, 0 if there are none, or
 * HEFT_EFORMAT. The batch has room for two. */
int match_plain(struct drain *d, struct stream *s, struct stream *next, uint64_t limit,
		struct stream **failed);

#endif
