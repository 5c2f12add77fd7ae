/* Reads the table of live samples while the process changes it. An entry counts if its
 * address is the same before and after it was read, and everything in it is checked or
 * bounded: a wild store of the program costs entries, but does not harm the reader. */
#include "agent/sampled_live.h"

#include "hosted/vector.h"
#include "trace/samples_block.h"

#include <stdlib.h>
#include <string.h>

#define SIZE_LIMIT (1ull << 47)
#define RATE_LIMIT (1ull << 47)

unsigned sampled_levels(_Atomic uint32_t *in_use)
{
	uint32_t n = atomic_load_explicit(in_use, memory_order_acquire);
	return n < WIRE_SAMPLE_LEVELS ? n : WIRE_SAMPLE_LEVELS;
}

/* The sample at slot i; false: there is none, or it is changing. */
static bool take(const struct wire_live_level *l, uint32_t i, struct wire_sample *out)
{
	uint64_t addr = atomic_load_explicit(&l->addresses[i], memory_order_acquire);
	if (addr <= WIRE_SAMPLE_BUSY)
		return false;
	memcpy(out, &l->blocks[i], sizeof *out);
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&l->addresses[i], memory_order_relaxed) == addr &&
	       out->size < SIZE_LIMIT && out->rate_bytes && out->rate_bytes < RATE_LIMIT;
}

void sampled_each_live(void *base, sampled_each *each, void *ctx)
{
	struct wire_sample b;
	unsigned n = sampled_levels(&wire_session_at(base).header->sampling.live_levels);
	for (unsigned k = 0; k < n; k++) {
		struct wire_live_level l = wire_live_level(base, k);
		for (uint32_t i = 0; i < 1u << l.bits; i++)
			if (take(&l, i, &b))
				each(ctx, &b);
	}
}

void sample_list_add(void *ctx, const struct wire_sample *b)
{
	struct sample_list *k = ctx;
	k->failed = k->failed || !array_reserve(k->list, k->count, k->capacity, 1);
	if (!k->failed)
		k->list[k->count++] = *b;
}

double sampled_bytes(const struct wire_sample *b)
{
	return (double)b->size / trace_sample_chance(b->size, b->rate_bytes);
}

static void see_birth(void *ctx, const struct wire_sample *b)
{
	uint64_t *newest = ctx;
	if (b->birth_tsc > *newest)
		*newest = b->birth_tsc;
}

uint64_t sampled_newest_tsc(void *base)
{
	uint64_t newest = 0;
	sampled_each_live(base, see_birth, &newest);
	return newest;
}
