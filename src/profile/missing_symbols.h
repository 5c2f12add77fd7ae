/* Inside src/profile: saying what would make the names better. */
#ifndef HEFT_PROFILE_MISSING_SYMBOLS_H
#define HEFT_PROFILE_MISSING_SYMBOLS_H

#include "profile/profile.h"

/* Adds at most one note about each kind of lack: modules that matter and have no debug information,
 * and debug information that is partly elsewhere. Call when sites and totals are there. Returns 0
 * or HEFT_ENOMEM. */
int missing_symbols_note(struct profile *p);

#endif
