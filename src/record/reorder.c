/* From calls to events: which block a call is about, and which calls have to wait.
 *
 * Stamps put records into the order of truth, nearly. A free is stamped before the
 * real free and an allocation after the real allocation, so an address is given back
 * before it is given out again. But a record may come late, because its thread was
 * stopped before it published it, and a processor may take a stamp while it still
 * loads the address. A record that does not fit what is known waits for the record
 * that explains it. Nothing is guessed unless that one does not come in time.
 *
 * Each address is in one of five states:
 *
 *   empty    no block is known there
 *   live     a block is there (`blocks`)
 *   parked   a block is there, and allocations of the same address wait for its free
 *            (`parked`). A thread may have freed its parked allocation already
 *   early    no block is there, and a free waits for its allocation (`frees`, not held)
 *   held     a block is there, and a free of it waits (`frees`, held): another thread freed
 *            it when it was very young, in a process that resizes blocks. Its thread may
 *            have resized it before it handed it on, and that record may still come
 *
 * A thread that has announced a realloc keeps the block in `moving` until it completes
 * the realloc. The address is empty, since anybody may get it from there on, but the
 * bytes count as live.
 *
 * The table below says what a call makes of an address.
 *
 * Invariants: `parked` and `frees` are in the order in which their records came. The block of a
 * held free is live. live_bytes is the sum of `blocks` and of what all threads have in `moving`. */
#include "record/reorder.h"

#include "hosted/error.h"
#include "hosted/vector.h"

#include <stdlib.h>
#include <string.h>

/* The table of states. What a call makes of an address:
 *
 *            alloc         free           realloc begins  realloc ends   the wait is over
 *   empty    live          early (1)      moving (2)      live           -
 *   live     parked        empty, or      moving, empty   old block      -
 *                          held (3)                       ends unseen,
 *                                                         live
 *   parked   one more      next one (4)   next one (5)    as live        50 ms: live block ends
 *            parked                                                      unseen, next one
 *   early    empty (6)     one more       moving (2)      empty (6)      20 us, child 2 us, attached
 *                          early                                         0.3 us: empty, unknown free
 *   held     freed, then   freed, then    moving, early   freed, then    2 us: freed, empty
 *            as empty      as empty                       as empty
 *
 *   (1) With one thread nothing is out of order: the free is counted as unknown at once.
 *   (2) The block was never seen: a child inherited it, or it is from before heft was attached. The
 *       end of its realloc is an allocation.
 *   (3) Held if another thread made the block and it is younger than young_cycles. The first
 *       realloc of a process with several threads sets young_cycles.
 *   (4) The free of a thread whose own allocation is parked is about that allocation, and waits
 *       with it. Any other free ends the live block, and the first parked allocation becomes
 *       live. If that one was freed already it ends at once, and the next one follows.
 *   (5) The thread's own parked allocation becomes live first: the free before it was never seen.
 *   (6) The new block is freed at once. In a process that resizes blocks it becomes live and held
 *       instead. A child frees blocks that it inherited and gets their addresses again, so in a
 *       child only a free by another thread counts as early. A program that heft was attached to
 *       frees older blocks in the same way.
 *
 * A block that "ends unseen" ends where its successor begins, and counts as an unknown free. */

#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define PARK_NS 50000000ull
/* A processor runs ahead of a load for far less than this. A process with blocks that were never seen waits less:
 * there, a free that waits is more likely about one of these. After attaching there are many of them, and their
 * addresses may be given out again within a microsecond. */
#define EARLY_NS 20000ull
#define EARLY_CHILD_NS 2000ull
#define EARLY_ATTACHED_NS 300ull
#define HELD_NS 2000ull

struct reorder_parked {
	struct live_block block;
	uint64_t tsc;
	uint8_t flags;
	/* Its thread freed it while it was parked: */
	bool freed;
	uint8_t free_flags;
	uint32_t free_site; /* TRACE_FREED_AT */
	uint64_t free_tsc;
};

int reorder_init(struct reorder *r)
{
	memset(r, 0, sizeof *r);
	return live_blocks_init(&r->blocks);
}

void reorder_fini(struct reorder *r)
{
	live_blocks_fini(&r->blocks);
	free(r->parked);
	r->parked = NULL;
}

/* ---- events */

static void emit(struct reorder_output *out, const struct trace_event *e)
{
	if (UNLIKELY(out->batch->count == TRACE_BATCH))
		out->flush(out->ctx);
	trace_batch_add(out->batch, e);
}

