/* Inside src/profile: loads the behaviour of a recording's blocks into the model. */
#ifndef HEFT_PROFILE_TRACE_BEHAVIOUR_H
#define HEFT_PROFILE_TRACE_BEHAVIOUR_H

#include "profile/profile.h"
#include "trace/trace.h"

/* Marks the nodes of freeing stacks that will be shown: those of the recording's sites in `sites`
 * which are handed between threads or were large. */
void trace_behaviour_want(const struct trace_contents *c, const struct tally *tally,
			  const bool *sites, bool *nodes);
/* sites, nodes, threads: the profile's, by the recording's; PROFILE_NONE: not in it. Returns 0 or
 * HEFT_ENOMEM. */
int trace_behaviour_load(struct profile *p, const struct trace_contents *c, const uint32_t *sites,
			 const uint32_t *nodes, const uint32_t *threads);
/* The same for one process of several: `own` is its behaviour; own_sites has the profile's sites by the
 * numbers in it. Who frees, and what was unused in arrays, comes from the whole recording. */
int trace_behaviour_load_own(struct profile *p, const struct trace_contents *c,
			     const struct behaviour *own, const uint32_t *own_sites,
			     const uint32_t *sites, const uint32_t *nodes, const uint32_t *threads);

#endif
