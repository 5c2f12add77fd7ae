/* Puts events into a batch, in brief where they fit (see batch.h). The recorder's
 * hottest loop writes its brief events itself (record/match_plain.c). */
#include "tally/batch.h"

static int fits_brief(const struct trace_event *e)
{
	unsigned flags = e->op == TRACE_FREE && e->birth_thread == e->thread ? TRACE_TEMPORARY : 0;
	return (e->op == TRACE_ALLOC || e->op == TRACE_FREE) && !(e->flags & ~flags) &&
	       block_fits(e->site, e->size, e->slack) &&
	       e->birth_thread >> TRACE_BRIEF_BIRTH_BITS == 0 && e->lifetime_ns <= e->time_ns;
}

static enum trace_brief_kind kind_of(const struct trace_event *e)
{
	if (e->op == TRACE_ALLOC)
		return TRACE_BRIEF_ALLOC;
	if (e->birth_thread != e->thread)
		return TRACE_BRIEF_FREE_CROSS;
	return e->flags & TRACE_TEMPORARY ? TRACE_BRIEF_FREE_TEMP : TRACE_BRIEF_FREE;
}

void trace_batch_add(struct trace_batch *batch, const struct trace_event *e)
{
	struct trace_brief *b = &batch->brief[batch->count++];
	*b = (struct trace_brief){.time_ns = e->time_ns, .thread = e->thread};
	if (!fits_brief(e)) {
		b->block = batch->full_count;
		batch->full[batch->full_count++] = *e;
		return;
	}
	b->lifetime_ns = e->lifetime_ns;
	b->block = block_word(e->site, e->size, e->slack);
	b->birth_kind = e->birth_thread << 8 | kind_of(e);
}
