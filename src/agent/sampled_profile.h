/* From a sampled process to the model. */
#ifndef HEFT_AGENT_SAMPLED_PROFILE_H
#define HEFT_AGENT_SAMPLED_PROFILE_H

#include "profile/profile_from_trace.h"
#include "session/process.h"

/* What it has now, or had when it ended. sel may be NULL. Several threads may ask about the same process. */
int sampled_profile(struct profile **out, struct process *p, const struct profile_selection *sel,
		    struct heft_error *err);

#endif
