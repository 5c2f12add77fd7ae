/* From a hook's caller to a site: the incremental, exact capture.
 *
 * The thread keeps the frames of its previous capture. New frames are unwound
 * from the innermost outwards; as soon as one has the same pc, sp and rbp as a
 * kept one, the frames beyond are determined by memory alone, so they are not
 * unwound but verified: each kept return address must still be in its slot, and
 * so must each saved rbp that a frame further out needs to find its caller (in
 * code without frame pointers none does, which halves the work). The first slot
 * that differs resumes unwinding there, and the walk may join the kept frames
 * again further out. Nothing is ever patched.
 *
 * New frames are collected in a scratch array, innermost first, and turned
 * round into place at the end. Every frame has the hash of its path from the
 * root, so the site is one look-up of the leaf's hash; ancestors get nodes only
 * when the leaf is new.
 *
 * On a stack that is not the thread's own nothing is kept: every frame is
 * unwound carefully, and the kept frames stay for the return to the own one. */
#include "capture/rows.h"

#ifdef HEFT_STACK_CHECK
/* Tests only: tests/integration/stack_check.c compares every capture with libunwind's. */
HIDDEN void heft_stack_check(const struct heft_frame *outermost, uint32_t depth, struct heft_entry e);
#else
static inline void heft_stack_check(const struct heft_frame *outermost, uint32_t depth,
				    struct heft_entry e)
{
	(void)outermost, (void)depth, (void)e;
}
#endif

static inline uint64_t seed(uint32_t generation)
{
	return heft_mix(0x68656674ull, generation);
}

static inline uint64_t frame_key(const struct heft_frame *f)
{
	return f->pc | (uint64_t)(f->flags & ~HEFT_FRAME_UNSTABLE) << WIRE_FLAG_SHIFT;
}

/* Creates the nodes that are missing on the path to frames[depth - 1], then the site. */
static NOINLINE uint32_t make_site(struct heft_thread *t, struct heft_frame *frames,
				   uint64_t *hashes, uint32_t depth, unsigned via, uint64_t hash)
{
	uint32_t have = depth, parent = 0;
	while (have > 0 && !(parent = heft_index_find(hashes[have - 1])))
		have--;
	int full = 0;
	for (; have < depth && !full; have++) {
		heft_module_announce(frames[have].flags & WIRE_NODE_EXACT ? frames[have].pc
									   : frames[have].pc - 1);
		uint32_t id = heft_node_add(parent, frame_key(&frames[have]), hashes[have]);
		if (id)
			parent = id;
		else
			full = 1;
	}
	uint64_t leaf = via | (uint64_t)WIRE_NODE_VIA << WIRE_FLAG_SHIFT;
	if (!full) {
		uint32_t id = heft_node_add(parent, leaf, hash);
		if (id)
			return id;
	}
	/* The table is full: the site becomes the deepest ancestor there is, and it is counted. The
	 * outside knows a node without VIA used as a site for what it is. */
	struct wire_header *h = heft_process->session.header;
	atomic_fetch_add_explicit(&h->lost_stacks, 1, memory_order_relaxed);
	t->last_hash = 0; /* so that the next one is counted too */
	return parent;
}

static inline uint32_t site_of(struct heft_thread *t, struct heft_frame *frames, uint64_t *hashes,
			       uint32_t depth, unsigned via, uint32_t generation)
{
	uint64_t top = depth ? hashes[depth - 1] : seed(generation);
	uint64_t hash = heft_mix(top, via + 1);
	if (hash == t->last_hash)
		return t->last_site;
	t->last_hash = hash;
	uint32_t site = heft_index_find(hash);
	if (UNLIKELY(!site))
		site = make_site(t, frames, hashes, depth, via, hash);
	t->last_site = site;
	return site;
}

