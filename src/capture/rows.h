/* The row cache: pc -> unwind row, direct-mapped, one 64-bit word an entry, so
 * that threads read and write it without locks: a word is either whole or not
 * there. Shared by all threads; read-mostly.
 *
 *   entry = tag:34 | row:30      tag = pc >> 14 : 33, exact : 1
 *
 * The index is the low 14 bits of pc, mixed with bits of the tag, so (tag,
 * index) gives pc back: a hit is never a near miss. */
#ifndef HEFT_CAPTURE_ROWS_H
#define HEFT_CAPTURE_ROWS_H

#include "capture/cfi.h"
#include "capture/inside.h"

enum { HEFT_ROW_BITS = 14, HEFT_ROW_COUNT = 1 << HEFT_ROW_BITS };

static inline uint32_t heft_row_index(uint64_t pc)
{
	return (uint32_t)(pc ^ pc >> HEFT_ROW_BITS) & (HEFT_ROW_COUNT - 1);
}
static inline uint64_t heft_row_tag(uint64_t pc, int exact)
{
	return (pc >> HEFT_ROW_BITS) << 1 | (uint64_t)exact;
}
static inline cfi_row heft_row(uint64_t pc, int exact)
{
	uint64_t e = atomic_load_explicit(&heft_rows[heft_row_index(pc)], memory_order_relaxed);
	if (LIKELY(e >> 30 == heft_row_tag(pc, exact)))
		return (cfi_row)(e & 0x3fffffff);
	return heft_row_fill(pc, exact);
}

#endif
