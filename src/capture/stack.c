/* From a hook's caller to a site: the incremental, exact capture.
 *
 * The thread keeps the frames of its previous capture. We unwind new frames from the
 * innermost outwards. As soon as one has the same pc, sp and rbp as a kept one, memory
 * alone determines the frames outside of it. So we do not unwind those but verify them:
 * each kept return address must still be in its slot, and so must each saved rbp that
 * a frame further out needs to find its caller (in code without frame pointers none
 * does, which halves the work). At the first slot that differs we unwind again, and the
 * walk may join the kept frames further out. Nothing is ever patched.
 *
 * If a capture has little in common with the one before, we keep both: a program that
 * alternates between two places finds both again.
 *
 * A thread also remembers inner ends that stood upon kept frames (struct heft_tip),
 * with the words of the stack that they were read from: if those words are the same
 * again, so is the site. The kept frames then stay as they are.
 *
 * The walk collects new frames in a scratch array, innermost first, and turns them
 * round into place when it commits them. Every frame has the hash of its path from the
 * root, so a site is one look-up of the leaf's hash; ancestors get nodes only when the
 * leaf is new (new_site.c).
 *
 * On a stack that is not the thread's own we unwind every frame carefully and keep
 * nothing; the kept frames stay until the thread is back on its own stack. */
#include "capture/rows.h"
#include "capture/stack_check.h"
#include "capture/tips.h"

enum { TIP_PROBES = 4 };
enum { FEW_FRAMES = 8 }; /* a capture as short as this is not worth keeping as `other` */

static inline uint64_t seed(uint32_t generation)
{
	return heft_mix(0x68656674ull, generation);
}

static inline uint32_t find_site(const struct heft_frame *frames, const uint64_t *hashes,
				 uint32_t depth, uint32_t known, unsigned via, uint32_t generation,
				 int *lost)
{
	uint64_t top = depth ? hashes[depth - 1] : seed(generation);
	uint64_t hash = heft_mix(top, via + 1);
	uint32_t site = heft_index_find(HEFT_SITES, hash);
	if (UNLIKELY(!site))
		site = heft_new_site(frames, hashes, depth, known, via, hash, lost);
	return site;
}

static inline uint32_t depth_of(const struct heft_kept *k)
{
	return (uint32_t)(k->top + 1 - k->frames);
}

/* The site of the kept frames. The outermost `known` of them have been part of a stack before. */
static inline uint32_t site_of_frames(struct heft_thread *t, unsigned via, uint32_t known)
{
	struct heft_kept *k = &t->kept;
	int lost = 0;
	k->site = find_site(k->frames, k->hashes, depth_of(k), known, via, t->generation, &lost);
	k->via = lost ? HEFT_NO_VIA : via;
	return k->site;
}

/* All of them have; this time they called another function. */
static NOINLINE uint32_t site_of_kept(struct heft_thread *t, unsigned via)
{
	return site_of_frames(t, via, depth_of(&t->kept));
}

/* Unwinds a stack that is not the thread's own into the scratch, innermost frame first. Returns how many
 * frames it has. */
static uint32_t collect_foreign(struct heft_thread *t, struct heft_entry e)
{
	uint32_t count = 0;
	struct heft_frame f = {.pc = e.pc, .sp = e.sp, .rbp = e.rbp};
	t->go.left = 0;
	while (count + 1 < t->capacity || !heft_frames_grow(t, count + 2)) {
		cfi_row row = heft_row(f.pc, (f.flags & WIRE_NODE_EXACT) != 0);
		t->scratch[count] = f;
		count += row != CFI_ROW_MAIN;
		struct heft_frame caller = {0};
		enum heft_step s = heft_step_special(t, &f, row, 0, &caller);
		if (s == HEFT_STEP_END)
			return count;
		/* One stack goes up only; a signal frame and Go's assembly may lead to another one. */
		if (s == HEFT_STEP_LOST || count >= HEFT_FRAMES_MAX ||
		    (caller.sp <= f.sp && s != HEFT_STEP_OTHER &&
		     !(caller.flags & WIRE_NODE_EXACT)))
			break;
		f = caller;
	}
	if (count)
		t->scratch[count - 1].flags |= WIRE_NODE_TRUNCATED;
	return count;
}

