/* A process of a recorder: what the drain, the matcher and the recorder's loop keep about it beside what
 * anybody does (process.h). The recorder's thread owns it. */
#ifndef HEFT_RECORD_RECORDED_PROCESS_H
#define HEFT_RECORD_RECORDED_PROCESS_H

#include "record/reorder.h"
#include "record/stream_reader.h"
#include "session/own_new.h"
#include "session/process.h"
#include "tally/mapped_memory.h"

/* Exact: the operators new of the program itself, and what they have mapped (drain_mapping.c) */
struct recorded_new {
	bool looked, judged;
	struct own_new program;
	uint64_t mapped_bytes;
};

struct recorded_process {
	struct process process; /* first, so that one is the other */
	struct reorder reorder; /* exact: its blocks, and the calls that wait */
	bool direct;            /* the command itself */
	uint64_t first_tsc;     /* start of its first image: exec made others of it */
	bool maps_file;         /* attached: it was seen to have its session file mapped */

	/* How it ends (recorder_ends.c) */
	bool watched;            /* its death sets gone_tsc */
	bool gone;               /* the process is gone; its next image may be on its way */
	bool done;               /* all records were read: its blocks are gone */
	bool losses_counted;     /* when it was switched off: later calls are not losses */
	uint64_t alive_tsc;      /* it ran after this stamp */
	uint64_t gone_tsc;       /* it was gone before this one; 0: it still runs */
	struct stream ending;    /* stands for the end in the drain's heap */
	uint32_t children_seen;  /* forked ones that have come */
	uint32_t reaps_seen;     /* entries of its header that were read */
	uint32_t reap_waits;     /* looks at an entry that was not written yet */
	uint64_t reaps_lost_tsc; /* entries before this stamp are missing; 0: none is */

	struct trace_anonymous written; /* what the recording has */
	struct mapped_memory *mapped;   /* exact: what its calls have mapped; NULL: nothing */
	struct recorded_new own_new;
	/* Ledgers (recorder_ledgers.c) */
	struct recorded_ledgers {
		bool refused;                   /* the recording says why there is none */
		uint64_t asked_ns;              /* since when it waits; 0: it does not */
		uint64_t spent_ns;              /* on ledgers */
		uint64_t live_bytes, rss_bytes; /* at the last one */
		uint64_t own_bytes;             /* of these in no file and not shared */
		uint64_t due_ns;                /* of the next one by the clock */
		uint32_t taken;                 /* or tried */
		uint32_t answered;              /* the last look that was wanted and taken */
		bool armed;                     /* it watches for the end of a peak */
	} ledgers;
};

/* Every process of a recorder was opened by recorded_process_open. */
static inline struct recorded_process *recorded(const struct process *p)
{
	_Static_assert(offsetof(struct recorded_process, process) == 0, "one is the other");
	return (struct recorded_process *)(void *)(uintptr_t)p;
}

/* The process whose stream it is. */
static inline struct recorded_process *stream_process(const struct stream *s)
{
	return (struct recorded_process *)(void *)((char *)s->view -
						   offsetof(struct recorded_process, process.view));
}

/* process_open for a recorder */
int recorded_process_open(struct process **out, int dirfd, const char *name,
			  struct heft_error *err);

#endif
