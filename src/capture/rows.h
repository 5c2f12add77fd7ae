/* The row cache: from a pc to its unwind row. All threads share it and mostly read.
 * An entry is one 64-bit word, so it is either whole or not there, and nobody needs a
 * lock. A pc has two places. (With one place cc1 had to compute 63,611 rows in a run;
 * with two it computes 5,139.)
 *
 *   entry = tag:34 | row:30      tag = pc >> 15 : 32, pc : 1, exact : 1
 *
 * The pair of places comes from bits 1 to 14 of pc, mixed with bits of the tag. So
 * tag and pair together give the pc back, and a hit is always the right one. */
#ifndef HEFT_CAPTURE_ROWS_H
#define HEFT_CAPTURE_ROWS_H

#include "capture/cfi.h"
#include "capture/inside.h"

enum { HEFT_ROW_BITS = 15, HEFT_ROW_COUNT = 1 << HEFT_ROW_BITS };

/* The first of the two. */
static inline _Atomic uint64_t *heft_row_pair(uint64_t pc)
{
	return &heft_rows[(pc ^ pc >> (HEFT_ROW_BITS - 1)) & (HEFT_ROW_COUNT - 2)];
}
static inline uint64_t heft_row_tag(uint64_t pc, int exact)
{
	return (pc >> HEFT_ROW_BITS) << 2 | (pc & 1) << 1 | (uint64_t)exact;
}
static inline cfi_row heft_row(uint64_t pc, int exact)
{
	_Atomic uint64_t *pair = heft_row_pair(pc);
	uint64_t e = atomic_load_explicit(pair, memory_order_relaxed),
		 tag = heft_row_tag(pc, exact);
	if (UNLIKELY(e >> 30 != tag))
		e = atomic_load_explicit(pair + 1, memory_order_relaxed);
	if (LIKELY(e >> 30 == tag))
		return (cfi_row)(e & 0x3fffffff);
	return heft_row_fill(pc, exact);
}

#endif
