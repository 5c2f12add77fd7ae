/* Inside src/pprof, and for who makes profiles: a profile, or the difference of two, in the forms that are served. */
#ifndef HEFT_PPROF_PROFILE_FORMS_H
#define HEFT_PPROF_PROFILE_FORMS_H

#include "pprof/source.h"

/* *bytes is the caller's to free(); it ends with a NUL that *length does not count. wish->before is a struct profile,
 * or NULL. */
int profile_render(const struct profile *p, const struct source_wish *wish, char **bytes,
		   size_t *length, struct heft_error *err);

#endif
