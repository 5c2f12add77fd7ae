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
/* Keeps its state in p->sampled if it never had that much. Costs a look at every live sample. */
void sampled_see_peak(struct drain *d, struct process *p);
/* Writes down what it has, and what it had at its peak. */
void sampled_write(struct drain *d, struct process *p);

#endif
