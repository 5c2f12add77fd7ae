/* Looks at the heap of a recorded process that stands still: gathers what heap_scan.h needs. */
#ifndef HEFT_LEDGER_HEAP_LOOK_TAKE_H
#define HEFT_LEDGER_HEAP_LOOK_TAKE_H

#include "hosted/heap_look.h"

struct ledger_view;

struct heap_look_order {
	struct heap_look *
		look; /* that is filled; parts is 0 if nothing was looked at, and the note says why */
	bool always; /* however long it takes */
};

/* For struct ledger_look; ctx is a struct heap_look_order. */
int heap_look_take(void *ctx, struct ledger_view *view);

#endif
