/* The frame between the program's main and its caller: main_frame.c. */
#ifndef HEFT_CAPTURE_MAIN_FRAME_H
#define HEFT_CAPTURE_MAIN_FRAME_H

#include "capture/inside.h"

#ifdef HEFT_BLOB
static inline int heft_is_main_frame(uintptr_t pc)
{
	(void)pc;
	return 0;
}
#else
/* Where main returns to */
extern HIDDEN const char heft_main_returned[];
static inline int heft_is_main_frame(uintptr_t pc)
{
	return pc == (uintptr_t)heft_main_returned;
}
#endif

#endif
