/* Where Go calls C, and C calls Go: the two change stacks.
 *
 * A goroutine runs on a stack of its own, which Go may move. C code runs on the thread's
 * stack. asmcgocall goes from the first to the second. It keeps the goroutine (struct g)
 * and how deep the goroutine's stack was, as distance from that stack's end, since the
 * stack may move while C calls back into Go. struct g begins with the lowest and the
 * end of the stack. So the caller of asmcgocall is found as asmcgocall itself will find it.
 *
 * When C calls back, crosscall2 and cgocallback still run on the thread's stack. The
 * latter opens a frame of the same size on the goroutine's stack and goes on there. If the
 * Go code then calls C, asmcgocall continues on the thread's stack where cgocallback left
 * it, rounded down to 16 bytes. So a walk that comes to cgocallback on the goroutine's
 * stack looks for the frame of the same size above the asmcgocall that it came from. There are
 * two places; at the right one, crosscall2 has called it with a stack that is aligned as C
 * wants it.
 *
 * What is read: words of the thread's own stack, struct g, and the goroutine's stack from
 * that depth to its end. The kernel is asked about the latter two when they are new. Go
 * never unmaps either: memory of its heap stays mapped.
 *
 * A walk ends: each time that it comes back to the thread's stack, it is further out. */
#include "capture/go_switch.h"
#include "capture/go_rows.h"
#include "capture/rows.h"

enum { PAGE = 4096, STACK_MOST = 1 << 30 /* Go's own limit */ };

/* A goroutine's stack is in use from sp to its end. 0, or -1: it is not mapped. */
static int learn_stack(struct heft_go_walk *go, uintptr_t sp, uintptr_t end)
{
	if (end != go->high)
		go->low = go->high = end;
	if (sp >= go->low)
		return 0;
	if (!heft_readable(sp, go->low))
		return -1;
	go->low = sp & ~(uintptr_t)(PAGE - 1);
	return 0;
}

/* The frame's caller, once its CFA is known. */
static enum heft_step arrive(uint64_t cfa, uint64_t rbp, enum heft_step as, void *reader,
			     struct heft_frame *caller)
{
	if (heft_careful_read(reader, cfa - 8, &caller->pc))
		return HEFT_STEP_LOST;
	caller->sp = cfa;
	caller->rbp = rbp;
	caller->rbp_slot = 0;
	caller->flags = HEFT_FRAME_UNSTABLE;
	return caller->pc ? as : HEFT_STEP_END;
}

static enum heft_step to_goroutine(struct heft_thread *t, const struct heft_frame *f,
				   struct go_switch s, void *reader, struct heft_frame *caller)
{
	struct heft_go_walk *go = &t->go;
	uint64_t g, depth, low, end;
	if (f->sp <= go->left || heft_careful_read(reader, f->sp + s.from, &depth) ||
	    heft_careful_read(reader, f->sp + s.g, &g) || heft_careful_read(reader, g, &low) ||
	    heft_careful_read(reader, g + 8, &end))
		return HEFT_STEP_LOST;
	if (low >= end || end - low > STACK_MOST || end & 7 || depth & 7 || depth > end - low ||
	    depth < s.cfa || learn_stack(go, end - depth, end))
		return HEFT_STEP_LOST;
	go->page = g & ~(uintptr_t)(PAGE - 1);
	go->left = f->sp + s.room;
	return arrive(end - depth + s.cfa, f->rbp, HEFT_STEP_OTHER, reader, caller);
}

static enum heft_step to_thread(const struct heft_thread *t, const struct heft_frame *f,
				struct go_switch s, void *reader, struct heft_frame *caller)
{
	for (unsigned i = 0; i < 2; i++) {
		uint64_t cfa = t->go.left + i * 8 + s.cfa, pc;
		if (heft_careful_read(reader, cfa - 8, &pc))
			break;
		cfi_row row = heft_row(pc, 0);
		/* Of Go's functions only crosscall2 has a row that says where rbp is. */
		if (cfi_row_kind(row) == CFI_ROW_RSP && cfi_row_rbp(row) &&
		    !((cfa + cfi_row_offset(row)) & 15))
			return arrive(cfa, f->rbp, HEFT_STEP_OTHER, reader, caller);
	}
	return HEFT_STEP_LOST;
}

enum heft_step heft_go_step(struct heft_thread *t, const struct heft_frame *f, cfi_row row,
			    int native, void *reader, struct heft_frame *caller)
{
	const struct go_switch s = go_switch_of(row);
	uint64_t sp = f->sp;
	switch (s.how) {
	case GO_CALL:
		if (native)
			return HEFT_STEP_FOREIGN;
		return to_goroutine(t, f, s, reader, caller);
	case GO_BACK:
		if (!native && t->go.left && f->sp - t->go.low < t->go.high - t->go.low)
			return to_thread(t, f, s, reader, caller);
		break;
	default:
		if (heft_careful_read(reader, f->sp + s.from, &sp) || sp <= f->sp || sp & 7)
			return HEFT_STEP_LOST;
	}
	return arrive(sp + s.cfa, f->rbp, HEFT_STEP_OK, reader, caller);
}
