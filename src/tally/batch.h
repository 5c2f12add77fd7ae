/* A batch of matched events on its way from the recorder into tally and file.
 *
 * Nearly all events are allocations and plain frees of blocks of ordinary size:
 * they stand in 32 bytes each, so that a batch stays in the first-level cache
 * and every step touches half a line an event. All others (reallocations, huge
 * blocks, blocks that end with their process, frees that carry more) stand in
 * full (event.h) beside it, and the brief one only keeps their place in the order. */
#ifndef HEFT_TALLY_BATCH_H
#define HEFT_TALLY_BATCH_H

#include "base/block_word.h"
#include "tally/event.h"

enum trace_brief_kind {
	TRACE_BRIEF_FULL = 0, /* the event is full[block] */
	TRACE_BRIEF_ALLOC = 1,
	TRACE_BRIEF_FREE = 2,       /* by the thread that allocated the block */
	TRACE_BRIEF_FREE_TEMP = 3,  /* the same, TRACE_TEMPORARY */
	TRACE_BRIEF_FREE_CROSS = 4, /* by another thread */
	/* With ALLOC, if the next event of the batch is the FREE_TEMP of the same block: programs do that
	 * so often that it is worth a shorter way. */
	TRACE_BRIEF_PAIR = 128,
};

enum {
	TRACE_BATCH = 512,
	TRACE_BRIEF_BIRTH_BITS = 24,
};

struct trace_brief {
	uint64_t time_ns;     /* never goes back; of every kind, FULL too */
	uint64_t lifetime_ns; /* FREE: at most time_ns. ALLOC: 0 */
	uint64_t block;       /* base/block_word.h, with a slack that is known */
	uint32_t thread;      /* who did it; of every kind */
	uint32_t birth_kind;  /* birth thread:24 << 8 | TRACE_BRIEF_PAIR or 0 | kind */
};
_Static_assert(sizeof(struct trace_brief) == 32, "half a cache line");

struct trace_batch {
	_Alignas(64) struct trace_brief brief[TRACE_BATCH];
	struct trace_event full[TRACE_BATCH];
	uint32_t count, full_count;
};

static inline uint32_t trace_brief_kind(const struct trace_brief *b)
{
	return b->birth_kind & 0x7f;
}
static inline uint32_t trace_brief_is_pair(const struct trace_brief *b)
{
	return b->birth_kind & TRACE_BRIEF_PAIR;
}
static inline uint32_t trace_brief_birth(const struct trace_brief *b)
{
	return b->birth_kind >> 8;
}
static inline uint32_t trace_brief_site(const struct trace_brief *b)
{
	return block_site(b->block);
}
static inline uint64_t trace_brief_size(const struct trace_brief *b)
{
	return block_size(b->block);
}
static inline uint32_t trace_brief_slack(const struct trace_brief *b)
{
	return block_slack(b->block);
}

/* The batch must have space for it. */
void trace_batch_add(struct trace_batch *batch, const struct trace_event *e);

/* Returns event i in full. */
static inline struct trace_event trace_batch_event(const struct trace_batch *batch, uint32_t i)
{
	const struct trace_brief *b = &batch->brief[i];
	uint32_t kind = trace_brief_kind(b);
	if (kind == TRACE_BRIEF_FULL)
		return batch->full[b->block];
	return (struct trace_event){
		.time_ns = b->time_ns,
		.size = trace_brief_size(b),
		.lifetime_ns = b->lifetime_ns,
		.site = trace_brief_site(b),
		.thread = b->thread,
		.birth_thread = trace_brief_birth(b),
		.slack = trace_brief_slack(b),
		.op = kind == TRACE_BRIEF_ALLOC ? TRACE_ALLOC : TRACE_FREE,
		.flags = kind == TRACE_BRIEF_FREE_TEMP ? TRACE_TEMPORARY : 0,
	};
}

#endif