static void note_peak(struct reorder *r, uint64_t time_ns)
{
	if (UNLIKELY(r->live_bytes > r->peak_bytes)) {
		r->peak_bytes = r->live_bytes;
		r->peak_blocks = r->live_blocks;
		r->peak_time_ns = time_ns;
	}
}

static void emit_alloc(struct reorder *r, const struct reorder_now *now, const struct live_block *b,
		       uint8_t flags)
{
	emit(now->out, &(struct trace_event){
			       .time_ns = now->time_ns,
			       .size = b->size,
			       .site = b->site,
			       .thread = b->thread,
			       .birth_thread = b->thread,
			       .slack = (uint32_t)b->slack,
			       .op = TRACE_ALLOC,
			       .flags = flags,
		       });
	r->live_bytes += b->size;
	r->live_blocks++;
	note_peak(r, now->time_ns);
}

/* Where what is known about the unused end of a block is. At its end a program tells hundreds at once, for
 * blocks that are all live; so there are three times as many places as it remembers. */
static struct reorder_unused *unused_at(struct reorder *r, uint64_t addr)
{
	enum { PLACES = 8 }; /* that one address may have */
	uint64_t first = (addr >> 4) * 0x9e3779b97f4a7c15ull >> 54;
	struct reorder_unused *best = NULL;
	for (uint64_t i = 0; i < PLACES; i++) {
		struct reorder_unused *u = &r->unused[(first + i) % REORDER_UNUSED];
		if (u->addr == addr)
			return u;
		if (!best || (best->addr && (!u->addr || u->bytes < best->bytes)))
			best = u;
	}
	return best;
}

/* The event that ends a block that grew carries what the program said about its unused end. */
static void add_growth(struct reorder *r, const struct live_block *b, struct trace_event *e)
{
	e->flags |= TRACE_GROWN;
	struct reorder_unused *u = unused_at(r, b->addr);
	if (u->addr != b->addr)
		return;
	e->flags |= TRACE_MEASURED;
	e->unused_bytes = u->bytes;
	u->addr = 0;
}

/* How a block ends */
struct ending {
	uint64_t tsc; /* of the call that ends it, which may have waited */
	uint32_t thread;
	uint32_t free_site; /* TRACE_FREED_AT */
	uint8_t op, flags;
};

static void emit_end(struct reorder *r, const struct reorder_now *now, const struct live_block *b,
		     const struct ending *how)
{
	uint64_t lifetime_ns = tsc_clock_ns(now->out->clock,
					    how->tsc > b->birth_tsc ? how->tsc - b->birth_tsc : 0);
	struct trace_event e = {
		.time_ns = now->time_ns,
		.size = b->size,
		.lifetime_ns = lifetime_ns < now->time_ns ? lifetime_ns : now->time_ns,
		.site = b->site,
		.free_site = how->free_site,
		.thread = how->thread,
		.birth_thread = b->thread,
		.slack = (uint32_t)b->slack,
		.op = how->op,
		.flags = how->flags,
	};
	if (b->grown)
		add_growth(r, b, &e);
	emit(now->out, &e);
	r->live_bytes -= b->size;
	r->live_blocks--;
}

/* The free of b was never seen: b ends at tsc, where another block begins. */
static void end_unseen(struct reorder *r, const struct reorder_now *now, const struct live_block *b,
		       uint64_t tsc)
{
	live_blocks_remove(&r->blocks, b->addr);
	/* The free of an older block may have begun before heft was attached. */
	if (r->older_site && b->site == r->older_site - 1)
		r->older_frees++;
	else if (!r->is_leaving)
		r->unknown_frees++;
	emit_end(r, now, b, &(struct ending){.tsc = tsc, .thread = b->thread, .op = TRACE_FREE});
}

static void add_block(struct reorder *r, const struct reorder_now *now, const struct live_block *b)
{
	if (!live_blocks_add(&r->blocks, b))
		now->out->failed = HEFT_ENOMEM;
}

/* ---- parked allocations: they are rare, so the list is plain */

static void park(struct reorder *r, const struct reorder_now *now, const struct live_block *b,
		 uint8_t flags)
{
	if (!array_reserve(r->parked, r->parked_count, r->parked_capacity, 1)) {
		now->out->failed = HEFT_ENOMEM;
		return;
	}
	r->parked[r->parked_count++] = (struct reorder_parked){
		.block = *b, .tsc = now->tsc, .flags = flags};
}

