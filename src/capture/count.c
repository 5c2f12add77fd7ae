/* Counting: slots of threads, the shadow that has the slack of blocks, and folds (count.h has the fast half).
 *
 * Everything is in private memory of the process, so a forked child has its parent's numbers and goes on from there.
 * With a session (heft run --count) the sums are written into the session file now and then, and at the end.
 *
 * The peak of the process: at a fold a thread adds its change to the common level, and takes that level plus its own
 * greatest change since its last fold for a peak. With one thread that is exact. With several each may have up to
 * HEFT_COUNT_FOLD bytes that the others do not know of.
 *
 * Nothing here waits for another thread. */
#include "capture/count.h"

#include "capture/settings.h"

#include <sys/mman.h>

/* Between times that the sums are written into the session file: a killed process lacks what it counted since. It takes
 * longer with more slots, so that it is a small part of the time with any number. */
enum { PUBLISH_CYCLES = 200000, PUBLISH_SLOT_CYCLES = 20000 };
enum { SLOT_FREE, SLOT_TAKEN, SLOT_ENDS };
enum { SHADOW_TOP = 1 << 11, SHADOW_MIDDLE = 1 << 10 }; /* 47 bits of address in all */

struct counting {
	_Alignas(64) _Atomic int64_t level; /* of the process, as far as it was folded */
	_Atomic uint64_t peaks_in_use;
	struct heft_peak peaks[HEFT_PEAKS];
	_Atomic uint32_t slots_used; /* none from here on was ever taken */
	_Atomic uint64_t next_serial;
	_Atomic uint64_t published_tsc;
	/* What is published counts from here: in a forked child, what its parent had does not. */
	struct heft_count_sums before;
	int64_t level_before;
	_Atomic unsigned peak_since; /* the number of its peak */
	_Atomic(_Atomic(uint8_t *) *) shadows[SHADOW_TOP];
	struct heft_count_slot slots[HEFT_COUNT_SLOTS];
};

uint8_t heft_counts_alone;
unsigned heft_shadow_shift = 4;
static struct counting *_Atomic counting;

static void *map_zeros(size_t bytes)
{
	return sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
}

/* Several threads may come here at once: the memory of the first one counts. */
int heft_count_begin(void)
{
	struct counting *none = NULL;
	if (heft_counts())
		return 0;
	if (heft_resolve_next() || !heft_next.usable)
		return -1;
	struct counting *fresh = map_zeros(sizeof *fresh);
	if (!fresh)
		return heft_counts() ? 0 : -1;
	atomic_store(&fresh->peaks_in_use, 1);
	atomic_store(&fresh->peaks[0].serial, 1);
	atomic_store(&fresh->next_serial, 2);
	/* Sizes of 8 bytes may lie 8 bytes apart, but not in glibc. */
	heft_shadow_shift = heft_next.is_glibc ? 4 : 3;
	if (!atomic_compare_exchange_strong(&counting, &none, fresh))
		sys_munmap(fresh, sizeof *fresh);
	atomic_fetch_or(&heft_unusual.arena_used, HEFT_UNUSUAL_COUNTS);
	return 0;
}

/* ---- slots */

static int is_gone(int32_t tid)
{
	return tid > 0 && sys_thread_there(sys_getpid(), tid) == -ESRCH;
}

/* A slot whose thread has ended, or a new one. NULL: all are taken. */
static struct heft_count_slot *take_slot(void)
{
	uint32_t used = atomic_load(&counting->slots_used);
	for (uint32_t i = 0; i < used && i < HEFT_COUNT_SLOTS; i++) {
		struct heft_count_slot *c = &counting->slots[i];
		uint32_t state = atomic_load_explicit(&c->state, memory_order_relaxed);
		if (state == SLOT_TAKEN || (state == SLOT_ENDS && !is_gone(c->tid)))
			continue;
		if (atomic_compare_exchange_strong(&c->state, &state, SLOT_TAKEN))
			return c;
	}
	/* A new one is seen by others at once: who marks it has it. */
	for (;;) {
		uint32_t i = atomic_fetch_add(&counting->slots_used, 1), empty = SLOT_FREE;
		if (i >= HEFT_COUNT_SLOTS) {
			atomic_store(&counting->slots_used, HEFT_COUNT_SLOTS);
			return NULL;
		}
		if (atomic_compare_exchange_strong(&counting->slots[i].state, &empty, SLOT_TAKEN))
			return &counting->slots[i];
	}
}

