/* Valgrind's client requests for memory pools, recorded as heft.h's pools: mempools.c. */
#ifndef HEFT_CAPTURE_MEMPOOLS_H
#define HEFT_CAPTURE_MEMPOOLS_H

#include "capture/object.h"

/* Called once, at start, if the settings ask for it: looks through all loaded objects. */
HIDDEN void heft_mempools_start(void);
/* The same for a library that is being loaded: it is relocated, and none of its code has run. */
HIDDEN void heft_mempools_loaded(const struct heft_object *o);

#endif