/* The first allocation from q on that is parked at addr; NULL: there is none. */
static struct reorder_parked *parked_from(const struct reorder *r, struct reorder_parked *q,
					  uint64_t addr)
{
	struct reorder_parked *const end = r->parked + r->parked_count;
	while (q < end && q->block.addr != addr)
		q++;
	return q < end ? q : NULL;
}

/* The thread's own allocation that is parked at addr and that it has not freed. */
static struct reorder_parked *parked_own(const struct reorder *r, const struct reorder_thread *t,
					 uint64_t addr)
{
	struct reorder_parked *q = parked_from(r, r->parked, addr);
	while (q && (q->block.thread != t->number || q->freed))
		q = parked_from(r, q + 1, addr);
	return q;
}

/* The parked allocation `at` becomes live and leaves the list. A block that still has the address ends at
 * tsc. */
static void unpark(struct reorder *r, const struct reorder_now *now, struct reorder_parked *at,
		   uint64_t tsc)
{
	const struct reorder_parked q = *at;
	struct live_block old;
	r->parked_count--;
	memmove(at, at + 1, (size_t)(r->parked + r->parked_count - at) * sizeof *at);
	if (live_blocks_find(&r->blocks, q.block.addr, &old))
		end_unseen(r, now, &old, tsc);
	emit_alloc(r, now, &q.block, q.flags);
	if (q.freed)
		emit_end(r, now, &q.block,
			 &(struct ending){.tsc = q.free_tsc,
					  .thread = q.block.thread,
					  .free_site = q.free_site,
					  .op = TRACE_FREE,
					  .flags = q.free_flags});
	else
		add_block(r, now, &q.block);
}

/* The block at addr has ended at tsc: allocations that are parked there follow, up to one that stays. */
static void unpark_at(struct reorder *r, const struct reorder_now *now, uint64_t addr, uint64_t tsc)
{
	struct reorder_parked *q = parked_from(r, r->parked, addr);
	for (bool is_free = true; q && is_free; q = parked_from(r, q, addr)) {
		is_free = q->freed;
		unpark(r, now, q, tsc);
	}
}

/* ---- frees that wait, early or held */

static uint64_t waited_ns(const struct reorder_now *now, uint64_t since_tsc)
{
	return tsc_clock_ns(now->out->clock, now->tsc > since_tsc ? now->tsc - since_tsc : 0);
}

/* How long a free waits for its allocation */
static uint64_t early_ns(const struct reorder *r)
{
	return r->is_attached ? EARLY_ATTACHED_NS : r->is_child ? EARLY_CHILD_NS : EARLY_NS;
}

static void count_unseen(struct reorder *r)
{
	if (r->is_child)
		r->inherited_frees++;
	else if (r->is_attached)
		r->older_frees++;
	else
		r->unknown_frees++;
}

static void forget_free(struct reorder *r, uint32_t i)
{
	for (r->free_count--; i < r->free_count; i++)
		r->frees[i] = r->frees[i + 1];
}

static struct ending ending_of(const struct reorder_free *f, uint64_t tsc)
{
	return (struct ending){.tsc = tsc,
			       .thread = f->thread,
			       .free_site = f->free_site,
			       .op = TRACE_FREE,
			       .flags = f->flags};
}

/* The free at i waits no longer: it is about the block that is known now. */
static void take_free(struct reorder *r, const struct reorder_now *now, uint32_t i)
{
	struct reorder_free f = r->frees[i];
	struct ending how = ending_of(&f, f.tsc);
	struct live_block b;
	forget_free(r, i);
	if (!f.held || !live_blocks_find(&r->blocks, f.addr, &b)) {
		count_unseen(r);
		return;
	}
	live_blocks_remove(&r->blocks, f.addr);
	emit_end(r, now, &b, &how);
	if (r->parked_count)
		unpark_at(r, now, f.addr, f.tsc);
}

static void keep_free(struct reorder *r, const struct reorder_now *now, struct reorder_free f)
{
	if (!r->several_threads) {
		count_unseen(r);
		return;
	}
	if (r->free_count == REORDER_FREES)
		take_free(r, now, 0);
	r->frees[r->free_count++] = f;
}

static struct reorder_free *held_at(struct reorder *r, uint64_t addr)
{
	for (uint32_t i = 0; i < r->free_count; i++)
		if (r->frees[i].held && r->frees[i].addr == addr)
			return &r->frees[i];
	return NULL;
}

/* Another call is about addr: a free that is held there comes before it. */
static void take_held(struct reorder *r, const struct reorder_now *now, uint64_t addr)
{
	struct reorder_free *f = r->free_count ? held_at(r, addr) : NULL;
	if (f)
		take_free(r, now, (uint32_t)(f - r->frees));
}