/* The site of such a stack: no shortcuts, and nothing is kept. */
static NOINLINE uint32_t foreign_site(struct heft_thread *t, struct heft_entry e, unsigned via)
{
	uint32_t count = collect_foreign(t, e);
	/* Turns the frames round in place, then puts the hashes of their paths beside them. */
	for (uint32_t a = 0, b = count; a + 1 < b; a++) {
		struct heft_frame f = t->scratch[a];
		t->scratch[a] = t->scratch[--b];
		t->scratch[b] = f;
	}
	uint64_t h = seed(t->generation), *hashes = t->scratch_hashes;
	for (uint32_t i = 0; i < count; i++)
		hashes[i] = h = heft_mix(h, heft_frame_key(&t->scratch[i]));
	heft_stack_check(t->scratch, count, e);
	int lost;
	return find_site(t->scratch, hashes, count, 0, via, t->generation, &lost);
}

/* Does this kept frame have these registers? `slot`: where rbp was read. Where rbp matters the slot must be
 * the same, since that is what will be verified from now on. */
static inline int is_frame(const struct heft_frame *v, uint64_t pc, uint64_t sp, uint64_t rbp,
			   uint32_t slot, uint16_t flags)
{
	return v->pc == pc && v->sp == sp && v->flags == flags &&
	       (!(v->state & HEFT_RBP_MATTERS) || (v->rbp == rbp && v->rbp_slot == slot));
}

/* If a frame is right, the frames outside of it are right while their slots are unchanged. v: the first of
 * those. Returns the innermost one with a changed slot. The sentinel's slot always differs, so it is
 * returned if all others are unchanged. */
static inline __attribute__((always_inline)) const struct heft_frame *
verify(const struct heft_frame *v)
{
	for (; UNLIKELY(v->state & HEFT_CHECK_MORE); v--)
		if (*(const volatile uint64_t *)(v->sp - 8) != v->pc ||
		    (v->rbp_slot && v->state & HEFT_RBP_MATTERS &&
		     *(const volatile uint64_t *)(v->sp - v->rbp_slot) != v->rbp) ||
		    v->flags & HEFT_FRAME_UNSTABLE)
			return v;
	/* Where only return addresses count, a capture is little more than this loop: keep it tight. */
#define DIFFERS(i) UNLIKELY(*(const volatile uint64_t *)(v[-(i)].sp - 8) != v[-(i)].pc)
#define CHECK(i)                                                                                   \
	if (DIFFERS(i))                                                                            \
	return v - (i)
	for (;; v -= 8) {
		CHECK(0);
		CHECK(1);
		CHECK(2);
		CHECK(3);
		CHECK(4);
		CHECK(5);
		CHECK(6);
		CHECK(7);
	}
#undef CHECK
#undef DIFFERS
}

/* ---- the walk: collect frames until they join the kept ones, then commit them */

/* A stack while it is unwound, innermost frame first. New frames are collected in the scratch. */
struct walk {
	struct heft_frame *next,
		*last; /* where the next new frame goes; the last place of the scratch */
	/* The innermost kept frame that is not inside of the one at hand. */
	const struct heft_frame *kept;
	uint64_t pc, sp, rbp; /* of the frame at hand */
	uint64_t meta;        /* its rbp_slot and flags, as in struct heft_frame */
};
enum walk_end {
	WALK_JOINED,    /* the frame at hand is a kept one, and all outside of it are unchanged */
	WALK_OUTERMOST, /* all frames are new; the last may be marked as truncated */
	WALK_FOREIGN,   /* it leads to a stack that is not the thread's own */
	WALK_NO_MEMORY,
};

/* Small enough for two registers: a struct walk would be copied through the stack. */
struct moved {
	struct heft_frame *next;
	const struct heft_frame *kept;
};

/* The scratch is full: all arrays move. next is NULL if there is no memory. */
static NOINLINE struct moved more_scratch(struct heft_thread *t, struct heft_frame *next,
					  const struct heft_frame *kept)
{
	ptrdiff_t used = next - t->scratch, at = kept - t->kept.frames;
	if (heft_frames_grow(t, t->capacity + 1))
		return (struct moved){0};
	return (struct moved){t->scratch + used, t->kept.frames + at};
}

static inline __attribute__((always_inline)) struct walk with_more_scratch(struct heft_thread *t,
									   struct walk w)
{
	struct moved m = more_scratch(t, w.next, w.kept);
	w.next = m.next;
	w.kept = m.kept;
	w.last = t->scratch + t->capacity - 1;
	return w;
}

