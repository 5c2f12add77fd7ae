/* The matched event: what the recorder makes of the raw records of a program,
 * what the file stores, and what a tally adds up. A free already knows its
 * block's site, size and birth, so no reader ever needs an address or a live
 * table. Ids are dense indices into the recording's tables (trace.h). */
#ifndef HEFT_TALLY_EVENT_H
#define HEFT_TALLY_EVENT_H

#include <stdint.h>

enum trace_op {
	TRACE_ALLOC = 0,
	TRACE_FREE = 1,
	TRACE_REALLOC =
		2,      /* the block moves from old_site/old_size to site/size, keeps its birth */
	TRACE_GONE = 3, /* never freed: its process (or the recording) ended; one event a block */
};

enum trace_event_flag {
	TRACE_TEMPORARY = 1,     /* FREE: by the allocating thread before its next allocation */
	TRACE_SLACK_UNKNOWN = 2, /* the usable size is not known; slack is 0 */
	/* The recorder's own: files do not keep them, nor the fields that they announce. */
	TRACE_MOVED = 4,     /* REALLOC: to another address */
	TRACE_COPIED = 8,    /* REALLOC: MOVED, and not by moving its pages */
	TRACE_GROWN = 16,    /* FREE, GONE: of a block sized by a realloc */
	TRACE_FREED_AT = 32, /* FREE: free_site is known */
	TRACE_MEASURED = 64, /* FREE, GONE: unused_bytes is known */
};
/* Those that files keep; those that behaviour reads */
enum {
	TRACE_KEPT_FLAGS = 3,
	TRACE_BEHAVIOUR_FLAGS = TRACE_GROWN | TRACE_FREED_AT | TRACE_MEASURED
};

struct trace_event {
	uint64_t time_ns;     /* since the start of the recording; never goes back */
	uint64_t size;        /* requested bytes: of the new block, or of the block that ends */
	uint64_t lifetime_ns; /* FREE, GONE: since birth. else 0 */
	union { /* op says which. The hot loops copy events, so an event stays small */
		uint64_t old_size; /* REALLOC: what the block had before */
		/* FREE, GONE with TRACE_MEASURED: at its end, never written. */
		uint64_t unused_bytes;
	};
	uint32_t site; /* of the block (REALLOC: its new site) */
	union {
		uint32_t old_site;  /* REALLOC */
		uint32_t free_site; /* FREE with TRACE_FREED_AT: where it was freed */
	};
	uint32_t thread;       /* who did it (GONE: who allocated it) */
	uint32_t birth_thread; /* FREE, REALLOC, GONE: who allocated it. ALLOC: == thread */
	uint32_t slack;        /* usable - size of the block named by site/size */
	uint32_t old_slack;    /* REALLOC */
	uint8_t op;            /* enum trace_op */
	uint8_t flags;         /* enum trace_event_flag */
};

#endif
