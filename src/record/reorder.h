/* The blocks of one process, and the calls about them that have to wait. Calls come
 * nearly in order; matched events leave in order. The head of reorder.c has the table
 * of states. The recorder's thread owns it. */
#ifndef HEFT_RECORD_REORDER_H
#define HEFT_RECORD_REORDER_H

#include "record/live_blocks.h"
#include "session/tsc_clock.h"
#include "tally/batch.h"

/* Where events go; one for all processes of a recording */
struct reorder_output {
	struct trace_batch *batch;
	void (*flush)(void *ctx); /* empties the batch when it is full */
	void *ctx;
	const struct tsc_clock *clock;
	int failed; /* HEFT_ENOMEM: a block was lost, and sums are wrong from here on */
};

/* The moment of the call that is being taken */
struct reorder_now {
	struct reorder_output *out;
	uint64_t tsc;
	uint64_t time_ns; /* of its events: of tsc or later, since times never go back */
};

/* One thread of the process; begins zeroed but for its number */
struct reorder_thread {
	uint32_t number;          /* in the recording */
	uint64_t last_addr;       /* of its last allocation or reallocation: finds temporaries */
	struct live_block moving; /* the thread is resizing it; addr 0: none, or one never seen */
};

enum { REORDER_FREES = 16, REORDER_UNUSED = 1024 };

/* fields: one process's blocks, what they sum up to, and the calls that wait; all of it changes with each call */
struct reorder {
	struct live_blocks blocks;
	uint64_t live_bytes, live_blocks;
	uint64_t peak_bytes, peak_blocks, peak_time_ns;
	uint64_t left_bytes, left_blocks; /* what was live when the process ended */
	uint64_t unknown_frees;           /* frees of blocks that were never seen */
	uint64_t inherited_frees;         /* the same in a child: the blocks are its parent's */
	uint64_t older_frees;             /* the same, of what it had before heft was attached */
	uint64_t older_reallocs;          /* reallocs of such blocks: allocations, here */
	uint32_t older_site; /* of blocks that were listed when heft was attached, + 1; or 0 */
	bool is_child;       /* the process was forked */
	bool is_attached;    /* it ran before heft was attached */
	bool is_leaving; /* heft leaves it: calls under way are still recorded, new frees are not */
	bool several_threads;          /* only then calls can be out of order */
	struct reorder_parked *parked; /* allocations that wait, the oldest first */
	uint32_t parked_count, parked_capacity;
	/* Frees that wait, the oldest first */
	struct reorder_free {
		uint64_t addr, tsc;
		uint32_t thread;
		uint32_t free_site; /* TRACE_FREED_AT */
		uint8_t flags;
		bool held; /* its block is live; else the free is early */
	} frees[REORDER_FREES];
	uint32_t free_count;
	uint64_t young_cycles; /* a free of another thread's block is held if that is younger */
	/* What the program said about blocks that grew, by address; one with more unused bytes replaces another */
	struct reorder_unused {
		uint64_t addr, bytes;
	} unused[REORDER_UNUSED];
};

/* HEFT_ENOMEM */
int reorder_init(struct reorder *r);
void reorder_fini(struct reorder *r);

/* One call each. b: the block that the call returned. flags: of its event. */
void reorder_alloc(struct reorder *r, const struct reorder_now *now, struct reorder_thread *t,
		   const struct live_block *b, uint8_t flags);
/* free_site: if flags have TRACE_FREED_AT. */
void reorder_free(struct reorder *r, const struct reorder_now *now, struct reorder_thread *t,
		  uint64_t addr, uint8_t flags, uint32_t free_site);
void reorder_realloc_begin(struct reorder *r, const struct reorder_now *now,
			   struct reorder_thread *t, uint64_t addr);
void reorder_realloc_end(struct reorder *r, const struct reorder_now *now, struct reorder_thread *t,
			 const struct live_block *b, uint8_t flags);
void reorder_realloc_failed(struct reorder *r, const struct reorder_now *now,
			    struct reorder_thread *t);
/* The realloc was realloc(p, 0), and that was a free. */
void reorder_realloc_freed(struct reorder *r, const struct reorder_now *now,
			   struct reorder_thread *t);
/* The program never wrote the last `bytes` of the block at addr. */
void reorder_unused(struct reorder *r, uint64_t addr, uint64_t bytes);

/* Whether any call waits for another one. */
static inline bool reorder_waits(const struct reorder *r)
{
	return r->parked_count || r->free_count;
}
/* After each call while reorder_waits: ends the wait of what has waited for long enough. */
void reorder_expire(struct reorder *r, const struct reorder_now *now);
/* The process has ended; call these three in this order. First nothing waits any longer, and left_bytes is
 * known. */
void reorder_end_waiting(struct reorder *r, const struct reorder_now *now);
/* Then, for each thread: the block that it was resizing is gone. */
void reorder_end_thread(struct reorder *r, const struct reorder_now *now, struct reorder_thread *t);
/* Then every live block is gone. */
void reorder_end_blocks(struct reorder *r, const struct reorder_now *now);

#endif
