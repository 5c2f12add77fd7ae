/* Inside src/profile: what a recording says of itself. */
#ifndef HEFT_PROFILE_TRACE_NOTES_H
#define HEFT_PROFILE_TRACE_NOTES_H

#include "profile/profile.h"
#include "trace/trace.h"

/* Adds the recording's notes, and what its processes lost. Notes that say the same of several
 * processes become one with a count. processes[i] is the profile's process for the recording's i, or
 * PROFILE_NONE: such are left out. */
int trace_notes_load(struct profile *p, const struct trace_contents *c, const uint32_t *processes);

#endif
