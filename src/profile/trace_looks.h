/* Inside src/profile: what looks at the heaps of processes told, into the model. */
#ifndef HEFT_PROFILE_TRACE_LOOKS_H
#define HEFT_PROFILE_TRACE_LOOKS_H

#include "profile/trace_load.h"

/* final: by the recording's sites, or by those of l->split: the profile's. 0 or HEFT_ENOMEM. */
int trace_looks_sites(struct load *l, const uint32_t *final);
/* Sums of all sites, also of those that the profile leaves out. Call it when all other totals are there. */
int trace_looks_totals(struct load *l);
/* The same of each process, when their other totals are there. */
int trace_looks_processes(struct load *l);

#endif
