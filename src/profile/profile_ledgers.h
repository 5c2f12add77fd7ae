/* Ledgers (hosted/ledger.h) in the model: whose they are, and their sums as measures have them. */
#ifndef HEFT_PROFILE_PROFILE_LEDGERS_H
#define HEFT_PROFILE_PROFILE_LEDGERS_H

#include "hosted/ledger.h"
#include "profile/profile.h"

/* The index of the process that a ledger is of: the last program that its pid was by then. PROFILE_NONE: it is not
 * here. */
uint32_t profile_ledger_process(const struct profile *p, const struct ledger *l);
/* "pool_grow (arena.cc:12)" */
void profile_frame_words(char *text, size_t size, const struct profile_frame *f);
/* Sets who has mapped the memory of the line: the first user frame of the stack that begins at this node. Anonymous memory
 * gets its name from that. 0 or HEFT_ENOMEM. */
int profile_name_mapped(const struct profile *p, uint32_t node, struct ledger_line *line);
/* The same for all lines, whose sites are nodes plus 1: afterwards they are 0, and lines of one name are one line. */
int profile_name_ledgers(struct profile *p);
/* Sets the resident memory of totals and processes: each as in its largest ledger. */
void profile_sum_ledgers(struct profile *p);

#endif
