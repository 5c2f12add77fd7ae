/* Libraries whose calls do not come to us by themselves (RTLD_DEEPBIND): redirect.c. */
#ifndef HEFT_CAPTURE_REDIRECT_H
#define HEFT_CAPTURE_REDIRECT_H

#include "capture/object.h"

/* Called once, at start. next_malloc: what our malloc calls; in_libc: any function of libc. Returns whether
 * an object that comes before ours defines malloc itself. */
HIDDEN int heft_redirect_init(const void *next_malloc, const void *in_libc);
/* Redirects the slots of a library that was first seen on a call stack; the outside gets a count of them.
 * work: HEFT_WORK_BYTES; without it nothing is redirected. */
HIDDEN void heft_redirect_late(const struct heft_object *o, char *work);

#endif
