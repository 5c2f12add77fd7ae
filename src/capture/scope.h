/* Where the loader would find a symbol for a library with RTLD_DEEPBIND: scope.c. */
#ifndef HEFT_CAPTURE_SCOPE_H
#define HEFT_CAPTURE_SCOPE_H

#include "capture/object.h"

/* Whether `owner` is the first object that defines the name, whichever object the library was loaded for.
 * `first` begins the list of objects; up to `last_at_start` nothing was loaded with RTLD_DEEPBIND. Call
 * this only in a thread that is inside dlopen, so that the list does not change. 0 also if the answer is
 * not known. */
HIDDEN int heft_scope_leads_to(const struct link_map *library, const char *name,
			       const struct link_map *owner, const struct link_map *first,
			       const struct link_map *last_at_start);

#endif
