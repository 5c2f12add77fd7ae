/* A profile as text for people (debug=1), and names for the addresses in it. */
#ifndef HEFT_PPROF_PPROF_TEXT_H
#define HEFT_PPROF_PPROF_TEXT_H

#include "profile/measure.h"

#include <stdio.h>

/* Go's legacy text of a heap profile, largest first: by live bytes, or by all that was allocated.
 * 0 or HEFT_ENOMEM; errors of the stream latch there. */
int pprof_write_text(FILE *out, const struct profile *p, bool allocated);
/* A foreign name, with what does not show spelt out. */
void pprof_write_name(FILE *out, const char *name);
/* What /debug/pprof/symbol answers: for each address in `asked` ("0x1+0x2") that the profile knows,
 * a line with its name. 0 or HEFT_ENOMEM. */
int pprof_write_symbols(FILE *out, const struct profile *p, const char *asked);

#endif
