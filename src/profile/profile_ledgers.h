/* Ledgers (hosted/ledger.h) in the model: whose they are, and their sums as measures have them. */
#ifndef HEFT_PROFILE_PROFILE_LEDGERS_H
#define HEFT_PROFILE_PROFILE_LEDGERS_H

#include "hosted/ledger.h"
#include "profile/profile.h"

/* The index of the process that a ledger is of: the last program that its pid was by then. PROFILE_NONE: it is not
 * here. */
uint32_t profile_ledger_process(const struct profile *p, const struct ledger *l);
/* Sets the resident memory of totals and processes: each as in its largest ledger. */
void profile_sum_ledgers(struct profile *p);

#endif
