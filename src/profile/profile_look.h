/* What looks at the heaps of processes told when they exited (hosted/heap_look.h), and what their ledgers told
 * (hosted/ledger.h), in the model. */
#ifndef HEFT_PROFILE_PROFILE_LOOK_H
#define HEFT_PROFILE_PROFILE_LOOK_H

#include <stdint.h>

/* What the place of all blocks is called that the program had before heft was attached */
#define PROFILE_OLDER_PLACE "before heft was attached"

/* What a look at the heap of its process told about the live blocks of a site. All 0 if nobody looked. */
struct profile_look {
	uint64_t unreachable_bytes, unreachable_blocks; /* nothing leads to them */
	uint64_t indirect_bytes,
		indirect_blocks; /* of these: only other such blocks lead to them */
	/* Indirect ones of any site that are lost through unreachable ones of this site */
	uint64_t held_bytes, held_blocks;
	/* In pages that were never written to, in the look at the process that found most live bytes; and what that look
	 * saw live at sites that have some */
	uint64_t untouched_bytes, untouched_blocks;
	uint64_t untouched_of_bytes, untouched_of_blocks;
	uint64_t duplicate_bytes, duplicate_blocks; /* resident, equal to another block */
	uint64_t zero_bytes, zero_blocks;           /* resident, and hold only zeros */
	uint64_t pinned_bytes; /* free memory in pages that these blocks keep */
};

/* What looks at the heaps of its processes told beyond sites. */
struct profile_heap {
	uint32_t parts; /* enum heap_look_part: what was looked at; 0: nothing */
	uint64_t took_ns;
	uint64_t
		untouched_of_bytes; /* live in the looks that saw most: untouched_bytes are of these */
	uint64_t heap_bytes;        /* resident; of these: */
	uint64_t pinned_bytes, releasable_bytes; /* free in pages with live blocks, and in others */
	uint64_t trim_bytes; /* malloc_trim would give back; 0: nothing, or not known */
	const char *note;    /* what was not looked at, and why; or NULL */
};

/* Where the resident memory of a process was, in its largest ledger; rss_bytes 0: it has none. Of several processes:
 * of the one that has the largest ledger. Parts that nobody sets a budget for are left out. */
struct profile_resident {
	uint64_t rss_bytes;
	uint64_t heap_bytes, held_free_bytes; /* of the heap: what its allocator keeps free */
	uint64_t allocator_bytes, library_bytes, stack_bytes, anonymous_bytes, unexplained_bytes;
};

#endif