static void read_sums(const struct heft_count_slot *c, struct heft_count_sums *s)
{
	s->allocations = (int64_t)atomic_load_explicit(&c->allocations, memory_order_relaxed);
	s->reallocations = (int64_t)atomic_load_explicit(&c->reallocations, memory_order_relaxed);
	s->frees = (int64_t)atomic_load_explicit(&c->frees, memory_order_relaxed);
	s->allocated_bytes = (int64_t)atomic_load_explicit(&c->allocated_bytes,
							   memory_order_relaxed);
	s->level = atomic_load_explicit(&c->level, memory_order_relaxed);
}

static void fold(struct heft_count_slot *c)
{
	int64_t level = atomic_load_explicit(&c->level, memory_order_relaxed);
	int64_t before = atomic_fetch_add(&counting->level, level - c->folded);
	int64_t seen = before + (c->high - c->folded);
	for (uint64_t left = atomic_load(&counting->peaks_in_use); left; left &= left - 1) {
		_Atomic int64_t *high = &counting->peaks[__builtin_ctzll(left)].high;
		int64_t was = atomic_load_explicit(high, memory_order_relaxed);
		while (seen > was && !atomic_compare_exchange_weak(high, &was, seen))
			;
	}
	if (c->high > c->peak)
		c->peak = c->high;
	for (uint32_t left = c->regions; left; left &= left - 1) {
		int64_t *high = &c->region_high[__builtin_ctz(left)];
		if (c->high > *high)
			*high = c->high;
	}
	c->folded = c->high = level;
	c->fold_above = level + HEFT_COUNT_FOLD;
	c->fold_below = level - HEFT_COUNT_FOLD;
}

/* More threads at once than there are slots share the last one. Then a few calls may be missed. */
struct heft_count_slot *heft_count_slot_new(struct heft_tls *tls)
{
	struct heft_own_work work = heft_own_work_begin();
	struct heft_count_slot *c = take_slot();
	if (!c) {
		tls->count = &counting->slots[HEFT_COUNT_SLOTS - 1];
	} else {
		c->regions = 0;
		c->near = UINTPTR_MAX;
		fold(c); /* what the last thread of this slot has left */
		read_sums(c, &c->first);
		c->peak = c->first.level;
		c->tid = sys_gettid();
		c->serial = atomic_fetch_add(&counting->next_serial, 1);
		tls->count = c;
	}
	heft_watch_end_of_thread(tls);
	heft_own_work_end(work);
	return tls->count;
}

/* Other destructors, and libc after all of them, may still free. So nobody gets the slot before the thread is gone. */
void heft_count_thread_ends(void)
{
	struct heft_count_slot *c = heft_tls_now()->count;
	if (!c || c == &counting->slots[HEFT_COUNT_SLOTS - 1])
		return;
	heft_count_fold(c);
	atomic_store(&c->state, SLOT_ENDS);
}

/* Of the parent's threads, only this one is there. */
static void forked(void)
{
	const struct heft_count_slot *own = heft_tls_now()->count;
	for (uint32_t i = 0; i < HEFT_COUNT_SLOTS && i < atomic_load(&counting->slots_used); i++)
		if (&counting->slots[i] != own)
			atomic_store(&counting->slots[i].state, SLOT_FREE);
	if (own)
		heft_tls_now()->count->tid = sys_gettid();
	if (heft_counts_alone) {
		/* That of the parent, if it was forked itself, is of no use here. Children of children would use up all. */
		if (counting->peak_since)
			heft_peak_release(counting->peak_since);
		int peak = heft_peak_take(heft_count_serial(), &counting->level_before);
		heft_count_sums(&counting->before);
		atomic_store(&counting->peak_since, peak < 0 ? 0 : (unsigned)peak);
	}
}

/* ---- the start */

