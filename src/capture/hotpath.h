/* The hot path of the exact hooks, inlined into hooks.c, cxx.c and duplicate.c,
 * which are built with frame pointers.
 *
 *   allocation   guard, call stack, real call, stamp, record: the block exists
 *                before anyone reads about it
 *   free         guard, stamp, record, then the real call: after the record the
 *                address may be somebody else's. A few frees take a call stack too
 *   realloc      guard, call stack, a record that announces it (another thread may
 *                get the address at once), real call, a record that completes or
 *                cancels it
 *
 * The call stack comes before the real call because in large programs the look-up
 * of a site is a cache miss, and the processor waits for it while the allocator
 * works. In a thread's first call, and where a chunk is full, the stack is taken
 * after the real call (heft_record_slowly).
 *
 * The guard is the hook's frame address. A hook that finds one set is nested
 * (the allocator calls itself, or a signal handler runs) and passes through. If the
 * set one lies here or below on this stack, a longjmp has left its hook: it is void. */
#ifndef HEFT_CAPTURE_HOTPATH_H
#define HEFT_CAPTURE_HOTPATH_H

#include "capture/count.h"
#include "capture/inside.h"
#include "capture/marks.h"
#include "wire/via.h"

#include <stdbool.h>

/* The hook's frame; heft_entry() finds its caller's registers there. */
#define HERE() ((uintptr_t)__builtin_frame_address(0))

HIDDEN bool heft_nested(struct heft_tls *tls, uintptr_t here);

static inline void set_guard(struct heft_tls *tls, uintptr_t here)
{
	tls->guard = here;
	__asm__ volatile("" : : : "memory");
}

static inline bool enter(struct heft_tls *tls, uintptr_t here)
{
	if (UNLIKELY(tls->guard) && heft_nested(tls, here))
		return false;
	set_guard(tls, here);
	return true;
}

static inline void leave(struct heft_tls *tls)
{
	__asm__ volatile("" : : : "memory");
	tls->guard = 0;
}

static inline struct heft_thread *thread_with_space(struct heft_tls *tls)
{
	struct heft_thread *t = tls->thread;
	if (LIKELY(t && t->pos < t->limit))
		return t;
	return heft_make_space();
}

/* A stamp that is not older than what the program did before: rdtscp waits for the loads before it.
 * Only reallocs need it: the recorder puts allocations and frees that are stamped too early in order
 * (reorder.c). With one thread there is no other to be out of order with. */
static inline uint64_t stamp_in_order(void)
{
	return LIKELY(!atomic_load_explicit(&heft_several_threads, memory_order_relaxed))
		       ? arch_stamp()
		       : arch_stamp_after();
}

static inline uint64_t usable_bytes(void *p)
{
	if (LIKELY(heft_next.is_glibc)) {
		/* The size of a chunk lies before the block; the low bits are flags, bit 1: mapped by itself. */
		uint64_t chunk = ((const uint64_t *)p)[-1];
		if (LIKELY(!(chunk & 2)))
			return (chunk & ~7ull) - 8;
	}
	return heft_next.usable ? heft_next.usable(p) : WIRE_USABLE_UNKNOWN;
}

/* ---- records. The stream is "open" from before its stamp until the record is published. */

static inline void open_word(struct wire_chunk *c, uint64_t pos)
{
	atomic_store_explicit(&c->pos, pos | WIRE_OPEN, memory_order_relaxed);
}

static inline void publish(struct heft_thread *t, struct wire_chunk *c, uint64_t pos, uint64_t tsc)
{
	t->pos = pos;
	t->last_tsc = tsc;
	atomic_store_explicit(&c->pos, pos, memory_order_release);
}

/* An address as word 0 has it, less one: bits that must be 0 (and those of NULL) come out above the 44
 * that there are. */
static inline uint64_t short_addr(uint64_t addr)
{
	addr -= 8;
	return addr >> 3 | addr << 61;
}
static inline uint64_t short_word0(enum wire_type type, uint64_t dt, uint64_t addr_less_one)
{
	return (addr_less_one + 1) << WIRE_ADDR_SHIFT | dt << 3 | type;
}

/* ext_kind: WIRE_EXT_ALLOC or WIRE_EXT_REALLOC_END; usable: WIRE_USABLE_UNKNOWN if nobody knows */
static inline __attribute__((always_inline)) void record_block(struct heft_thread *t, int ext_kind,
							       void *p, size_t size,
							       uint64_t usable, uint32_t site)
{
	uint64_t slack = usable - size;
	uint64_t addr = (uint64_t)p, addr_less_one = short_addr(addr), pos = t->pos;
	struct wire_chunk *c = t->chunk;
	open_word(c, pos);
	uint64_t tsc = ext_kind == WIRE_EXT_ALLOC ? arch_stamp() : stamp_in_order();
	uint64_t dt = tsc - t->last_tsc;
	if (UNLIKELY(dt > WIRE_DT_MAX) || UNLIKELY(size > BLOCK_SIZE_MAX) ||
	    UNLIKELY(slack >= BLOCK_SLACK_UNKNOWN) ||
	    UNLIKELY(addr_less_one >> (64 - WIRE_ADDR_SHIFT))) {
		heft_emit_alloc_long(t, ext_kind, tsc, addr, size, usable, site);
		return;
	}
	uint64_t *w = (uint64_t *)((char *)c->data + pos);
	w[0] = short_word0(ext_kind == WIRE_EXT_ALLOC ? WIRE_ALLOC : WIRE_REALLOC_END, dt,
			   addr_less_one);
	w[1] = block_word(site, size, slack);
	publish(t, c, pos + 16, tsc);
}

