/* Where pointers to live blocks are looked for beside the blocks themselves. */
#ifndef HEFT_LEDGER_HEAP_ROOTS_H
#define HEFT_LEDGER_HEAP_ROOTS_H

#include "ledger/heap_scan.h"

struct ledger_taking;

struct heap_ranges {
	VECTOR_MEMBERS(struct heap_range);
};
/* In order of address. All pages must have been claimed. */
int heap_roots(struct ledger_taking *t, struct heap_ranges *out, struct heft_error *err);

#endif
