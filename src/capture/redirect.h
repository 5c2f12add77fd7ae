/* Libraries that do not call us by themselves (RTLD_DEEPBIND): redirect.c. */
#ifndef HEFT_CAPTURE_REDIRECT_H
#define HEFT_CAPTURE_REDIRECT_H

#include "capture/object.h"

/* At start, once; next_malloc: what our malloc calls, in_libc: any function there. Returns whether an
 * object that comes before us defines malloc itself. */
HIDDEN int heft_redirect_init(const void *next_malloc, const void *in_libc);
/* Returns how many slots were redirected. late: its code has run already. */
HIDDEN unsigned heft_redirect(const struct heft_object *o, int late);
/* The same of one that was first seen on a call stack; counted for the outside. */
HIDDEN void heft_redirect_late(const struct heft_object *o);

#endif
