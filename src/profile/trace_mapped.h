/* Calls that map memory, in the order of time: those that were recorded, and those that glibc's malloc must have made
 * for its large blocks. */
#ifndef HEFT_PROFILE_TRACE_MAPPED_H
#define HEFT_PROFILE_TRACE_MAPPED_H

#include "trace/trace.h"

/* A negative return from each() ends the walk and is returned. */
int trace_mapped_each(struct trace_reader *r, trace_mapping_fn *each, void *ctx,
		      struct heft_error *err);

#endif
