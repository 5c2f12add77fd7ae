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
 * New frames are collected behind the kept ones, innermost first, and turned
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

/* Turns frames[from, from + count) round. */
static void reverse(struct heft_frame *frames, uint32_t from, uint32_t count)
{
	for (uint32_t a = from, b = from + count - 1; a < b; a++, b--) {
		struct heft_frame f = frames[a];
		frames[a] = frames[b];
		frames[b] = f;
	}
}

/* A stack that is not the thread's own: no shortcuts. Works in the space behind the kept frames. */
static NOINLINE uint32_t foreign_site(struct heft_thread *t, struct heft_entry e, unsigned via,
				      uint32_t generation)
{
	uint32_t base = t->depth, count = 0;
	struct heft_frame f = {.pc = e.pc, .sp = e.sp, .rbp = e.rbp};
	for (;;) {
		if (base + count + 1 >= t->capacity && heft_frames_grow(t, base + count + 2)) {
			f.flags |= WIRE_NODE_TRUNCATED;
			break;
		}
		t->frames[base + count++] = f;
		struct heft_frame caller = {0};
		enum heft_step s = heft_step_special(
			t, &f, heft_row(f.pc, (f.flags & WIRE_NODE_EXACT) != 0), 0, &caller);
		if (s == HEFT_STEP_END)
			break;
		/* One stack goes up only; a signal frame may lead to another one. */
		if (s == HEFT_STEP_LOST || count >= HEFT_FRAMES_MAX ||
		    (caller.sp <= f.sp && !(caller.flags & WIRE_NODE_EXACT))) {
			t->frames[base + count - 1].flags |= WIRE_NODE_TRUNCATED;
			break;
		}
		f = caller;
	}
	reverse(t->frames, base, count);
	uint64_t h = seed(generation);
	for (uint32_t i = base; i < base + count; i++)
		t->hashes[i] = h = heft_mix(h, frame_key(&t->frames[i]));
	uint32_t site = site_of(t, t->frames + base, t->hashes + base, count, via, generation);
	t->last_hash = 0;
	heft_stack_check(t->frames + base, count, e);
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

	const uintptr_t top = t->stack_top;
	struct heft_frame *frames = t->frames;
	uint32_t kept = t->depth; /* frames[0, kept) are the previous capture */
	uint32_t fresh = 0;	  /* frames[kept, kept + fresh) are new, innermost first */
	int64_t join = (int64_t)kept - 1;
	struct heft_frame f = {.pc = e.pc, .sp = e.sp, .rbp = e.rbp};

	for (;;) {
		/* Does f continue the kept frames? */
		while (join >= 0 && frames[join].sp < f.sp)
			join--;
		if (join >= 0 && frames[join].sp == f.sp && frames[join].pc == f.pc &&
		    frames[join].flags == f.flags &&
		    (!(frames[join].state & HEFT_RBP_MATTERS) || frames[join].rbp == f.rbp)) {
			int64_t k = verify(frames, join);
			if (LIKELY(k < 0))
				break; /* all the way out: [0, join] stands */
			/* frames[k] has changed; those between are as they were. */
			uint32_t again = (uint32_t)(join - k);
			if (kept + fresh + again + 2 >= t->capacity) {
				if (heft_frames_grow(t, kept + fresh + again + 3)) {
					join = -1;
					break;
				}
				frames = t->frames;
			}
			/* Their rbp may not have been verified: take it as it is now. */
			for (int64_t i = join; i > k; i--) {
				uint64_t rbp = f.rbp;
				if (i < join && frames[i].rbp_slot)
					rbp = *(const volatile uint64_t *)(frames[i].sp - frames[i].rbp_slot);
				f = frames[i];
				f.rbp = rbp;
				frames[kept + fresh++] = f;
			}
			join = k;
		} else {
			if (UNLIKELY(kept + fresh + 2 >= t->capacity)) {
				if (heft_frames_grow(t, kept + fresh + 3)) {
					f.flags |= WIRE_NODE_TRUNCATED;
					join = -1;
					frames[kept + fresh++] = f;
					break;
				}
				frames = t->frames;
			}
			frames[kept + fresh++] = f;
		}
		/* One frame out. */
		cfi_row row = heft_row(f.pc, (f.flags & WIRE_NODE_EXACT) != 0);
		unsigned kind = cfi_row_kind(row);
		struct heft_frame caller;
		caller.uses_rbp = caller.state = 0;
		frames[kept + fresh - 1].uses_rbp =
			kind != CFI_ROW_RSP && kind != CFI_ROW_END && kind != CFI_ROW_SIGNAL;
		uint64_t cfa = (kind == CFI_ROW_RSP ? f.sp : f.rbp) + cfi_row_offset(row);
		if (LIKELY(kind <= CFI_ROW_RBP && cfa > f.sp && cfa <= top && !(cfa & 7))) {
			uint32_t slot = cfi_row_rbp(row);
			caller.pc = *(const volatile uint64_t *)(cfa - 8);
			caller.sp = cfa;
			caller.rbp = f.rbp;
			caller.rbp_slot = slot;
			caller.flags = 0;
			if (slot) {
				if (UNLIKELY(cfa - slot < f.sp))
					goto lost;
				caller.rbp = *(const volatile uint64_t *)(cfa - slot);
			}
			if (UNLIKELY(!caller.pc)) {
				join = -1;
				break;
			}
		} else {
			enum heft_step s = kind <= CFI_ROW_RBP
						   ? HEFT_STEP_LOST
						   : heft_step_special(t, &f, row, 1, &caller);
			if (s == HEFT_STEP_END) {
				join = -1;
				break;
			}
			if (s == HEFT_STEP_LOST)
				goto lost;
			/* From a handler on this stack to another one, or beyond the end. */
			if (caller.sp <= f.sp || caller.sp > top)
				return foreign_site(t, e, via, generation);
		}
		if (UNLIKELY(fresh >= HEFT_FRAMES_MAX))
			goto lost;
		f = caller;
		continue;
	lost:
		frames[kept + fresh - 1].flags |= WIRE_NODE_TRUNCATED;
		join = -1;
		break;
	}

	/* Put the new frames on top of what stands, outermost first, and hash their paths. */
	uint32_t base = (uint32_t)(join + 1), depth = base + fresh;
	uint64_t *hashes = t->hashes;
	if (fresh) {
		if (fresh > 1)
			reverse(frames, kept, fresh);
		if (base != kept)
			__builtin_memmove(&frames[base], &frames[kept], fresh * sizeof *frames);
		uint64_t h = base ? hashes[base - 1] : seed(generation);
		struct heft_frame outermost = {0};
		const struct heft_frame *caller = base ? &frames[base - 1] : &outermost;
		for (uint32_t i = base; i < depth; i++) {
			struct heft_frame *v = &frames[i];
			hashes[i] = h = heft_mix(h, frame_key(v));
			uint8_t matters = v->uses_rbp;
			if (!caller->rbp_slot)
				matters |= caller->state & HEFT_RBP_MATTERS;
			v->state = (uint8_t)(matters | (caller->state & HEFT_BEYOND));
			if ((matters && v->rbp_slot) || v->flags & HEFT_FRAME_UNSTABLE)
				v->state |= HEFT_BEYOND;
			caller = v;
		}
	}
	t->depth = depth;
	heft_stack_check(frames, depth, e);
	return site_of(t, frames, hashes, depth, via, generation);
}
