/* Inside src/import: what every importer does with its stacks and numbers at the end. */
#ifndef HEFT_IMPORT_IMPORT_SITES_H
#define HEFT_IMPORT_IMPORT_SITES_H

#include "profile/profile.h"

/* profile_add_node within bounds: a small hostile file can name very many frames. HEFT_EFORMAT: too
 * many. */
int import_add_node(struct profile *p, uint32_t parent, uint32_t frame, uint32_t *node);
/* Site of a stack as the input has it: other tools leave the allocator's own innermost frames in their
 * stacks; they are passed over. Counts the stack in `merged`. */
int import_add_site(struct profile *p, uint32_t node, uint32_t labels, uint32_t *site);
/* The same where the allocation function is known and is no frame of the stack. */
int import_add_site_via(struct profile *p, uint32_t node, uint32_t via, uint32_t labels,
			uint32_t *site);
/* After adding a site: this was its stack, from `node` on, as the input has it. The first stack of a
 * site is kept. */
void import_keep_call(struct profile *p, uint32_t site, uint32_t node, uint32_t call);
/* Adds without wrapping round: numbers of hostile files. */
void import_add(uint64_t *sum, uint64_t value);
uint64_t import_rounded(double value); /* within the range */
/* What a line of a sampled profile stands for: `blocks` of `bytes` together, taken with one sample
 * each `rate` bytes on average. A rate of 0 or 1 leaves them as they are. */
void import_unbias(uint64_t rate, uint64_t *blocks, uint64_t *bytes);
/* Totals from the sites, sites in order, and the one process, whose program file is `exe` if the
 * input names it (NULL: not known): the last step. */
int import_finish(struct profile *p, const char *exe);
/* The command as one text, split at blanks. */
int import_set_command(struct profile *p, const char *command, size_t length);

#endif
