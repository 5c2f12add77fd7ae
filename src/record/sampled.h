/* Reading what a sampled process keeps of itself (wire/samples.h). */
#ifndef HEFT_RECORD_SAMPLED_H
#define HEFT_RECORD_SAMPLED_H

#include "record/drain.h"
#include "trace/samples_block.h"

/* Is it one? */
static inline bool process_is_sampled(const struct process *p)
{
	return p->session.header->mode == WIRE_SAMPLED;
}
/* Estimated live bytes, at the cost of a look at every live sample. */
double sampled_live_bytes(const struct process *p);
/* Everything, into a zeroed struct. What makes no sense is left out. 0 or HEFT_ENOMEM. */
int sampled_collect(struct drain *d, struct process *p, struct trace_samples *out);

#endif