/* Whether the object has heft.h's note. */
static int has_note(struct dl_phdr_info *info, size_t bytes, void *unused)
{
	static const char name[8] = "heft";
	(void)bytes, (void)unused;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		const char *at = (const char *)info->dlpi_addr + ph->p_vaddr,
			   *end = at + ph->p_memsz;
		while (ph->p_type == PT_NOTE && end - at >= (long)sizeof(ElfW(Nhdr))) {
			const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)at;
			const uint64_t name_bytes = (note->n_namesz + 3ull) & ~3ull;
			const uint64_t whole = sizeof *note + name_bytes +
					       ((note->n_descsz + 3ull) & ~3ull);
			if (whole > (uint64_t)(end - at))
				break;
			if (note->n_namesz == 5 && !__builtin_memcmp(note + 1, name, 5))
				return 1;
			at += whole;
		}
	}
	return 0;
}

int heft_count_as_settings_say(void)
{
	if (heft_counts())
		forked();
	else if (heft_settings.counts) {
		if (heft_count_begin())
			return -1;
		heft_counts_alone = 1;
	} else if (!heft_settings.sample_bytes && heft_settings.session_dir[0] &&
		   dl_iterate_phdr(has_note, NULL))
		heft_count_begin();
	return 0;
}

/* ---- sums and peaks */

void heft_count_sums(struct heft_count_sums *s)
{
	struct heft_count_sums one;
	uint32_t used = atomic_load(&counting->slots_used);
	*s = (struct heft_count_sums){0};
	for (uint32_t i = 0; i < used && i < HEFT_COUNT_SLOTS; i++) {
		read_sums(&counting->slots[i], &one);
		s->allocations += one.allocations;
		s->reallocations += one.reallocations;
		s->frees += one.frees;
		s->allocated_bytes += one.allocated_bytes;
		s->level += one.level;
	}
}

void heft_count_thread_sums(const struct heft_count_slot *c, struct heft_count_sums *s)
{
	read_sums(c, s);
	s->allocations -= c->first.allocations;
	s->reallocations -= c->first.reallocations;
	s->frees -= c->first.frees;
	s->allocated_bytes -= c->first.allocated_bytes;
	s->level -= c->first.level;
}

struct heft_peak *heft_peak(unsigned number)
{
	return &counting->peaks[number];
}

uint64_t heft_count_serial(void)
{
	return atomic_fetch_add(&counting->next_serial, 1);
}

int heft_peak_take(uint64_t serial, int64_t *level)
{
	heft_count_fold(heft_count_slot());
	uint64_t in_use = atomic_load(&counting->peaks_in_use);
	unsigned i;
	do {
		if (!~in_use)
			return -1;
		i = (unsigned)__builtin_ctzll(~in_use);
	} while (!atomic_compare_exchange_weak(&counting->peaks_in_use, &in_use,
					       in_use | 1ull << i));
	*level = atomic_load(&counting->level);
	atomic_store(&counting->peaks[i].high, *level);
	atomic_store(&counting->peaks[i].serial, serial);
	return (int)i;
}

void heft_peak_release(unsigned number)
{
	atomic_store(&counting->peaks[number].serial, 0);
	atomic_fetch_and(&counting->peaks_in_use, ~(1ull << number));
}

NOINLINE void heft_count_fold(struct heft_count_slot *c)
{
	fold(c);
	if (heft_counts_alone && sys_may_stamp()) {
		const uint64_t pause = PUBLISH_CYCLES +
				       (uint64_t)PUBLISH_SLOT_CYCLES *
					       atomic_load_explicit(&counting->slots_used,
								    memory_order_relaxed);
		uint64_t now = arch_stamp(), last = atomic_load(&counting->published_tsc);
		if (now - last > pause &&
		    atomic_compare_exchange_strong(&counting->published_tsc, &last, now))
			heft_count_publish();
	}
}