/* False: the record does not fit the short form. Then nothing was written, and the stream stays open. */
static inline bool record_address(struct heft_thread *t, enum wire_type type, uint64_t addr)
{
	struct wire_chunk *c = t->chunk;
	uint64_t pos = t->pos, addr_less_one = short_addr(addr);
	open_word(c, pos);
	uint64_t tsc = type == WIRE_FREE ? arch_stamp() : stamp_in_order();
	uint64_t dt = tsc - t->last_tsc;
	if (UNLIKELY(dt >> WIRE_DT_BITS | addr_less_one >> (64 - WIRE_ADDR_SHIFT)))
		return false;
	*(uint64_t *)((char *)c->data + pos) = short_word0(type, dt, addr_less_one);
	publish(t, c, pos + 8, tsc);
	return true;
}

static inline void record_any_address(struct heft_thread *t, enum wire_type type, unsigned ext_kind,
				      uint64_t addr)
{
	if (UNLIKELY(!record_address(t, type, addr)))
		heft_emit_address_long(t, type, ext_kind, addr);
}

/* ---- calls */

#define HEFT_NO_SITE UINT32_MAX

static inline uint32_t site_before(struct heft_tls *tls, uintptr_t here, unsigned via)
{
	struct heft_thread *t = tls->thread;
	if (LIKELY(t && t->pos < t->limit))
		return heft_site(t, here, via);
	return HEFT_NO_SITE;
}

/* The chunk is full, the thread is new, or a signal handler has forked inside the real call and this is
 * another process: the stack is taken now. */
HIDDEN void heft_record_slowly(struct heft_tls *tls, int ext_kind, void *p, size_t size,
			       uintptr_t here, unsigned via);

/* The functions of C have it inline, in hooks.c. Elsewhere one copy serves all, so that a call which is only passed on
 * saves fewer registers. */
#ifdef HEFT_RECORD_INLINE
static inline
	__attribute__((always_inline))
#else
static NOINLINE
	__attribute__((unused))
#endif
	void
	record_site(struct heft_tls *tls, int ext_kind, void *p, size_t size, uintptr_t here,
		    unsigned via, uint32_t site)
{
	struct heft_thread *t = tls->thread;
	if (LIKELY(site != HEFT_NO_SITE && t->pos < t->limit))
		record_block(t, ext_kind, p, size, usable_bytes(p), site);
	else
		heft_record_slowly(tls, ext_kind, p, size, here, via);
}

/* A block that is not just recorded: one of the arena, or all if they count as well, or if recording is stopped. Does what
 * `allocated` does. The hook jumps there, so `here` is still a frame with the hook's caller. */
HIDDEN void *heft_allocated_unusually(void *p, size_t size, uintptr_t here, unsigned via,
				      uint32_t site);

static inline __attribute__((always_inline)) void *
allocated(struct heft_tls *tls, void *p, size_t size, uintptr_t here, unsigned via, uint32_t site)
{
	if (LIKELY(p)) {
		if (UNLIKELY(atomic_load_explicit(&heft_unusual.arena_used, memory_order_relaxed)))
			return heft_allocated_unusually(p, size, here, via, site);
		record_site(tls, WIRE_EXT_ALLOC, p, size, here, via, site);
	}
	leave(tls);
	return p;
}

/* Records a free with its call stack; `here` is the hook's frame. */
HIDDEN void heft_freed_at(struct heft_thread *t, void *p, uintptr_t here);

/* The same of a block that will be freed. */
HIDDEN bool heft_freed_unusually(struct heft_tls *tls, void *p);

static inline void freed(struct heft_tls *tls, void *p, uintptr_t here)
{
	if (UNLIKELY(heft_all_are_unusual()) && !heft_freed_unusually(tls, p))
		return;
	if (heft_is_grown(p))
		heft_grown_freed(tls, p);
	struct heft_thread *t = thread_with_space(tls);
	if (UNLIKELY(!t))
		return;
	if (UNLIKELY(t->frees_to_skip-- == 0))
		heft_freed_at(t, p, here);
	else
		record_any_address(t, WIRE_FREE, WIRE_EXT_FREE, (uint64_t)p);
}

/* A realloc of `old` begins. */
static inline bool announce(struct heft_tls *tls, void *old)
{
	struct heft_thread *t = old ? thread_with_space(tls) : NULL;
	if (old && heft_is_grown(old))
		heft_grown_forget(old); /* the new block will be remembered */
	if (old && UNLIKELY(heft_all_are_unusual()))
		heft_followed_moves(tls, old);
	if (t)
		record_any_address(t, WIRE_REALLOC_BEGIN, WIRE_EXT_REALLOC_BEGIN, (uint64_t)old);
	return t != NULL;
}

#endif