/* A stack that is not the thread's own: no shortcuts, nothing kept. */
static NOINLINE uint32_t foreign_site(struct heft_thread *t, struct heft_entry e, unsigned via,
				      uint32_t generation)
{
	uint32_t count = 0;
	struct heft_frame f = {.pc = e.pc, .sp = e.sp, .rbp = e.rbp};
	for (;;) {
		if (count + 1 >= t->capacity && heft_frames_grow(t, count + 2))
			break;
		t->scratch[count++] = f;
		struct heft_frame caller = {0};
		enum heft_step s = heft_step_special(
			t, &f, heft_row(f.pc, (f.flags & WIRE_NODE_EXACT) != 0), 0, &caller);
		if (s == HEFT_STEP_END)
			goto whole;
		/* One stack goes up only; a signal frame may lead to another one. */
		if (s == HEFT_STEP_LOST || count >= HEFT_FRAMES_MAX ||
		    (caller.sp <= f.sp && !(caller.flags & WIRE_NODE_EXACT)))
			break;
		f = caller;
	}
	if (count)
		t->scratch[count - 1].flags |= WIRE_NODE_TRUNCATED;
whole:
	/* Turned round into place; their hashes go beside them. */
	for (uint32_t a = 0, b = count; a + 1 < b; a++) {
		f = t->scratch[a];
		t->scratch[a] = t->scratch[--b];
		t->scratch[b] = f;
	}
	uint64_t h = seed(generation), *hashes = t->hashes + t->capacity;
	for (uint32_t i = 0; i < count; i++)
		hashes[i] = h = heft_mix(h, frame_key(&t->scratch[i]));
	uint32_t site = site_of(t, t->scratch, hashes, count, via, generation);
	t->last_hash = 0;
	heft_stack_check(t->scratch, count, e);
	return site;
}

/* Frames [0, join) are right if frame `join` is and their slots are unchanged. Returns the index of
 * the innermost one whose slot is not, or -1. */
static inline int64_t verify(const struct heft_frame *frames, int64_t join)
{
	int64_t k = join - 1;
	if (k < 0)
		return k;
	/* Where only return addresses count this is all there is to a capture: keep it tight. */
	for (; k >= 0 && frames[k].state & HEFT_BEYOND; k--) {
		const struct heft_frame *v = &frames[k];
		if (*(const volatile uint64_t *)(v->sp - 8) != v->pc ||
		    (v->rbp_slot && v->state & HEFT_RBP_MATTERS &&
		     *(const volatile uint64_t *)(v->sp - v->rbp_slot) != v->rbp) ||
		    v->flags & HEFT_FRAME_UNSTABLE)
			return k;
	}
	for (; k >= 3; k -= 4) {
		const struct heft_frame *v = &frames[k];
		uint64_t differs = *(const volatile uint64_t *)(v->sp - 8) ^ v->pc;
		differs |= *(const volatile uint64_t *)(v[-1].sp - 8) ^ v[-1].pc;
		differs |= *(const volatile uint64_t *)(v[-2].sp - 8) ^ v[-2].pc;
		differs |= *(const volatile uint64_t *)(v[-3].sp - 8) ^ v[-3].pc;
		if (UNLIKELY(differs))
			break;
	}
	for (; k >= 0; k--)
		if (*(const volatile uint64_t *)(frames[k].sp - 8) != frames[k].pc)
			return k;
	return k;
}

