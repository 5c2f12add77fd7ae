/* Rows for the code of Go programs. Go's compiler writes no .eh_frame; the tables of its
 * own runtime (.gopclntab), which it never leaves out, say how large each frame is. */
#ifndef HEFT_CAPTURE_GO_ROWS_H
#define HEFT_CAPTURE_GO_ROWS_H

#include "capture/cfi.h"

/* How a frame of Go's assembly leads to another stack (struct go_switch). */
enum go_how {
	GO_CALL = 1, /* asmcgocall calls C on the thread's stack for a goroutine */
	GO_SAME = 2, /* asmcgocall calls C for code that was on the thread's stack already */
	GO_BACK = 3, /* cgocallback runs Go code for C, on a goroutine's stack */
};

/* What a row of kind CFI_ROW_GO holds; all but `how` in bytes, multiples of 8 below 256. */
struct go_switch {
	unsigned how;  /* enum go_how */
	unsigned cfa;  /* CFA - the stack pointer that the frame had before it changed stacks */
	unsigned from; /* where that pointer is (GO_CALL: how deep in its stack it is), from sp */
	unsigned g;    /* GO_CALL: where the goroutine (struct g) is, from sp */
	unsigned room; /* GO_CALL: what the frame takes of the thread's stack, up to 8 bytes less */
};
static inline struct go_switch go_switch_of(cfi_row row)
{
	return (struct go_switch){.how = row >> 3 & 3,
				  .cfa = (row >> 5 & 31) * 8,
				  .from = (row >> 10 & 31) * 8,
				  .g = (row >> 15 & 31) * 8,
				  .room = (row >> 20 & 31) * 8};
}

/* The row of a return address (exact: of an interrupted pc) that the object's .eh_frame does not cover;
 * CFI_ROW_NONE if it is not Go's. */
cfi_row go_row_at(const struct cfi_image *image, uintptr_t pc, int exact);
/* Objects were unloaded. */
void go_rows_forget(void);

#endif
