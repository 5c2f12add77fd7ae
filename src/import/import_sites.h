/* Inside src/import: what every importer does with its stacks and numbers at the end. */
#ifndef HEFT_IMPORT_IMPORT_SITES_H
#define HEFT_IMPORT_IMPORT_SITES_H

#include "profile/profile.h"

/* The numbers of one stack of the input; 0: it has none. */
struct import_measures {
	uint64_t allocations, allocated_bytes, frees, temporary;
	uint64_t live_blocks, live_bytes, peak_blocks, peak_bytes, own_peak_bytes;
	uint64_t lifetime_max_ns;
	double lifetime_sum_ns; /* over `allocations` */
};

/* profile_add_node within bounds: a small hostile file can name very many frames. HEFT_EFORMAT: too
 * many. */
int import_add_node(struct profile *p, uint32_t parent, uint32_t frame, uint32_t *node);
/* The name of a place whose function is not known: "module+0x1f3a". NULL: no memory. */
const char *import_place_name(struct profile *p, uint32_t module, uint64_t address);
/* Adds a stack and its numbers. Other tools leave frames of the allocator in their stacks: the innermost
 * ones are skipped. `call` gives the addresses of the stack, from `node` on; the first stack of a site is
 * kept. */
int import_add_stack(struct profile *p, uint32_t node, uint32_t call,
		     const struct import_measures *measures);
/* The parts of it. The site of a stack: skips the allocator's frames, counts the stack in `merged`. */
int import_add_site(struct profile *p, uint32_t node, uint32_t labels, uint32_t *site);
/* The same where the allocation function is known and is no frame of the stack. */
int import_add_site_via(struct profile *p, uint32_t node, uint32_t via, uint32_t labels,
			uint32_t *site);
void import_keep_call(struct profile *p, uint32_t site, uint32_t node, uint32_t call);
void import_add_measures(struct profile_site *site, const struct import_measures *measures);
/* Adds without wrapping round, because files are hostile. */
void import_add(uint64_t *sum, uint64_t value);
uint64_t import_rounded(double value); /* within the range */
/* Turns a line of a sampled profile into an estimate: `blocks` of `bytes` together, taken with one
 * sample each `rate` bytes on average. A rate of 0 or 1 leaves them as they are. */
void import_unbias(uint64_t rate, uint64_t *blocks, uint64_t *bytes);
/* The last step: makes the totals, sorts the sites and adds the one process. Its program file is `exe`
 * if the input names it (NULL: not known). */
int import_finish(struct profile *p, const char *exe);
/* Sets the command from one text, which is split at blanks. */
int import_set_command(struct profile *p, const char *command, size_t length);

#endif