/* The free of addr that came before its block. thread: who made the block. */
static struct reorder_free *early_at(struct reorder *r, const struct reorder_now *now,
				     uint64_t addr, uint32_t thread)
{
	for (uint32_t i = 0; i < r->free_count; i++) {
		struct reorder_free *f = &r->frees[i];
		if (!f->held && f->addr == addr &&
		    !((r->is_child || r->is_attached) &&
		      (f->thread == thread || waited_ns(now, f->tsc) >= early_ns(r))))
			return f;
	}
	return NULL;
}

/* The block b is there from now on, unless its free came before it. thread: whose call says so. */
static void make_live(struct reorder *r, const struct reorder_now *now, const struct live_block *b,
		      uint32_t thread)
{
	struct reorder_free *f = r->free_count ? early_at(r, now, b->addr, thread) : NULL;
	if (UNLIKELY(f && !r->young_cycles)) {
		struct ending how = ending_of(f, now->tsc);
		emit_end(r, now, b, &how);
		forget_free(r, (uint32_t)(f - r->frees));
		return;
	}
	add_block(r, now, b);
	if (UNLIKELY(f)) { /* the block may be resized before this free */
		f->held = true;
		f->tsc = now->tsc;
	}
}

/* ---- one record each */

void reorder_alloc(struct reorder *r, const struct reorder_now *now, struct reorder_thread *t,
		   const struct live_block *b, uint8_t flags)
{
	struct live_block there;
	t->last_addr = b->addr;
	take_held(r, now, b->addr);
	if (live_blocks_find(&r->blocks, b->addr, &there)) {
		park(r, now, b, flags);
		return;
	}
	emit_alloc(r, now, b, flags);
	make_live(r, now, b, t->number);
}

void reorder_free(struct reorder *r, const struct reorder_now *now, struct reorder_thread *t,
		  uint64_t addr, uint8_t flags, uint32_t free_site)
{
	struct reorder_parked *own = r->parked_count ? parked_own(r, t, addr) : NULL;
	bool is_last = t->last_addr == addr;
	if (own) {
		own->freed = true;
		own->free_tsc = now->tsc;
		own->free_flags = (uint8_t)(flags | (is_last ? TRACE_TEMPORARY : 0));
		own->free_site = free_site;
		return;
	}
	struct live_block b;
	take_held(r, now, addr);
	bool is_live = live_blocks_find(&r->blocks, addr, &b);
	bool is_young = is_live && b.thread != t->number &&
			now->tsc < b.birth_tsc + r->young_cycles;
	if (!is_live || is_young) {
		keep_free(r, now,
			  (struct reorder_free){addr, now->tsc, t->number, free_site, flags,
						is_young});
		return;
	}
	if (is_last && b.thread == t->number)
		flags |= TRACE_TEMPORARY;
	live_blocks_remove(&r->blocks, addr);
	emit_end(r, now, &b, &(struct ending){now->tsc, t->number, free_site, TRACE_FREE, flags});
	if (r->parked_count)
		unpark_at(r, now, addr, now->tsc);
}

void reorder_realloc_begin(struct reorder *r, const struct reorder_now *now,
			   struct reorder_thread *t, uint64_t addr)
{
	struct reorder_parked *own = r->parked_count ? parked_own(r, t, addr) : NULL;
	if (UNLIKELY(own != NULL))
		unpark(r, now, own, now->tsc);
	if (UNLIKELY(r->several_threads && !r->young_cycles))
		r->young_cycles = (HELD_NS << 32) / (now->out->clock->mult | 1);
	struct reorder_free *f = r->free_count ? held_at(r, addr) : NULL;
	if (f)
		f->held = false; /* it is about the resized block */
	t->moving.addr = 0;
	if (live_blocks_find(&r->blocks, addr, &t->moving))
		live_blocks_remove(&r->blocks, addr);
	if (UNLIKELY(r->parked_count))
		unpark_at(r, now, addr, now->tsc);
}

/* Whether a block looks like one that glibc mapped by itself: the kernel moves such pages. */
static bool is_mapped(uint64_t addr, uint64_t size)
{
	return (addr & 0xfff) == 16 && size >= 128 << 10;
}

static uint8_t moved_flags(const struct live_block *old, const struct live_block *b)
{
	if (b->addr == old->addr)
		return 0;
	return is_mapped(b->addr, b->size) && is_mapped(old->addr, old->size)
		       ? TRACE_MOVED
		       : TRACE_MOVED | TRACE_COPIED;
}

