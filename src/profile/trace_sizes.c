/* Allocations by size. Numbers at the peak work as in a tally: a new maximum begins an
 * epoch, and a class saves its live numbers when it first changes in a new epoch. */
#include "profile/trace_sizes.h"

#include <stdlib.h>
#include <string.h>

unsigned trace_size_class(uint64_t size)
{
	if (size <= 1024)
		return (unsigned)size;
	/* [2^k, 2^(k+1)) in eighths, from 1025 on: k = 10 begins with 1025, not 1024. */
	unsigned k = 63u - (unsigned)__builtin_clzll(size);
	return 1025 + (k - 10) * 8 + (unsigned)(size >> (k - 3) & 7);
}

void trace_size_bounds(unsigned index, uint64_t *low, uint64_t *high)
{
	if (index <= 1024) {
		*low = *high = index;
		return;
	}
	unsigned k = 10 + (index - 1025) / 8, eighth = (index - 1025) % 8;
	*low = (1ull << k) + ((uint64_t)eighth << (k - 3));
	*high = *low + ((1ull << (k - 3)) - 1);
	if (index == 1025)
		*low = 1025;
}

static struct trace_size_count *class_of(struct trace_sizes *s, uint64_t size)
{
	struct trace_size_count *c = &s->classes[trace_size_class(size)];
	if (c->peak_epoch != s->peak_epoch) {
		c->peak_epoch = s->peak_epoch;
		c->size.peak_blocks = c->size.live_blocks;
		c->size.peak_bytes = c->size.live_bytes;
		c->size.peak_slack_bytes = c->live_slack;
	}
	return c;
}

static void made(struct trace_sizes *s, uint64_t size, uint32_t slack, bool counted)
{
	struct trace_size_count *c = class_of(s, size);
	c->size.live_blocks++;
	c->size.live_bytes += size;
	c->live_slack += slack;
	s->live_bytes += size;
	if (counted) {
		c->size.allocations++;
		c->size.allocated_bytes += size;
		c->size.slack_bytes += slack;
	}
}

static void ended(struct trace_sizes *s, uint64_t size, uint32_t slack)
{
	struct trace_size_count *c = class_of(s, size);
	c->size.live_blocks--;
	c->size.live_bytes -= size;
	c->live_slack -= slack;
	s->live_bytes -= size;
}

void trace_sizes_apply(struct trace_sizes *s, const struct trace_event *e, bool counted, bool last)
{
	switch ((enum trace_op)e->op) {
	case TRACE_ALLOC: made(s, e->size, e->slack, counted); break;
	case TRACE_FREE: ended(s, e->size, e->slack); break;
	case TRACE_REALLOC:
		ended(s, e->old_size, e->old_slack);
		made(s, e->size, e->slack, counted);
		break;
	case TRACE_GONE: { /* live at its end; no part of later peaks */
		struct trace_size_count *c = class_of(s, e->size);
		ended(s, e->size, e->slack);
		if (counted) {
			c->size.left_blocks++;
			c->size.left_bytes += e->size;
		}
		if (counted && last) {
			c->end_blocks++;
			c->end_bytes += e->size;
		}
		break;
	}
	}
	if (s->live_bytes > s->peak_bytes) {
		s->peak_bytes = s->live_bytes;
		s->peak_epoch++;
	}
}

void trace_sizes_begin(struct trace_sizes *s)
{
	s->peak_bytes = s->live_bytes;
	s->peak_epoch++;
}

int trace_sizes_load(struct trace_sizes *s, struct profile *p)
{
	p->behaviour.sizes = malloc(TRACE_SIZE_CLASSES * sizeof *p->behaviour.sizes);
	if (!p->behaviour.sizes)
		return HEFT_ENOMEM;
	for (unsigned i = 0; i < TRACE_SIZE_CLASSES; i++) {
		uint64_t low, high;
		trace_size_bounds(i, &low, &high);
		const struct trace_size_count *c = class_of(s, low);
		struct profile_size size = c->size;
		size.left_blocks += size.live_blocks;
		size.left_bytes += size.live_bytes;
		size.live_blocks += c->end_blocks;
		size.live_bytes += c->end_bytes;
		if (!size.allocations && !size.peak_blocks && !size.left_blocks)
			continue;
		size.low_bytes = low;
		size.high_bytes = high;
		p->behaviour.sizes[p->behaviour.size_count++] = size;
	}
	return 0;
}
