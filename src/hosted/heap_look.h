/* What a look at the live blocks of one process and at their contents tells, site by site: which of them nothing leads
 * to, which were never touched, which are equal, and which keep free memory from going back. src/ledger looks;
 * recordings, the model and reports hand the numbers on as they are. */
#ifndef HEFT_HOSTED_HEAP_LOOK_H
#define HEFT_HOSTED_HEAP_LOOK_H

#include "hosted/vector.h"

#include <stdint.h>

/* All bytes are requested bytes of live blocks, unless they are said to be others. */
struct heap_site {
	uint32_t site; /* of the recording */
	uint64_t blocks, bytes;
	/* Blocks that no pointer leads to: direct, if no other such block leads to them either. Of a ring of blocks one
	 * is direct. */
	uint64_t direct_blocks, direct_bytes;
	uint64_t indirect_blocks, indirect_bytes;
	/* Indirect blocks of any site that are lost through direct ones of this site */
	uint64_t held_blocks, held_bytes;
	/* In pages that were never written to, and blocks with such pages */
	uint64_t untouched_blocks, untouched_bytes;
	/* Resident bytes of blocks that are equal to an earlier one; of those that hold only zeros */
	uint64_t duplicate_blocks, duplicate_bytes;
	uint64_t zero_blocks, zero_bytes;
	/* Free memory in pages that blocks of this site keep */
	uint64_t pinned_bytes;
};

enum heap_look_part {
	HEAP_REACHABLE = 1,  /* direct, indirect, held */
	HEAP_TOUCHED = 2,    /* untouched */
	HEAP_EQUAL = 4,      /* duplicate, zero */
	HEAP_FRAGMENTED = 8, /* pinned, and the sums about free memory */
};

enum {
	HEAP_LOOK_NOTE = 240,
	HEAP_LOOK_ROWS = 1 << 17, /* sites at most: those that have most to tell */
};

struct heap_look {
	VECTOR_MEMBERS(struct heap_site); /* in order of site; those that have something to tell */
	uint32_t parts;                   /* which were looked at: enum heap_look_part */
	int32_t pid;
	uint64_t time_ns; /* since the recording began */
	uint64_t took_ns;
	uint64_t blocks, bytes;
	uint64_t root_bytes; /* of other memory, in which pointers were looked for */
	/* Resident bytes of the allocator that are in no live block: in pages with live blocks, and in pages without
	 * one. What malloc_trim would give back; 0 if that is not known. */
	uint64_t heap_bytes; /* with live blocks, their rounding and headers */
	uint64_t pinned_bytes, releasable_bytes, trim_bytes;
	char note[HEAP_LOOK_NOTE]; /* what was not done, and why; "" */
};

static inline void heap_look_fini(struct heap_look *l)
{
	vector_free(l);
}

#endif
