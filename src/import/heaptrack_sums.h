/* Inside src/import: what a stream of allocations and frees adds up to, per trace, in one pass. */
#ifndef HEFT_IMPORT_HEAPTRACK_SUMS_H
#define HEFT_IMPORT_HEAPTRACK_SUMS_H

#include "import/heaptrack_blocks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heaptrack_sum {
	uint64_t blocks, bytes; /* allocated since the start */
	uint64_t live_blocks, live_bytes;
	uint64_t peak_blocks, peak_bytes; /* at the peak that `epoch` numbers */
	uint64_t own_peak_bytes;
	uint64_t temporary;
	uint64_t lifetime_ms; /* sum; raw files only */
	uint32_t epoch;
	uint32_t longest_ms;
};

struct heaptrack_sums {
	struct heaptrack_sum *traces; /* [0]: no trace */
	uint32_t count, capacity;
	uint64_t live_bytes, peak_bytes;
	uint32_t epoch; /* number of the greatest peak so far */
	uint32_t now_ms, peak_ms;
};

/* Called before a trace changes. If it has not changed since the peak, its numbers are still those of the
 * peak, and are kept: so no peak needs a walk over all traces. */
static inline void heaptrack_sum_keep(struct heaptrack_sums *s, struct heaptrack_sum *t)
{
	if (t->epoch != s->epoch) {
		t->epoch = s->epoch;
		t->peak_blocks = t->live_blocks;
		t->peak_bytes = t->live_bytes;
	}
}

/* Makes the peak numbers of every trace those of the greatest peak, and starts epochs anew. */
static inline void heaptrack_sums_finish(struct heaptrack_sums *s)
{
	for (uint32_t i = 0; i < s->count; i++) {
		heaptrack_sum_keep(s, &s->traces[i]);
		s->traces[i].epoch = 0;
	}
	s->epoch = 0;
}

static inline void heaptrack_sums_allocate(struct heaptrack_sums *s, uint32_t trace, uint64_t size)
{
	struct heaptrack_sum *t = &s->traces[trace];
	heaptrack_sum_keep(s, t);
	t->blocks++;
	t->bytes += size;
	t->live_blocks++;
	t->live_bytes += size;
	if (t->live_bytes > t->own_peak_bytes)
		t->own_peak_bytes = t->live_bytes;
	s->live_bytes += size;
	if (s->live_bytes > s->peak_bytes) {
		s->peak_bytes = s->live_bytes;
		s->peak_ms = s->now_ms;
		if (++s->epoch == UINT32_MAX)
			heaptrack_sums_finish(s);
	}
}

/* False: nothing of this trace is live. */
static inline bool heaptrack_sums_free(struct heaptrack_sums *s, uint32_t trace, uint64_t size,
				       bool temporary)
{
	struct heaptrack_sum *t = &s->traces[trace];
	if (!t->live_blocks || t->live_bytes < size)
		return false;
	heaptrack_sum_keep(s, t);
	t->live_blocks--;
	t->live_bytes -= size;
	t->temporary += temporary;
	s->live_bytes -= size;
	return true;
}

/* The life of a block ends now. */
static inline void heaptrack_sums_add_life(struct heaptrack_sums *s,
					   const struct heaptrack_block *b)
{
	struct heaptrack_sum *t = &s->traces[b->trace];
	uint32_t ms = s->now_ms - b->birth_ms;
	t->lifetime_ms += ms;
	if (ms > t->longest_ms)
		t->longest_ms = ms;
}

#endif