void heft_count_publish(void)
{
	struct heft_count_slot *c = heft_tls_now()->count;
	struct wire_header *h = heft_own_header();
	struct heft_count_sums s;
	if (!h || !heft_counts_alone)
		return;
	if (c)
		fold(c);
	const struct heft_count_sums *before = &counting->before;
	const unsigned peak = atomic_load(&counting->peak_since);
	heft_count_sums(&s);
	atomic_store(&h->counts.allocations, (uint64_t)(s.allocations - before->allocations));
	atomic_store(&h->counts.reallocations, (uint64_t)(s.reallocations - before->reallocations));
	atomic_store(&h->counts.frees, (uint64_t)(s.frees - before->frees));
	atomic_store(&h->counts.allocated_bytes,
		     (uint64_t)(s.allocated_bytes - before->allocated_bytes));
	atomic_store(&h->counts.live_bytes, s.level - before->level);
	atomic_store(&h->counts.peak_bytes,
		     (uint64_t)(atomic_load(&counting->peaks[peak].high) - counting->level_before));
	atomic_store(&h->counts.threads, atomic_load(&counting->slots_used));
}

/* ---- the shadow */

/* The shadow of the part of the heap that p is in. NULL: there is none; make: and no memory for one. */
static uint8_t *shadow_of(const void *p, bool make)
{
	const uintptr_t part = (uintptr_t)p >> HEFT_SHADOW_BITS;
	if (part >= (uintptr_t)SHADOW_TOP * SHADOW_MIDDLE)
		return NULL;
	_Atomic(_Atomic(uint8_t *) *) *top = &counting->shadows[part / SHADOW_MIDDLE];
	_Atomic(uint8_t *) *middle = atomic_load(top);
	if (!middle) {
		const size_t bytes = SHADOW_MIDDLE * sizeof *middle;
		_Atomic(uint8_t *) *fresh = make ? map_zeros(bytes) : NULL;
		if (!fresh)
			return NULL;
		if (atomic_compare_exchange_strong(top, &middle, fresh))
			middle = fresh;
		else
			sys_munmap(fresh, bytes);
	}
	_Atomic(uint8_t *) *place = &middle[part % SHADOW_MIDDLE];
	uint8_t *shadow = atomic_load(place);
	if (!shadow) {
		const size_t bytes = (1ul << HEFT_SHADOW_BITS) >> heft_shadow_shift;
		uint8_t *fresh = make ? map_zeros(bytes) : NULL;
		if (!fresh)
			return NULL;
		if (atomic_compare_exchange_strong(place, &shadow, fresh))
			shadow = fresh;
		else
			sys_munmap(fresh, bytes);
	}
	return shadow;
}

static uint8_t *shadow_near(struct heft_count_slot *c, const void *p, bool make)
{
	uint8_t *shadow = shadow_of(p, make);
	if (shadow) {
		c->near_shadow = shadow;
		c->near = (uintptr_t)p >> HEFT_SHADOW_BITS;
	}
	return shadow;
}

/* The byte of a place in the heap, which may be in the next part. */
static uint8_t *shadow_byte(uintptr_t p, bool make)
{
	uint8_t *shadow = shadow_of((const void *)p, make);
	return shadow ? &shadow[heft_shadow_index(p)] : NULL;
}

NOINLINE void heft_count_far_set(struct heft_count_slot *c, void *p, uint64_t slack)
{
	int saved = errno;
	uint8_t *shadow = shadow_near(c, p, true);
	if (shadow) {
		const bool is_long = slack >= HEFT_SLACK_LONG;
		shadow[heft_shadow_index((uintptr_t)p)] = is_long ? HEFT_SLACK_LONG
								  : (uint8_t)slack;
		for (unsigned i = 0; is_long && i < 8; i++) {
			uint8_t *b = shadow_byte((uintptr_t)p + ((i + 1ul) << heft_shadow_shift),
						 true);
			if (b)
				*b = (uint8_t)(slack >> 8 * i);
		}
	}
	errno = saved;
}

NOINLINE uint64_t heft_count_far_get(struct heft_count_slot *c, const void *p)
{
	const uint8_t *shadow = shadow_near(c, p, false);
	uint64_t slack = shadow ? shadow[heft_shadow_index((uintptr_t)p)] : 0;
	if (slack < HEFT_SLACK_LONG)
		return slack;
	slack = 0;
	for (unsigned i = 0; i < 8; i++) {
		const uint8_t *b = shadow_byte((uintptr_t)p + ((i + 1ul) << heft_shadow_shift),
					       false);
		slack |= (uint64_t)(b ? *b : 0) << 8 * i;
	}
	return slack;
}
