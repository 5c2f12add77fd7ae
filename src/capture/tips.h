/* Keeping tips: inner ends of call stacks that stood upon kept frames (struct heft_tip).
 * Only stack.c includes this. */
#ifndef HEFT_CAPTURE_TIPS_H
#define HEFT_CAPTURE_TIPS_H

#include "capture/inside.h"

#include <stdbool.h>

static inline uint64_t tip_key(uint64_t pc, unsigned via)
{
	return pc | (uint64_t)via << 48;
}
static inline uint64_t tip_hash(uint64_t h, uint64_t word)
{
	return (h ^ word) * 0x9e3779b97f4a7c15ull;
}
static inline uint64_t tip_place(const struct heft_thread *t, uint64_t h)
{
	return h >> (64 - t->tip_bits);
}

/* As many tips have been kept as there are places. If a quarter of them displaced another one, there will be
 * twice as many places. (The tips that are there are then no longer found, and come back.) A thread that does
 * little stays with one page. */
static NOINLINE void judge_tips(struct heft_thread *t)
{
	if (t->tips_lost > t->tips_kept / 4 && t->tip_bits < HEFT_TIP_BITS)
		t->tip_bits++;
	t->tips_kept = t->tips_lost = 0;
}

/* Adds a word of the stack that is `bytes` from the hook's frame. False: it is too far. */
static inline bool add_check(struct heft_tip *tip, uint32_t n, uint64_t bytes, uint64_t value)
{
	if (UNLIKELY(n == HEFT_TIP_CHECKS || bytes & 7 || bytes >> 19))
		return false;
	tip->at[n] = (uint16_t)(bytes / 8);
	tip->value[n] = value;
	return true;
}

/* Remembers how the kept capture stands upon its frames [0, base). */
static inline void keep_tip(struct heft_thread *t, struct heft_entry e, uint32_t base,
			    struct heft_tip *tip)
{
	const struct heft_frame *join = &t->kept.frames[base - 1], *top = t->kept.top;
	uint32_t n = 0;
	const uint64_t key = tip_key(e.pc, t->kept.via);
	if (tip->key && (tip->key != key || tip->sp != e.sp))
		t->tips_lost++;
	if (UNLIKELY(++t->tips_kept >> t->tip_bits))
		judge_tips(t);
	tip->key = 0; /* a signal handler may leave by longjmp in between */
	__asm__ volatile("" : : : "memory");
	const uint64_t hook = e.sp - 16;
	for (const struct heft_frame *v = top - 1; v >= join; v--)
		if (!add_check(tip, n++, v->sp - 8 - hook, v->pc))
			return;
	tip->frames = (uint16_t)n;
	/* Each frame's state includes what matters further out, so the innermost one shows whether any does. */
	for (const struct heft_frame *v = top; UNLIKELY(top->state) && v >= join; v--) {
		if (!(v->state & HEFT_RBP_MATTERS) || (v != top && !v->rbp_slot))
			continue;
		/* The hook pushed that of the top frame. */
		if (!add_check(tip, n++, v == top ? 0 : v->sp - v->rbp_slot - hook, v->rbp))
			return;
	}
	tip->sp = e.sp;
	tip->base_hash = t->kept.hashes[base - 1];
	tip->base_words = (uint32_t)((join->sp - e.sp) / 8);
	tip->base_rbp = join->rbp;
	tip->base = base;
	tip->site = t->kept.site;
	tip->count = (uint16_t)n;
	__asm__ volatile("" : : : "memory");
	tip->key = key;
}

#endif
