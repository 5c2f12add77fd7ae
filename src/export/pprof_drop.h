/* Inside src/export: which frames a reader of pprof should hide. */
#ifndef HEFT_EXPORT_PPROF_DROP_H
#define HEFT_EXPORT_PPROF_DROP_H

#include "profile/profile.h"

/* The expression for drop_frames: after a reader has dropped what matches it, stacks end with their
 * innermost user frame. "" if there is nothing to drop. NULL: no memory, else free() it. */
char *pprof_drop_frames(const struct profile *p);

#endif
