/* Inside src/profile: the call stacks of a recording, symbolised and merged. */
#ifndef HEFT_PROFILE_TRACE_STACKS_H
#define HEFT_PROFILE_TRACE_STACKS_H

#include "profile/profile.h"
#include "profile/profile_from_trace.h"
#include "trace/trace.h"

/* Symbolises the nodes whose entry in `wanted` is set (callers of a wanted node must be wanted too)
 * and adds them to the profile. nodes[i] becomes the profile's node for recording node i, calls[i] its
 * call (PROFILE_NONE where calls are not kept). Modules
 * have been added: modules[i] is the profile's module for the recording's module i. With
 * sel->top_only, runtime libraries give only what their symbol tables say. */
int trace_stacks_load(struct profile *p, const struct trace_contents *c, const uint32_t *modules,
		      const bool *wanted, const struct profile_selection *sel, uint32_t *nodes,
		      uint32_t *calls);

#endif
