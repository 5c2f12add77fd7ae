/* Inside src/profile: memory that a recording does not account for. */
#ifndef HEFT_PROFILE_TRACE_UNSEEN_H
#define HEFT_PROFILE_TRACE_UNSEEN_H

#include "profile/trace_load.h"

/* Fills peak_anonymous_bytes, and adds a note for each program of which most is not recorded. */
int trace_load_unseen(struct load *l);

#endif
