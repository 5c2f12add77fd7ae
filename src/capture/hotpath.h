/* The hot path of every hook: guard, room, stack, stamp, record. Inlined into
 * the interposed functions (hooks.c, cxx.c), which are built with frame
 * pointers.
 *
 *   allocation   real call, then stack, stamp, record: the block exists before
 *                anyone reads about it
 *   free         stamp, record, then the real call: from the record on the
 *                address may be somebody else's
 *   realloc      announced before (the address may be reused at once), completed
 *                or cancelled after
 *
 * The guard is the hook's frame address. A hook that finds one set is nested
 * (the allocator calling itself, a signal handler) and passes through. If the
 * set one lies here or below on this stack, its hook was left by longjmp: void. */
#ifndef HEFT_CAPTURE_HOTPATH_H
#define HEFT_CAPTURE_HOTPATH_H

#include "capture/inside.h"
#include "wire/via.h"

#include <stdbool.h>

/* The caller's registers, from a frame that has a frame pointer (this file is built so). */
#define ENTRY()                                                                                    \
	((struct heft_entry){                                                                      \
		.pc = (uint64_t)__builtin_return_address(0),                                       \
		.sp = (uint64_t)__builtin_frame_address(0) + 16,                                   \
		.rbp = *(uint64_t *)__builtin_frame_address(0),                                    \
	})
#define HERE() ((uintptr_t)__builtin_frame_address(0))

HIDDEN bool heft_nested(struct heft_tls *tls, uintptr_t here);

static inline bool enter(struct heft_tls *tls, uintptr_t here)
{
	if (UNLIKELY(tls->guard) && heft_nested(tls, here))
		return false;
	tls->guard = here;
	__asm__ volatile("" : : : "memory");
	return true;
}

static inline void leave(struct heft_tls *tls)
{
	__asm__ volatile("" : : : "memory");
	tls->guard = 0;
}

static inline struct heft_thread *room(struct heft_tls *tls)
{
	struct heft_thread *t = tls->thread;
	if (LIKELY(t && t->pos < t->limit))
		return t;
	return heft_room();
}

static inline void open_word(struct heft_thread *t)
{
	atomic_store_explicit(&t->chunk->pos, t->pos | WIRE_OPEN, memory_order_relaxed);
}

static inline uint64_t stamp_after(void)
{
	/* With one thread there is nobody to be out of order with. */
	return LIKELY(!atomic_load_explicit(&heft_process->several, memory_order_relaxed))
		       ? arch_stamp()
		       : arch_stamp_after();
}

static inline uint64_t usable_bytes(void *p)
{
	if (LIKELY(heft_next.is_glibc)) {
		/* A chunk's size stands before the block; the low bits are flags, bit 1: mapped alone. */
		uint64_t chunk = ((const uint64_t *)p)[-1];
		if (LIKELY(!(chunk & 2)))
			return (chunk & ~7ull) - 8;
	}
	return heft_next.usable ? heft_next.usable(p) : WIRE_USABLE_UNKNOWN;
}

/* ext_kind: WIRE_EXT_ALLOC or WIRE_EXT_REALLOC_END */
static inline void record_block(struct heft_thread *t, int ext_kind, void *p, size_t size,
				struct heft_entry e, unsigned via)
{
	uint32_t site = heft_site(t, e, via);
	uint64_t usable = usable_bytes(p);
	uint64_t addr = (uint64_t)p, slack = usable - size;
	open_word(t);
	uint64_t tsc = stamp_after();
	uint64_t dt = tsc - t->last_tsc;
	if (LIKELY(dt <= WIRE_DT_MAX && size <= WIRE_SIZE_MAX && slack < WIRE_SLACK_UNKNOWN &&
		   !(addr & 0xffff800000000007ull))) {
		uint64_t *w = (uint64_t *)((char *)t->chunk->data + t->pos);
		w[0] = wire_word0(ext_kind == WIRE_EXT_ALLOC ? WIRE_ALLOC : WIRE_REALLOC_END, dt,
				  addr);
		w[1] = wire_word1(site, size, slack);
		t->pos += 16;
		t->last_tsc = tsc;
		atomic_store_explicit(&t->chunk->pos, t->pos, memory_order_release);
	} else
		heft_emit_alloc_long(t, ext_kind, tsc, addr, size, usable, site);
}

static inline void record_address(struct heft_thread *t, enum wire_type type, unsigned ext_kind,
				  uint64_t addr)
{
	open_word(t);
	uint64_t tsc = arch_stamp();
	uint64_t dt = tsc - t->last_tsc;
	uint64_t *w = (uint64_t *)((char *)t->chunk->data + t->pos);
	if (UNLIKELY(dt > WIRE_DT_MAX)) {
		*w++ = (uint64_t)WIRE_SYNC | tsc << 3;
		dt = 0;
	}
	if (LIKELY(!(addr & 0xffff800000000007ull)))
		*w++ = wire_word0(type, dt, addr);
	else {
		*w++ = wire_ext_word(ext_kind, dt, 1);
		*w++ = addr;
	}
	t->pos = (uint64_t)((char *)w - (char *)t->chunk->data);
	t->last_tsc = tsc;
	atomic_store_explicit(&t->chunk->pos, t->pos, memory_order_release);
}

static inline void *allocated(struct heft_tls *tls, void *p, size_t size, struct heft_entry e,
			      unsigned via)
{
	if (LIKELY(p) && !UNLIKELY(heft_in_arena(p))) {
		struct heft_thread *t = room(tls);
		if (LIKELY(t))
			record_block(t, WIRE_EXT_ALLOC, p, size, e, via);
	}
	leave(tls);
	return p;
}

/* A free whose call stack is taken too; `here` is the hook's frame. */
HIDDEN void heft_freed_at(struct heft_thread *t, void *p, uintptr_t here);

static inline void freed(struct heft_tls *tls, void *p, uintptr_t here)
{
	if (heft_is_grown(p))
		heft_grown_freed(tls, p);
	struct heft_thread *t = room(tls);
	if (UNLIKELY(!t))
		return;
	if (UNLIKELY(t->frees_to_skip-- == 0))
		heft_freed_at(t, p, here);
	else
		record_address(t, WIRE_FREE, WIRE_EXT_FREE, (uint64_t)p);
}

/* The common part of every free; the caller makes the real call. False: nothing to do at all. */
static inline bool before_free(void *p, uintptr_t here)
{
	struct heft_tls *tls = &heft_tls;
	if (!p || UNLIKELY(heft_in_arena(p)))
		return false;
	if (LIKELY(enter(tls, here))) {
		freed(tls, p, here);
		leave(tls);
	}
	return true;
}

#endif
