/* The drain takes the records of all streams, merges them by time up to the watermark, matches
 * them (a free finds its block), adds them up and writes them. See drain.c. */
#ifndef HEFT_RECORD_DRAIN_H
#define HEFT_RECORD_DRAIN_H

#include "record/recorded_process.h"
#include "session/tsc_clock.h"
#include "tally/tally.h"
#include "trace/trace.h"

struct drain {
	struct trace_writer *writer;
	struct tally tally;
	struct behaviour behaviour;
	struct stack_map stacks;
	struct tsc_clock clock;
	uint32_t thread_count;
	uint64_t last_ns;     /* time of the last event: never goes back */
	struct stream **heap; /* of this round, by next_tsc */
	uint32_t heap_count, heap_capacity;
	struct trace_batch batch;
	/* Fills batch. failed: the recording ends, the program goes on. */
	struct reorder_output out;
	uint64_t event_total;
	uint32_t moving;    /* streams with a followed block that is being resized */
	uint64_t watermark; /* of the last round: everything up to this stamp was read */
	bool no_membarrier;
	bool keeps_mapped; /* what processes have mapped is asked for (recorded_process.mapped) */
	_Atomic uint64_t steps; /* of work done: the heartbeat looks at it */
};

void drain_init(struct drain *d, struct trace_writer *writer);
void drain_fini(struct drain *d);
uint64_t drain_now_ns(const struct drain *d);
/* Begins a round and returns its stamp. Who looks after this sees everything that any process did before
 * the stamp: new processes, ends, records. */
uint64_t drain_begin(struct drain *d);
/* One round over all processes, up to the stamp `limit`, which is not after the round's. A process that
 * has ended (with end_tsc) ends in its place among the events. A file that makes no sense becomes
 * corrupt. Returns the number of events, so that the caller knows whether to sleep. */
uint64_t drain_round(struct drain *d, struct process **processes, size_t count, uint64_t round,
		     uint64_t limit);
/* p ended at end_tsc, and no more is read of it: its live blocks are gone now. */
void drain_process_end(struct drain *d, struct process *p);
/* Adds up and writes the events that are in the batch. */
void drain_flush(struct drain *d);

/* drain_mapping.c: writes a call that maps memory, which s stands at. HEFT_EFORMAT: it makes no sense. */
int drain_mapping(struct drain *d, struct recorded_process *p, struct stream *s,
		  const struct stream_record *rec);
/* Whether the program's own operator new is among the callers of a site. */
bool drain_site_is_in_new(const struct drain *d, const struct recorded_process *p, uint32_t site);

/* drain_remark.c: the same for what the program says. */
int drain_remark(struct drain *d, struct recorded_process *p, struct stream *s,
		 const struct stream_record *rec);

/* Something was done: programs that wait for the drain do so with reason. */
static inline void drain_step(struct drain *d)
{
	atomic_store_explicit(&d->steps, atomic_load_explicit(&d->steps, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

/* The time of a stamp, since the start of the recording. */
static inline uint64_t drain_stamp_ns(const struct drain *d, uint64_t tsc)
{
	return tsc_clock_time(&d->clock, tsc);
}

/* match.c: reads records of s, which has the oldest one of all, and of `next`, which has the second (NULL:
 * none may be read). Reads none that is younger than the stamp `limit`; both streams have older ones.
 * HEFT_EFORMAT if the stream *failed makes no sense. */
int match_streams(struct drain *d, struct stream *s, struct stream *next, uint64_t limit,
		  struct stream **failed);
/* match_plain.c: the same for ordinary records. Returns 1 if it read any, 0 if the first is none, or
 * HEFT_EFORMAT. Two events must fit into the batch. */
int match_plain(struct drain *d, struct stream *s, struct stream *next, uint64_t limit,
		struct stream **failed);

#endif
