/* Counting inside: the statistics of include/heft.h. The fast half is here, inlined into the hooks; the slow half is
 * in count.c.
 *
 * A thread counts in a slot of its own. `level` is what it has allocated less what it has freed. Every FOLD bytes,
 * and every CALLS new blocks, it adds its change to the level of the process, and compares with the peaks that somebody
 * wants to know (a fold).
 *
 * The size of a block that ends is its usable size less its slack, which is kept in a shadow of the heap: a byte for each
 * place where a block may begin. A block that is older than the counting has a zero there, so it counts by its usable size. */
#ifndef HEFT_CAPTURE_COUNT_H
#define HEFT_CAPTURE_COUNT_H

#include "capture/inside.h"

#include <stdbool.h>

enum {
	HEFT_COUNT_SLOTS = 8192,
	HEFT_COUNT_FOLD =
		32
		<< 10, /* the peak of several threads is right within this, for each of them and once more */
	HEFT_COUNT_CALLS = 256, /* a thread that only makes small blocks folds as often as this */
	HEFT_THREAD_REGIONS = 32,
	HEFT_SHADOW_BITS = 26, /* bytes of the heap that one shadow is for */
	HEFT_SLACK_LONG =
		255, /* the slack is in the next eight bytes of the shadow: they are of the same block */
};

struct heft_count_sums {
	int64_t allocations, reallocations, frees, allocated_bytes, level;
};

/* Only its thread writes a slot. Numbers go on from one thread of the slot to the next, so their sum over all slots is
 * right at any time. */
struct heft_count_slot {
	_Alignas(128) _Atomic uint64_t allocations;
	_Atomic uint64_t reallocations, frees, allocated_bytes;
	_Atomic int64_t level;
	int64_t high;                   /* the greatest level since the last fold */
	int64_t fold_above, fold_below; /* the next fold: when the level comes there */
	uintptr_t near;                 /* the part of the heap whose shadow was used last, ... */
	uint8_t *near_shadow;           /* ... and that shadow */
	int64_t folded;                 /* the level at the last fold */
	_Atomic uint32_t state;
	int32_t tid;
	uint32_t regions; /* a bit for each that this thread has begun */
	/* Of this thread: the slot's numbers when it began, and its greatest level so far */
	uint64_t serial;
	struct heft_count_sums first;
	int64_t peak;
	int64_t region_high[HEFT_THREAD_REGIONS]; /* the greatest level since it began */
	uint64_t region_serial[HEFT_THREAD_REGIONS];
};

static inline bool heft_is_stopped(void)
{
	return (atomic_load_explicit(&heft_unusual.arena_used, memory_order_relaxed) &
		HEFT_UNUSUAL_STOPPED) != 0;
}

#ifdef HEFT_BLOB
static inline int heft_count_as_settings_say(void)
{
	return 0;
}
static inline void heft_count_publish(void)
{
}
static inline bool heft_counts(void)
{
	return false;
}
static inline bool heft_counts_only(void)
{
	return false;
}
static inline void heft_count_new(void *p, size_t size)
{
	(void)p, (void)size;
}
static inline void heft_count_end(void *p)
{
	(void)p;
}
static inline void heft_count_ended(size_t size)
{
	(void)size;
}
static inline size_t heft_count_size(void *p)
{
	(void)p;
	return 0;
}
static inline void heft_count_resized(void *p, size_t had, size_t size)
{
	(void)p, (void)had, (void)size;
}
#else
/* One look at a word that calls look at anyway */
static inline bool heft_counts(void)
{
	return (atomic_load_explicit(&heft_unusual.arena_used, memory_order_relaxed) &
		HEFT_UNUSUAL_COUNTS) != 0;
}
extern HIDDEN uint8_t heft_counts_alone; /* nothing is recorded: heft run --count */
static inline bool heft_counts_only(void)
{
	return heft_counts_alone;
}

/* The process begins, or is a forked child. 0, or -1: it was to count and nothing else, and cannot. */
HIDDEN int heft_count_as_settings_say(void);
/* Begins to count, if nobody has. 0, or -1: there is no memory for it, or the allocator does not tell sizes. */
HIDDEN int heft_count_begin(void);
HIDDEN void heft_count_thread_ends(void);
/* Writes the sums into the session file, for whoever is outside. */
HIDDEN void heft_count_publish(void);

HIDDEN struct heft_count_slot *heft_count_slot_new(struct heft_tls *tls);
HIDDEN void heft_count_fold(struct heft_count_slot *c);
HIDDEN void heft_count_far_set(struct heft_count_slot *c, void *p, uint64_t slack);
HIDDEN uint64_t heft_count_far_get(struct heft_count_slot *c, const void *p);
extern HIDDEN unsigned heft_shadow_shift; /* blocks begin at multiples of 1 << this */

static inline struct heft_count_slot *heft_count_slot(void)
{
	struct heft_tls *tls = heft_tls_now();
	return LIKELY(tls->count) ? tls->count : heft_count_slot_new(tls);
}