/* The kept frames from w.kept out to before `changed` are as they were, except that nobody has verified
 * their rbp: each takes it as it is now, from where it is now. They become new frames. The outermost of
 * them is then the frame at hand. */
static inline __attribute__((always_inline)) struct walk
take_kept(struct heft_thread *t, struct walk w, const struct heft_frame *changed)
{
	ptrdiff_t end = changed - t->kept.frames, first = w.kept - t->kept.frames;
	for (ptrdiff_t i = first; i > end; i--) {
		if (UNLIKELY(w.next >= w.last)) {
			w = with_more_scratch(t, w);
			if (!w.next)
				return w;
		}
		const struct heft_frame *v = &t->kept.frames[i];
		*w.next = *v;
		if (i == first)
			w.next->rbp_slot = (uint32_t)w.meta;
		else if (v->rbp_slot)
			w.rbp = *(const volatile uint64_t *)(v->sp - v->rbp_slot);
		w.next++->rbp = w.rbp;
	}
	w.pc = w.next[-1].pc;
	w.sp = w.next[-1].sp;
	w.meta = (uint64_t)w.next[-1].flags << 32;
	w.kept = t->kept.frames + end;
	return w;
}

/* One frame out, where the row is none of the two that most frames have. */
static inline __attribute__((always_inline)) enum heft_step
step_special(struct heft_thread *t, struct walk *w, cfi_row row)
{
	/* The next place of the scratch is free, and there is one more after `last`. */
	struct heft_frame *caller = w->next, *inner = w->next - 1;
	if (cfi_row_kind(row) == CFI_ROW_END)
		return HEFT_STEP_END;
	*caller = (struct heft_frame){0};
	inner->uses_rbp = cfi_row_kind(row) != CFI_ROW_SIGNAL;
	enum heft_step s = heft_step_special(t, inner, row, 1, caller);
	if (s != HEFT_STEP_OK)
		return s;
	/* From a handler on this stack to another one, or beyond the end. */
	if (caller->sp <= w->sp || caller->sp > t->stack_top)
		return HEFT_STEP_FOREIGN;
	if (row == CFI_ROW_MAIN)
		w->next--;
	w->pc = caller->pc;
	w->sp = caller->sp;
	w->rbp = caller->rbp;
	w->meta = caller->meta;
	return HEFT_STEP_OK;
}

/* From the frame at hand, the last in the scratch, to its caller. */
static inline __attribute__((always_inline)) enum heft_step step_out(struct heft_thread *t,
								     struct walk *w)
{
	cfi_row row = heft_row(w->pc, (w->meta >> 32 & WIRE_NODE_EXACT) != 0);
	unsigned kind = cfi_row_kind(row);
	uint32_t slot = cfi_row_rbp(row);
	if (LIKELY(kind == CFI_ROW_RSP)) {
		/* offset >= 8 and slot <= offset: cfi_row_at sees to it */
		w->sp += cfi_row_offset(row);
		if (UNLIKELY(w->sp > t->stack_top))
			return HEFT_STEP_LOST;
	} else if (kind == CFI_ROW_RBP) {
		uint64_t cfa = w->rbp + cfi_row_offset(row);
		w->next[-1].uses_rbp = 1;
		if (UNLIKELY(cfa <= w->sp || cfa > t->stack_top || cfa & 7 || cfa - slot < w->sp))
			return HEFT_STEP_LOST;
		w->sp = cfa;
	} else
		return step_special(t, w, row);
	w->pc = *(const volatile uint64_t *)(w->sp - 8);
	if (slot)
		w->rbp = *(const volatile uint64_t *)(w->sp - slot);
	w->meta = slot;
	return LIKELY(w->pc) ? HEFT_STEP_OK : HEFT_STEP_END;
}

