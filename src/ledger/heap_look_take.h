/* Looks at the heap of a process that stands still: gathers what heap_scan.h needs. */
#ifndef HEFT_LEDGER_HEAP_LOOK_TAKE_H
#define HEFT_LEDGER_HEAP_LOOK_TAKE_H

#include "hosted/heap_look.h"

struct ledger_view;

/* Of a process that nobody records it is not known who has made a block. Blocks of one usable size are a site then: all
 * below 1 MiB, whose sizes are multiples of 16 and 8 more, and of larger ones those between two powers of two. What is
 * looked at is only which of them are lost. */
enum { HEAP_SIZES = 1 << 16, HEAP_SIZE_SITES = HEAP_SIZES + 64 };

struct heap_look_order {
	struct heap_look *
		look; /* that is filled; parts is 0 if nothing was looked at, and the note says why */
	bool always;            /* however long it takes */
	struct heft_error *err; /* why nothing was looked at; or NULL */
};

/* For struct ledger_look; ctx is a struct heap_look_order. */
int heap_look_take(void *ctx, struct ledger_view *view);

#endif