#define HEFT_COUNT_ADD(field, n)                                                                   \
	atomic_store_explicit(&(field),                                                            \
			      atomic_load_explicit(&(field), memory_order_relaxed) + (n),          \
			      memory_order_relaxed)

static inline void heft_count_raise(struct heft_count_slot *c, uint64_t bytes)
{
	int64_t level = atomic_load_explicit(&c->level, memory_order_relaxed) + (int64_t)bytes;
	atomic_store_explicit(&c->level, level, memory_order_relaxed);
	if (level > c->high) {
		c->high = level;
		if (UNLIKELY(level > c->fold_above))
			heft_count_fold(c);
	}
}

static inline void heft_count_lower(struct heft_count_slot *c, uint64_t bytes)
{
	int64_t level = atomic_load_explicit(&c->level, memory_order_relaxed) - (int64_t)bytes;
	atomic_store_explicit(&c->level, level, memory_order_relaxed);
	if (UNLIKELY(level < c->fold_below))
		heft_count_fold(c);
}

static inline size_t heft_shadow_index(uintptr_t p)
{
	return (p & ((1ul << HEFT_SHADOW_BITS) - 1)) >> heft_shadow_shift;
}

static inline uint64_t heft_count_usable(void *p)
{
	if (LIKELY(heft_next.is_glibc)) {
		uint64_t chunk = *(const uint64_t *)((uintptr_t)p -
						     8); /* hotpath.h, usable_bytes */
		if (LIKELY(!(chunk & 2)))
			return (chunk & ~7ull) - 8;
	}
	return heft_next.usable(p);
}

static inline void heft_count_keep(struct heft_count_slot *c, void *p, uint64_t size)
{
	uint64_t usable = heft_count_usable(p), slack = usable > size ? usable - size : 0;
	if (LIKELY((uintptr_t)p >> HEFT_SHADOW_BITS == c->near && slack < HEFT_SLACK_LONG))
		c->near_shadow[heft_shadow_index((uintptr_t)p)] = (uint8_t)slack;
	else
		heft_count_far_set(c, p, slack);
}

/* A new block */
static inline void heft_count_new(void *p, size_t size)
{
	struct heft_count_slot *c = heft_count_slot();
	const uint64_t calls = atomic_load_explicit(&c->allocations, memory_order_relaxed) + 1;
	atomic_store_explicit(&c->allocations, calls, memory_order_relaxed);
	HEFT_COUNT_ADD(c->allocated_bytes, size);
	heft_count_keep(c, p, size);
	heft_count_raise(c, size);
	if (UNLIKELY(calls % HEFT_COUNT_CALLS == 0))
		heft_count_fold(c);
}

/* What was asked for when the block was made or resized */
static inline uint64_t heft_count_size_of(struct heft_count_slot *c, void *p)
{
	uint64_t usable = heft_count_usable(p), slack;
	if (LIKELY((uintptr_t)p >> HEFT_SHADOW_BITS == c->near) &&
	    LIKELY((slack = c->near_shadow[heft_shadow_index((uintptr_t)p)]) < HEFT_SLACK_LONG))
		;
	else
		slack = heft_count_far_get(c, p);
	return slack < usable ? usable - slack : 0;
}

static inline size_t heft_count_size(void *p)
{
	return heft_count_size_of(heft_count_slot(), p);
}

/* A block of that size has been freed. */
static inline void heft_count_ended(size_t size)
{
	struct heft_count_slot *c = heft_count_slot();
	HEFT_COUNT_ADD(c->frees, 1);
	heft_count_lower(c, size);
}

/* A block is about to be freed. */
static inline void heft_count_end(void *p)
{
	heft_count_ended(heft_count_size(p));
}

/* A block of `had` bytes has become p, by a realloc. */
static inline void heft_count_resized(void *p, size_t had, size_t size)
{
	struct heft_count_slot *c = heft_count_slot();
	HEFT_COUNT_ADD(c->reallocations, 1);
	heft_count_keep(c, p, size);
	if (size > had) {
		HEFT_COUNT_ADD(c->allocated_bytes, size - had);
		heft_count_raise(c, size - had);
	} else
		heft_count_lower(c, had - size);
}

/* ---- for regions.c: the same numbers, read */

HIDDEN void heft_count_sums(struct heft_count_sums *s); /* of the process */
HIDDEN void heft_count_thread_sums(const struct heft_count_slot *c,
				   struct heft_count_sums *s); /* of the slot's present thread */
/* The process's peaks since moments that somebody wants to know. Number 0 is the start. */
enum { HEFT_PEAKS = 64 };
struct heft_peak {
	_Atomic int64_t high;
	_Atomic uint64_t serial; /* which region; 0: none */
};
HIDDEN struct heft_peak *heft_peak(unsigned number);
HIDDEN uint64_t heft_count_serial(void); /* a new one for a region; never 0 */
/* Takes a number, and stores the level of now. -1: all are taken. */
HIDDEN int heft_peak_take(uint64_t serial, int64_t *level);
HIDDEN void heft_peak_release(unsigned number);
#endif

#endif
