/* Nothing, in the library. In the build of a test (HEFT_STACK_CHECK) every capture is
 * compared with libunwind's: tests/integration/stack_check.c. */
#ifndef HEFT_CAPTURE_STACK_CHECK_H
#define HEFT_CAPTURE_STACK_CHECK_H

#include "capture/inside.h"

#ifdef HEFT_STACK_CHECK
HIDDEN void heft_stack_check(const struct heft_frame *outermost, uint32_t depth,
			     struct heft_entry e);
#else
static inline void heft_stack_check(const struct heft_frame *outermost, uint32_t depth,
				    struct heft_entry e)
{
	(void)outermost, (void)depth, (void)e;
}
#endif

/* The same for a capture that a tip found. */
static inline void heft_tip_check(const struct heft_thread *t, const struct heft_tip *tip,
				  struct heft_entry e)
{
#ifdef HEFT_STACK_CHECK
	static __thread struct heft_frame frames[4096];
	uint32_t depth = tip->base;
	if (depth + tip->frames > 4096)
		return;
	__builtin_memcpy(frames, t->kept.frames, depth * sizeof *frames);
	for (uint32_t i = tip->frames; i > 1; i--)
		frames[depth++].pc = tip->value[i - 2];
	if (tip->frames)
		frames[depth++].pc = e.pc;
	heft_stack_check(frames, depth, e);
#else
	(void)t, (void)tip, (void)e;
#endif
}

#endif