void reorder_realloc_end(struct reorder *r, const struct reorder_now *now, struct reorder_thread *t,
			 const struct live_block *b, uint8_t flags)
{
	struct live_block old = t->moving;
	t->moving.addr = 0;
	if (!old.addr) { /* never seen before; from here on it counts in this process */
		r->older_reallocs += r->is_attached;
		reorder_alloc(r, now, t, b, flags);
		return;
	}
	emit(now->out, &(struct trace_event){
			       .time_ns = now->time_ns,
			       .size = b->size,
			       .old_size = old.size,
			       .site = b->site,
			       .old_site = old.site,
			       .thread = t->number,
			       .birth_thread = old.thread,
			       .slack = (uint32_t)b->slack,
			       .old_slack = (uint32_t)old.slack,
			       .op = TRACE_REALLOC,
			       .flags = flags | moved_flags(&old, b),
		       });
	/* Without the casts the difference would have the 47 bits of the fields. */
	r->live_bytes += (uint64_t)b->size - (uint64_t)old.size;
	note_peak(r, now->time_ns);
	/* The thread's last block stays its last one when it is resized. */
	t->last_addr = t->last_addr == old.addr ? b->addr : 0;
	struct live_block grown = *b, there;
	grown.birth_tsc = old.birth_tsc;
	grown.thread = old.thread;
	grown.grown = 1;
	take_held(r, now, b->addr);
	if (UNLIKELY(live_blocks_find(&r->blocks, b->addr, &there)))
		end_unseen(r, now, &there, now->tsc);
	make_live(r, now, &grown, t->number);
}

void reorder_realloc_failed(struct reorder *r, const struct reorder_now *now,
			    struct reorder_thread *t)
{
	struct live_block there;
	if (t->moving.addr && !live_blocks_find(&r->blocks, t->moving.addr, &there))
		add_block(r, now, &t->moving);
	t->moving.addr = 0;
}

void reorder_realloc_freed(struct reorder *r, const struct reorder_now *now,
			   struct reorder_thread *t)
{
	const struct live_block *b = &t->moving;
	if (b->addr) {
		bool temporary = t->last_addr == b->addr && b->thread == t->number;
		emit_end(r, now, b,
			 &(struct ending){.tsc = now->tsc,
					  .thread = t->number,
					  .op = TRACE_FREE,
					  .flags = temporary ? TRACE_TEMPORARY : 0});
	} else
		count_unseen(r);
	t->moving.addr = 0;
}

void reorder_unused(struct reorder *r, uint64_t addr, uint64_t bytes)
{
	/* If this process never saw the block grow, only a later block there would take the note. */
	struct live_block b;
	if (!live_blocks_find(&r->blocks, addr, &b) || !b.grown)
		return;
	*unused_at(r, addr) = (struct reorder_unused){addr, bytes};
}

/* ---- time */

void reorder_expire(struct reorder *r, const struct reorder_now *now)
{
	if (r->parked_count && waited_ns(now, r->parked->tsc) >= PARK_NS)
		unpark(r, now, r->parked, now->tsc);
	for (uint32_t i = 0; i < r->free_count;) {
		const struct reorder_free *f = &r->frees[i];
		uint64_t most = f->held ? HELD_NS : early_ns(r);
		if (waited_ns(now, f->tsc) >= most)
			take_free(r, now, i);
		else
			i++;
	}
}

/* ---- the end */

void reorder_end_waiting(struct reorder *r, const struct reorder_now *now)
{
	while (r->free_count)
		take_free(r, now, 0);
	while (r->parked_count)
		unpark(r, now, r->parked, now->tsc);
	r->left_bytes = r->live_bytes;
	r->left_blocks = r->live_blocks;
}

struct gone {
	struct reorder *r;
	const struct reorder_now *now;
};

static void end_gone(void *ctx, const struct live_block *b)
{
	const struct gone *g = ctx;
	emit_end(g->r, g->now, b,
		 &(struct ending){.tsc = g->now->tsc, .thread = b->thread, .op = TRACE_GONE});
}

void reorder_end_thread(struct reorder *r, const struct reorder_now *now, struct reorder_thread *t)
{
	if (t->moving.addr)
		end_gone(&(struct gone){r, now}, &t->moving);
	t->moving.addr = 0;
}

void reorder_end_blocks(struct reorder *r, const struct reorder_now *now)
{
	live_blocks_all(&r->blocks, end_gone, &(struct gone){r, now});
	live_blocks_fini(&r->blocks);
}