/* Unwinds from the frame at hand outwards and puts what is new into the scratch. */
static inline __attribute__((always_inline)) enum walk_end collect(struct heft_thread *t,
								   struct walk *w)
{
	enum heft_step step;
	do {
		/* Do the kept frames go on from here? The sentinel's sp is above every other. */
		while (w->kept->sp < w->sp)
			w->kept--;
		if (is_frame(w->kept, w->pc, w->sp, w->rbp, (uint32_t)w->meta,
			     (uint16_t)(w->meta >> 32))) {
			const struct heft_frame *changed = verify(w->kept - 1);
			if (LIKELY(changed < t->kept.frames))
				return WALK_JOINED;
			*w = take_kept(t, *w, changed);
			if (UNLIKELY(!w->next))
				return WALK_NO_MEMORY;
		} else {
			if (UNLIKELY(w->next >= w->last)) {
				*w = with_more_scratch(t, *w);
				if (!w->next)
					return WALK_NO_MEMORY;
			}
			w->next->pc = w->pc;
			w->next->sp = w->sp;
			w->next->rbp = w->rbp;
			w->next++->meta = w->meta;
		}
		step = step_out(t, w);
	} while (LIKELY(step == HEFT_STEP_OK));
	if (step == HEFT_STEP_FOREIGN)
		return WALK_FOREIGN;
	if (step == HEFT_STEP_LOST)
		w->next[-1].flags |= WIRE_NODE_TRUNCATED;
	return WALK_OUTERMOST;
}

/* Finds a place for `fresh` frames on top of the outermost `base` kept ones. Returns how many frames there
 * are then: in a stack deeper than any limit the innermost are cut. */
static inline __attribute__((always_inline)) uint32_t prepare_kept(struct heft_thread *t,
								   uint32_t base, uint32_t fresh)
{
	uint32_t depth = base + fresh;
	if (UNLIKELY(depth > t->capacity - 1) &&
	    (depth > HEFT_FRAMES_MAX || heft_frames_grow(t, depth + 1)))
		depth = t->capacity - 1;
	if (fresh > 2 * base && depth_of(&t->kept) > FEW_FRAMES) {
		/* It has little in common with the capture before: keep that as well. */
		struct heft_kept k = t->kept;
		t->kept = t->other;
		t->other = k;
		__builtin_memcpy(t->kept.frames, t->other.frames, base * sizeof *t->kept.frames);
		__builtin_memcpy(t->kept.hashes, t->other.hashes, base * sizeof *t->kept.hashes);
	}
	return depth;
}

/* Turns the new frames, which end before f in the scratch, round onto the kept ones, with the hashes of
 * their paths and what must be verified of them. Returns the flags of all new frames and of the one they
 * stand on. */
static inline __attribute__((always_inline)) unsigned
turn_round(struct heft_thread *t, const struct heft_frame *f, uint32_t base, uint32_t depth)
{
	struct heft_frame *frames = t->kept.frames;
	uint64_t *hashes = t->kept.hashes, h = base ? hashes[base - 1] : seed(t->generation);
	unsigned state = base ? frames[base - 1].state : 0,
		 flags = base ? frames[base - 1].flags : 0;
	if (base && frames[base - 1].rbp_slot)
		state &= HEFT_CHECK_MORE; /* its rbp was loaded there: ours does not matter to it */
	for (uint32_t i = base; i < depth; i++) {
		struct heft_frame *v = &frames[i];
		uint64_t m = (--f)->meta;
		*v = *f;
		if (LIKELY(!(m >> 32 | state)))
			h = heft_mix(h, f->pc);
		else {
			h = heft_mix(h, heft_frame_key(f));
			flags |= f->flags;
			state |= f->uses_rbp; /* HEFT_RBP_MATTERS */
			if ((state & HEFT_RBP_MATTERS && f->rbp_slot) ||
			    f->flags & HEFT_FRAME_UNSTABLE)
				state |= HEFT_CHECK_MORE;
			v->state = (uint8_t)state;
			if (f->rbp_slot)
				state &= HEFT_CHECK_MORE;
		}
		hashes[i] = h;
	}
	t->kept.top = frames + depth - 1;
	return flags;
}

/* The outermost `base` kept frames stand, `fresh` new ones are in the scratch: they become the kept
 * capture. Returns its site. tip: where to remember how they stand upon the others. */
static inline __attribute__((always_inline)) uint32_t commit(struct heft_thread *t,
							     struct heft_entry e, uint32_t base,
							     uint32_t fresh, unsigned via,
							     uint64_t tip)
{
	uint32_t depth = prepare_kept(t, base, fresh);
	unsigned flags = turn_round(t, t->scratch + fresh, base, depth);
	heft_stack_check(t->kept.frames, depth, e);
	uint32_t site = site_of_frames(t, via, base);
	if (LIKELY(!flags && base && fresh <= HEFT_TIP_CHECKS && depth == base + fresh &&
		   t->kept.via == via))
		keep_tip(t, e, base, &t->tips[tip]);
	return site;
}

