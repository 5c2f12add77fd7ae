/* Inside src/findings: places with the same advice that stand beside each other are one finding. */
#ifndef HEFT_FINDINGS_NEIGHBOURS_H
#define HEFT_FINDINGS_NEIGHBOURS_H

#include "findings/diagnosis.h"

/* A place that a diagnosis may report, by itself or with its neighbours */
struct spot {
	uint32_t site;
	uint64_t rank; /* the greatest comes first */
	uint64_t bytes;
	bool alone;      /* it would be reported by itself */
	uint32_t leader; /* spots_group: the first of its group, an index */
	uint32_t index;  /* the diagnosis's own: which of its candidates this is */
};

/* Sorts the spots by rank and groups neighbours: places in one function, a function and its caller, functions
 * that one function calls (but not main, which calls everything). Of those that would be reported by
 * themselves also functions without names of one file, and everything inside one interpreter. */
void spots_group(const struct diagnosis *d, struct spot *spots, uint32_t count);
/* "split_row (csv.c:69)", "... and add_row (csv.c:82)", "... , ... and 3 more places": those of one group, in
 * the pool. NULL: no memory. */
const char *spots_places(struct diagnosis *d, const struct spot *spots, uint32_t count,
			 uint32_t leader);
/* Adds the evidence "places", if the group has several. `whole`: what shares are of. */
void spots_evidence(struct diagnosis *d, struct draft *f, const struct spot *spots, uint32_t count,
		    uint32_t leader, uint64_t whole);

#endif