uint32_t heft_site(struct heft_thread *t, struct heft_entry e, unsigned via)
{
	uint32_t generation =
		atomic_load_explicit(&heft_process->generation, memory_order_relaxed);
	if (UNLIKELY(t->generation != generation)) {
		t->generation = generation;
		t->depth = 0;
		t->last_hash = 0;
	}
	if (UNLIKELY(e.sp - t->stack_low >= t->stack_top - t->stack_low) &&
	    !heft_on_own_stack(t, e.sp))
		return foreign_site(t, e, via, generation);
	if (UNLIKELY(!t->capacity) && heft_frames_grow(t, 1))
		return 0;

	const uintptr_t top = t->stack_top;
	struct heft_frame *frames = t->frames, *scratch = t->scratch;
	/* frames[-1] is a sentinel whose sp is above every other and whose pc is nobody's. */
	const struct heft_frame *join = frames + t->depth - 1;
	uint32_t fresh = 0, room = t->capacity - 1;
	uint64_t pc = e.pc, sp = e.sp, rbp = e.rbp;
	uint32_t slot = 0, flags = 0;

	for (;;) {
		/* Do the kept frames go on from here? */
		while (join->sp < sp)
			join--;
		if (join->pc == pc && join->sp == sp && join->flags == flags &&
		    (!(join->state & HEFT_RBP_MATTERS) || join->rbp == rbp)) {
			int64_t k = verify(frames, join - frames);
			if (LIKELY(k < 0))
				break; /* all the way out: [0, join] stands */
			/* frames[k] has changed; those between are as they were, except that their rbp may
			 * not have been verified: take it as it is now. */
			for (int64_t i = join - frames; i > k; i--) {
				if (UNLIKELY(fresh >= room)) {
					if (heft_frames_grow(t, fresh + 2))
						goto lost;
					join = t->frames + (join - frames);
					frames = t->frames, scratch = t->scratch, room = t->capacity - 1;
				}
				const struct heft_frame *v = &frames[i];
				if (v != join && v->rbp_slot)
					rbp = *(const volatile uint64_t *)(v->sp - v->rbp_slot);
				scratch[fresh] = *v;
				scratch[fresh++].rbp = rbp;
			}
			pc = frames[k + 1].pc;
			sp = frames[k + 1].sp;
			flags = frames[k + 1].flags;
			join = frames + k;
		} else {
			if (UNLIKELY(fresh >= room)) {
				if (heft_frames_grow(t, fresh + 2))
					goto lost;
				join = t->frames + (join - frames);
				frames = t->frames, scratch = t->scratch, room = t->capacity - 1;
			}
			struct heft_frame *f = &scratch[fresh++];
			f->pc = pc;
			f->sp = sp;
			f->rbp = rbp;
			f->rbp_slot = slot;
			f->flags = (uint16_t)flags;
		}
		/* One frame out. */
		cfi_row row = heft_row(pc, (flags & WIRE_NODE_EXACT) != 0);
		unsigned kind = cfi_row_kind(row);
		scratch[fresh - 1].uses_rbp = kind != CFI_ROW_RSP;
		if (LIKELY(kind <= CFI_ROW_RBP)) {
			uint64_t cfa = (kind == CFI_ROW_RSP ? sp : rbp) + cfi_row_offset(row);
			slot = cfi_row_rbp(row);
			if (UNLIKELY(cfa <= sp || cfa > top || cfa & 7 || cfa - slot < sp))
				goto lost;
			pc = *(const volatile uint64_t *)(cfa - 8);
			if (slot)
				rbp = *(const volatile uint64_t *)(cfa - slot);
			sp = cfa;
			flags = 0;
			if (UNLIKELY(!pc))
				goto outermost;
		} else {
			struct heft_frame caller = {0};
			if (kind == CFI_ROW_END) {
				scratch[fresh - 1].uses_rbp = 0;
				goto outermost;
			}
			scratch[fresh - 1].uses_rbp = kind != CFI_ROW_SIGNAL;
			enum heft_step s = heft_step_special(t, &scratch[fresh - 1], row, 1, &caller);
			if (s == HEFT_STEP_END)
				goto outermost;
			if (s == HEFT_STEP_LOST)
				goto lost;
			/* From a handler on this stack to another one, or beyond the end. */
			if (caller.sp <= sp || caller.sp > top)
				return foreign_site(t, e, via, generation);
			pc = caller.pc;
			sp = caller.sp;
			rbp = caller.rbp;
			slot = caller.rbp_slot;
			flags = caller.flags;
		}
		continue;
	lost:
		if (fresh)
			scratch[fresh - 1].flags |= WIRE_NODE_TRUNCATED;
	outermost:
		join = frames - 1;
		break;
	}

	/* Put the new frames on top of what stands, outermost first, and hash their paths. */
	uint32_t base = (uint32_t)(join + 1 - frames), depth = base + fresh;
	if (UNLIKELY(depth > t->capacity - 1)) {
		if (depth > HEFT_FRAMES_MAX || heft_frames_grow(t, depth + 1))
			depth = t->capacity - 1; /* deeper than any stack limit: the innermost are cut */
		fresh = depth - base;
		frames = t->frames, scratch = t->scratch;
	}
	uint64_t *hashes = t->hashes;
	uint64_t h = base ? hashes[base - 1] : seed(generation);
	unsigned state = base ? frames[base - 1].state : 0;
	if (base && frames[base - 1].rbp_slot)
		state &= HEFT_BEYOND; /* its rbp was loaded there: ours does not matter to it */
	for (uint32_t i = base; i < depth; i++) {
		const struct heft_frame *f = &scratch[depth - 1 - i];
		struct heft_frame *v = &frames[i];
		*v = *f;
		hashes[i] = h = heft_mix(h, frame_key(f));
		state |= f->uses_rbp; /* HEFT_RBP_MATTERS */
		if (UNLIKELY((state & HEFT_RBP_MATTERS && f->rbp_slot) || f->flags & HEFT_FRAME_UNSTABLE))
			state |= HEFT_BEYOND;
		v->state = (uint8_t)state;
		if (f->rbp_slot)
			state &= HEFT_BEYOND;
	}
	t->depth = depth;
	heft_stack_check(frames, depth, e);
	return site_of(t, frames, hashes, depth, via, generation);
}
