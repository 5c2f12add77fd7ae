/* From the stack of a thread to that of a goroutine and back. */
#ifndef HEFT_CAPTURE_GO_SWITCH_H
#define HEFT_CAPTURE_GO_SWITCH_H

#include "capture/cfi.h"
#include "capture/inside.h"

/* Whether this word is in memory of goroutines that is known to be mapped. */
static inline int heft_go_mapped(const struct heft_go_walk *go, uintptr_t address)
{
	return address - go->low < go->high - go->low || (address & ~4095ull) == go->page;
}

/* unwind.c: reads a word of memory that may not be there; 0, or -1. The reader is of one step. */
HIDDEN int heft_careful_read(void *reader, uintptr_t address, uint64_t *value);

/* The caller of a frame whose row is of the kind CFI_ROW_GO. */
HIDDEN enum heft_step heft_go_step(struct heft_thread *t, const struct heft_frame *f, cfi_row row,
				   int native, void *reader, struct heft_frame *caller);

#endif