/* The walk came to where a goroutine calls C (w->next: after that frame) and goes on upon the goroutine's stack.
 * Its frames may be kept ones: then each word that led from one to the next must be as it was. */
static NOINLINE enum walk_end collect_goroutine(struct heft_thread *t, struct walk *w)
{
	struct heft_frame f = w->next[-1], caller = {0};
	t->go.left = 0;
	enum heft_step s = heft_step_special(t, &f, heft_row(f.pc, 0), 0, &caller);
	if (s != HEFT_STEP_OTHER)
		return WALK_FOREIGN;
	w->kept = t->kept.frames + t->go.depth - 1;
	if (t->go.kept == t->kept.frames && w->kept <= t->kept.top &&
	    is_frame(w->kept, caller.pc, caller.sp, 0, 0, caller.flags)) {
		const struct heft_frame *v = w->kept - 1;
		while (v >= t->kept.frames && v->sp > t->go.low && v->sp <= t->go.high &&
		       *(const volatile uint64_t *)(v->sp - 8) == v->pc)
			v--;
		if (LIKELY(v < t->kept.frames))
			return WALK_JOINED;
	}
	uint32_t depth = 0;
	for (s = HEFT_STEP_OK; s == HEFT_STEP_OK; depth++) {
		if (w->next >= w->last) {
			*w = with_more_scratch(t, *w);
			if (!w->next)
				return WALK_NO_MEMORY;
		}
		*w->next++ = f = caller;
		caller = (struct heft_frame){0};
		s = heft_step_special(t, &f, heft_row(f.pc, 0), 0, &caller);
		if (s == HEFT_STEP_OK && caller.sp <= f.sp)
			s = HEFT_STEP_LOST;
	}
	t->go.depth = depth;
	return s == HEFT_STEP_END ? WALK_OUTERMOST : WALK_FOREIGN;
}

/* The stack leads to one that is not the thread's own: after `next` frames, which are in the scratch. */
static NOINLINE uint32_t site_elsewhere(struct heft_thread *t, struct heft_entry e, unsigned via,
					struct heft_frame *next)
{
	struct walk w = {.next = next, .last = t->scratch + t->capacity - 1};
	if (next == t->scratch || cfi_row_kind(heft_row(next[-1].pc, 0)) != CFI_ROW_GO)
		return foreign_site(t, e, via);
	enum walk_end end = collect_goroutine(t, &w);
	if (end != WALK_JOINED && end != WALK_OUTERMOST)
		return foreign_site(t, e, via);
	uint32_t fresh = (uint32_t)(w.next - t->scratch);
	uint32_t site = commit(t, e, end == WALK_JOINED ? t->go.depth : 0, fresh, via, 0);
	t->go.kept = t->kept.frames;
	return site;
}

/* The general way: whatever is not known is unwound. */
static NOINLINE uint32_t site_by_walk(struct heft_thread *t, uintptr_t hook, unsigned via,
				      uint64_t tip)
{
	const struct heft_entry e = heft_entry(hook);
	uint32_t generation = atomic_load_explicit(&heft_generation, memory_order_relaxed);
	if (UNLIKELY(t->generation != generation)) {
		t->generation = generation;
		heft_frames_reset(t, t->frames_memory);
	}
	if (UNLIKELY(!t->capacity) && heft_frames_grow(t, 1))
		return 0;
	if (UNLIKELY(e.sp - t->stack_low >= t->stack_top - t->stack_low) &&
	    !heft_on_own_stack(t, e))
		return foreign_site(t, e, via);
	struct walk w = {.next = t->scratch,
			 .last = t->scratch + t->capacity - 1,
			 .kept = t->kept.top,
			 .pc = e.pc,
			 .sp = e.sp,
			 .rbp = e.rbp};
	enum walk_end end = collect(t, &w);
	if (UNLIKELY(end == WALK_FOREIGN))
		return site_elsewhere(t, e, via, w.next);
	if (UNLIKELY(end == WALK_NO_MEMORY)) {
		t->kept.top = t->kept.frames - 1;
		return site_of_kept(t, via);
	}
	uint32_t base = end == WALK_JOINED ? (uint32_t)(w.kept + 1 - t->kept.frames) : 0;
	return commit(t, e, base, (uint32_t)(w.next - t->scratch), via, tip);
}

enum tip_answer { TIP_STANDS, TIP_DIFFERS, TIP_OTHER };

