/* The calls of one process's threads, put into the order of truth: records come
 * nearly in order, matched events leave in order. reorder.c has the table of
 * states. One thread owns it: the recorder's. */
#ifndef HEFT_RECORD_REORDER_H
#define HEFT_RECORD_REORDER_H

#include "record/live_blocks.h"
#include "record/tsc_clock.h"
#include "tally/batch.h"

struct reorder_output { /* where events go; one for all processes of a recording */
	struct trace_batch *batch;
	void (*flush)(void *ctx); /* the batch is full: empties it */
	void *ctx;
	const struct tsc_clock *clock;
	int failed; /* HEFT_ENOMEM: a block found no place, and sums are wrong from here on */
};

struct reorder_now { /* the record that is being taken */
	struct reorder_output *out;
	uint64_t tsc;
	uint64_t time_ns; /* of its events: that of tsc, or later, since times never go back */
};

struct reorder_thread { /* of each thread; zeroed but for its number */
	uint32_t number;	  /* in the recording */
	uint64_t last_addr;	  /* of its last allocation or reallocation: temporaries */
	struct live_block moving; /* a realloc of it was announced; addr 0: none, or one never seen */
};

enum { REORDER_FREES = 16, REORDER_UNUSED = 64 };

struct reorder {
	struct live_blocks blocks;
	uint64_t live_bytes, live_blocks;
	uint64_t peak_bytes, peak_blocks, peak_time_ns;
	uint64_t left_bytes, left_blocks; /* what was live when the process ended */
	uint64_t unknown_frees;		  /* of blocks that were never seen */
	uint64_t inherited_frees;	  /* the same in a forked child: they are its parent's */
	bool is_child;			  /* forked */
	bool several_threads;		  /* only then can records be out of order */
	/* What waits. */
	struct reorder_parked *parked; /* allocations, the oldest first */
	uint32_t parked_count, parked_capacity;
	struct reorder_free {
		uint64_t addr, tsc;
		uint32_t thread;
		uint32_t free_site; /* TRACE_FREED_AT */
		uint8_t flags;
		bool held; /* its block is live and may be resized first; else there is none yet */
	} frees[REORDER_FREES]; /* the oldest first */
	uint32_t free_count;
	uint64_t young_cycles; /* a free of another thread's block that is younger is held; 0: none is */
	struct reorder_unused { /* what the program said of live blocks that grew; a ring */
		uint64_t addr, bytes;
	} unused[REORDER_UNUSED];
	uint32_t unused_count;
};

/* HEFT_ENOMEM */
int reorder_init(struct reorder *r);
void reorder_fini(struct reorder *r);

/* One record each. b: what the call returned; flags: of the event. */
void reorder_alloc(struct reorder *r, const struct reorder_now *now, struct reorder_thread *t,
		   const struct live_block *b, uint8_t flags);
/* free_site: with TRACE_FREED_AT in flags. */
void reorder_free(struct reorder *r, const struct reorder_now *now, struct reorder_thread *t,
		  uint64_t addr, uint8_t flags, uint32_t free_site);
void reorder_realloc_begin(struct reorder *r, const struct reorder_now *now,
			   struct reorder_thread *t, uint64_t addr);
void reorder_realloc_end(struct reorder *r, const struct reorder_now *now, struct reorder_thread *t,
			 const struct live_block *b, uint8_t flags);
void reorder_realloc_failed(struct reorder *r, const struct reorder_now *now,
			    struct reorder_thread *t);
/* realloc(p, 0) was a free. */
void reorder_realloc_freed(struct reorder *r, const struct reorder_now *now,
			   struct reorder_thread *t);
/* So many bytes at the end of the block at addr were never written. */
void reorder_unused(struct reorder *r, uint64_t addr, uint64_t bytes);

/* Whether any record waits for another one. */
static inline bool reorder_waits(const struct reorder *r)
{
	return r->parked_count || r->free_count;
}
/* After each record while reorder_waits: what has waited for long enough waits no longer. */
void reorder_expire(struct reorder *r, const struct reorder_now *now);
/* The process has ended; the three in this order. Nothing waits any longer, and left_bytes is known; */
void reorder_end_waiting(struct reorder *r, const struct reorder_now *now);
/* for each thread: a realloc that was not completed leaves its block behind; */
void reorder_end_thread(struct reorder *r, const struct reorder_now *now, struct reorder_thread *t);
/* every block that is live is gone. */
void reorder_end_blocks(struct reorder *r, const struct reorder_now *now);

#endif
