/* Inside src/profile: what a recording knows of its blocks' behaviour, into the model. */
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
/* The same of one process among several: `own` is its behaviour by numbers of sites that `own_sites`
 * leads to the profile's. Who frees, and what was unused in arrays, the recording tells of all. */
int trace_behaviour_load_own(struct profile *p, const struct trace_contents *c,
			     const struct behaviour *own, const uint32_t *own_sites,
			     const uint32_t *sites, const uint32_t *nodes, const uint32_t *threads);

#endif