/* Is this tip the inner end of the stack, upon frames that are still kept? TIP_DIFFERS: but for a word, which
 * goes into *word. */
static inline __attribute__((always_inline)) enum tip_answer ask_tip(const struct heft_kept *k,
								     const struct heft_tip *tip,
								     uint64_t key, uint64_t sp,
								     uint64_t *word)
{
	if (tip->key != key || tip->sp != sp)
		return TIP_OTHER;
	const struct heft_frame *base = k->frames + tip->base - 1;
	if (base > k->top || k->hashes[tip->base - 1] != tip->base_hash ||
	    base->sp - sp != tip->base_words * 8ull ||
	    (UNLIKELY(base->state & HEFT_RBP_MATTERS) && base->rbp != tip->base_rbp))
		return TIP_OTHER;
	const volatile uint64_t *words = (const volatile uint64_t *)(sp - 16);
	for (uint32_t i = 0; i < tip->count; i++) {
		uint64_t now = words[tip->at[i]];
		if (UNLIKELY(now != tip->value[i])) {
			*word = now;
			return TIP_DIFFERS;
		}
	}
	return LIKELY(verify(base - 1) < k->frames) ? TIP_STANDS : TIP_OTHER;
}

/* Many calls come from one place in a wrapper (xmalloc, operator new). So the first word that differs from a
 * tip leads to the next tip to try. */
static NOINLINE uint32_t site_by_tips(struct heft_thread *t, uintptr_t hook, unsigned via)
{
	const struct heft_entry e = heft_entry(hook);
	uint64_t word, h = tip_hash(e.sp << 16, e.pc);
	uint64_t at = 0;
	if (UNLIKELY(!t->tips))
		return site_by_walk(t, hook, via, at);
	for (unsigned probe = 0; probe < TIP_PROBES; probe++) {
		at = tip_place(t, h);
		enum tip_answer a = ask_tip(&t->kept, &t->tips[at], tip_key(e.pc, via), e.sp,
					    &word);
		if (a == TIP_STANDS) {
			heft_tip_check(t, &t->tips[at], e);
			return t->tips[at].site;
		}
		if (a == TIP_OTHER)
			break;
		h = tip_hash(h, word);
	}
	return site_by_walk(t, hook, via, at);
}

/* The stack may be the other kept one: two places that take turns. */
static NOINLINE uint32_t site_of_other(struct heft_thread *t, uintptr_t hook, unsigned via)
{
	const struct heft_entry e = heft_entry(hook);
	if (!is_frame(t->other.top, e.pc, e.sp, e.rbp, 0, 0) ||
	    verify(t->other.top - 1) >= t->other.frames)
		return site_by_tips(t, hook, via);
	struct heft_kept k = t->kept;
	t->kept = t->other;
	t->other = k;
	heft_stack_check(t->kept.frames, depth_of(&t->kept), e);
	return LIKELY(via == t->kept.via) ? t->kept.site : site_of_kept(t, via);
}

/* What most calls need, without registers to save: the stack is the same as last time and only has to be
 * verified, or the first tip fits. */
uint32_t heft_site(struct heft_thread *t, uintptr_t hook, unsigned via)
{
	const uint64_t *frame = (const uint64_t *)hook; /* as in heft_entry */
	uint64_t pc = frame[1], sp = hook + 16, word;
	const struct heft_frame *was = t->kept.top;
	if (UNLIKELY(t->generation != atomic_load_explicit(&heft_generation, memory_order_relaxed)))
		return site_by_walk(t, hook, via, 0);
	if (was->pc == pc && was->sp == sp && was->flags == 0 &&
	    (!(was->state & HEFT_RBP_MATTERS) || was->rbp == frame[0]) &&
	    verify(was - 1) < t->kept.frames) {
		heft_stack_check(t->kept.frames, depth_of(&t->kept), heft_entry(hook));
		return LIKELY(via == t->kept.via) ? t->kept.site : site_of_kept(t, via);
	}
	if (UNLIKELY(t->other.top->pc == pc && t->other.top->sp == sp))
		return site_of_other(t, hook, via);
	const struct heft_tip *tip = t->tips + tip_place(t, tip_hash(sp << 16, pc));
	if (LIKELY(t->tips) && ask_tip(&t->kept, tip, tip_key(pc, via), sp, &word) == TIP_STANDS) {
		heft_tip_check(t, tip, heft_entry(hook));
		return tip->site;
	}
	return site_by_tips(t, hook, via);
}
