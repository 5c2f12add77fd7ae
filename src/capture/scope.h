/* Where the loader would find a symbol for a library with RTLD_DEEPBIND: scope.c. */
#ifndef HEFT_CAPTURE_SCOPE_H
#define HEFT_CAPTURE_SCOPE_H

#include "capture/object.h"

/* Whether `owner` comes first of all that define the name, whoever the library was loaded for. `first`:
 * of the list of objects; `last_at_start`: up to there nothing was loaded with RTLD_DEEPBIND. Only in
 * a thread that is inside dlopen, so that the list stays as it is. 0 also if it cannot be told. */
HIDDEN int heft_scope_leads_to(const struct link_map *library, const char *name,
			       const struct link_map *owner, const struct link_map *first,
			       const struct link_map *last_at_start);

#endif
