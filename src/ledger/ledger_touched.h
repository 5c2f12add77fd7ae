/* What of the live blocks was never written to (ledger_touched.c). */
#ifndef HEFT_LEDGER_LEDGER_TOUCHED_H
#define HEFT_LEDGER_LEDGER_TOUCHED_H

#include "hosted/heap_look.h"
#include "hosted/ledger.h"
#include "ledger/ledger_pages.h"

struct heft_error;

struct ledger_touched_site {
	uint64_t blocks, bytes, untouched_blocks, untouched_bytes;
};
/* Sites by number. The caller frees it. */
struct ledger_touched {
	VECTOR_MEMBERS(struct ledger_touched_site);
	struct ledger_pages *pages;
	uint64_t blocks, bytes;
	bool failed; /* no memory */
};

void ledger_touched_add(struct ledger_touched *to, const struct ledger_block *b);
/* Sites with such bytes become rows of a look that has looked at nothing else. */
int ledger_touched_rows(const struct ledger_touched *from, struct heap_look *out,
			struct heft_error *err);

#endif
