/* Inside src/findings: who holds the memory of a process that is not malloc's, from its ledgers. */
#ifndef HEFT_FINDINGS_MEMORY_HOLDERS_H
#define HEFT_FINDINGS_MEMORY_HOLDERS_H

#include "findings/diagnosis.h"

struct ledger;

enum { HOLDERS_MOST = 3 };

struct memory_holders {
	const struct ledger *ledger;     /* NULL: there is none */
	uint64_t heap_bytes, free_bytes; /* resident: malloc's, and of this what is free */
	uint64_t
		other_bytes; /* resident: what the program, a library or a runtime has mapped itself */
	const char *holders
		[HOLDERS_MOST]; /* "56.8 MiB: Python's objects (pymalloc's arenas)", the largest first */
	uint32_t count;
};

/* Of the process with this number in the whole profile: the ledger with most of such memory; if `free_memory`, the one before
 * its exit in which malloc had most that was free. h->ledger is NULL if it has none. 0 or HEFT_ENOMEM. */
int memory_holders(struct diagnosis *d, uint32_t process, bool free_memory,
		   struct memory_holders *h);
/* "near the peak of the heap 66.9 MiB were resident, 56.8 MiB of it ...". NULL: no memory. */
const char *memory_holders_sentence(struct diagnosis *d, const struct memory_holders *h);
void memory_holders_evidence(struct diagnosis *d, struct draft *f, const struct memory_holders *h);

#endif
