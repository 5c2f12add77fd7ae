/* Adds up matched events (see tally.h for what and why).
 *
 * This runs once for every event while a program is being recorded, on a core
 * that the program could use, so it is written for the cache: the
 * numbers every event touches are the first 64 bytes of struct tally_site,
 * and the site of an event some steps ahead is prefetched. Lifetimes land in
 * the histogram at the end of the struct.
 *
 * Invariants: live_bytes of the tally is the sum over its sites; peak_epoch
 * rises exactly when the sum exceeds every sum before; a site's peak numbers
 * are those of epoch `peak_epoch` of that site. */
#include "tally/tally.h"

#include "hosted/error.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
enum { HUGE_PAGE = 2 << 20, MAPPED_FROM = 4 << 20 };
enum { PREFETCH_AHEAD = 6, PREFETCH_FROM = 1024 };

void tally_init(struct tally *t)
{
	memset(t, 0, sizeof *t);
}

/* Large arrays are mapped. Their pages are zero and take memory only when they are touched, so capacity costs
 * nothing and grows in large steps. The many sites of a large program are worth huge pages, for they are touched
 * in any order. */
static bool is_mapped(size_t bytes)
{
	return bytes >= MAPPED_FROM;
}

static void *map_zeroed(size_t bytes)
{
	unsigned char *p = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	size_t before = -(uintptr_t)p & (HUGE_PAGE - 1);
	if (before)
		munmap(p, before);
	munmap(p + before + bytes, HUGE_PAGE - before);
	madvise(p + before, bytes, MADV_HUGEPAGE); /* if it can be had */
	return p + before;
}

static void give_back(void *array, size_t bytes)
{
	if (is_mapped(bytes))
		munmap(array, bytes);
	else
		free(array);
}

void tally_fini(struct tally *t)
{
	give_back(t->sites, t->site_capacity * sizeof *t->sites);
	give_back(t->threads, t->thread_capacity * sizeof *t->threads);
	memset(t, 0, sizeof *t);
}

/* So many elements, doubled or more until they are enough; zeroed. NULL: no memory. */
static void *allocate(size_t *count, uint32_t need, size_t element, unsigned mapped_factor)
{
	while (*count < need)
		*count *= is_mapped(*count * element) ? mapped_factor : 2;
	if (*count > UINT32_MAX)
		return NULL;
	size_t bytes = *count *
		       element; /* a power of two of elements: whole pages where it is mapped */
	if (is_mapped(bytes))
		return map_zeroed(bytes);
	/* 64-byte alignment keeps the hot fields of a site in one cache line. */
	void *p = aligned_alloc(64, (bytes + 63) & ~63ul);
	return p ? memset(p, 0, bytes) : NULL;
}

static int grow(void **array, uint32_t *capacity, uint32_t need, size_t element)
{
	if (need <= *capacity)
		return 0;
	size_t old = *capacity * element, first = *capacity ? *capacity : 64, count = first;
	void *p = allocate(&count, need, element, 8);
	if (!p) { /* some systems count what is mapped as if it were used */
		count = first;
		p = allocate(&count, need, element, 2);
	}
	if (!p)
		return HEFT_ENOMEM;
	if (old)
		memcpy(p, *array, old);
	give_back(*array, old);
	*array = p;
	*capacity = (uint32_t)count;
	return 0;
}

int tally_reserve(struct tally *t, uint32_t sites, uint32_t threads)
{
	void *p = t->sites;
	int rc = grow(&p, &t->site_capacity, sites, sizeof *t->sites);
	t->sites = p;
	if (rc)
		return rc;
	p = t->threads;
	rc = grow(&p, &t->thread_capacity, threads, sizeof *t->threads);
	t->threads = p;
	if (rc)
		return rc;
	if (sites > t->site_count)
		t->site_count = sites;
	if (threads > t->thread_count)
		t->thread_count = threads;
	return 0;
}

static inline void keep_peak(const struct tally *t, struct tally_site *s)
{
	if (s->peak_epoch != t->peak_epoch) {
		s->peak_epoch = t->peak_epoch;
		s->peak_bytes = s->live_bytes;
		s->peak_blocks = s->live_blocks;
		s->peak_slack = s->live_slack;
	}
}

static inline void end_of_life(struct tally_site *s, uint64_t lifetime_ns)
{
	s->lifetime_sum_ns += lifetime_ns;
	if (lifetime_ns > s->lifetime_max_ns)
		s->lifetime_max_ns = lifetime_ns;
	unsigned bucket = 55u - (unsigned)__builtin_clzll(lifetime_ns | 256);
	if (UNLIKELY(bucket >= TALLY_BUCKETS))
		bucket = TALLY_BUCKETS - 1;
	s->lifetime[bucket] += s->lifetime[bucket] != UINT32_MAX;
}

/* Called after s changed: notes whether it has more than ever. */
static inline void note_own_peak(struct tally *t, struct tally_site *s)
{
	if (s->live_bytes > s->own_peak_bytes) {
		s->own_peak_bytes = s->live_bytes;
		if (UNLIKELY(s->live_bytes >= t->notable_bytes && !s->watched) && t->behaviour)
			t->notable_bytes = behaviour_watch(t->behaviour, t,
							   (uint32_t)(s - t->sites));
	}
}

/* A thread frees a block of its own. */
static void on_full_stay(struct behaviour *b, const struct tally_site *s,
			 const struct trace_event *e)
{
	const struct behaviour_hand hand = {e->time_ns,
					    e->lifetime_ns,
					    e->size,
					    e->site,
					    e->thread,
					    e->thread,
					    behaviour_stay_weight(s->frees)};
	if (hand.weight)
		behaviour_on_stay(b, &hand, s->live_blocks, s->live_bytes);
}

static __attribute__((noinline)) void apply(struct tally *t, const struct trace_event *e)
{
	struct tally_site *sites = t->sites;
	struct behaviour *behaviour = t->behaviour;
	struct tally_site *s = &sites[e->site];
	keep_peak(t, s);
	switch ((enum trace_op)e->op) {
	case TRACE_ALLOC: {
		struct tally_thread *th = &t->threads[e->thread];
		th->allocations++;
		th->allocated_bytes += e->size;
		s->allocations++;
		s->allocated_bytes += e->size;
		s->live_bytes += e->size;
		s->live_blocks++;
		s->live_slack += e->slack;
		t->live_bytes += e->size;
		t->live_blocks++;
		break;
	}
	case TRACE_FREE:
		if (UNLIKELY((e->thread != e->birth_thread) |
			     ((e->flags & TRACE_BEHAVIOUR_FLAGS) != 0)) &&
		    behaviour)
			behaviour_on_free(behaviour, e, s->live_blocks, s->live_bytes);
		if (s->watched && e->thread == e->birth_thread && !(e->flags & TRACE_TEMPORARY) &&
		    behaviour)
			on_full_stay(behaviour, s, e);
		t->threads[e->thread].frees++;
		s->frees++;
		s->live_bytes -= e->size;
		s->live_blocks--;
		s->live_slack -= e->slack;
		s->temporary += e->flags & TRACE_TEMPORARY;
		s->cross_thread_frees += e->thread != e->birth_thread;
		t->live_bytes -= e->size;
		t->live_blocks--;
		end_of_life(s, e->lifetime_ns);
		break;
	case TRACE_REALLOC: {
		struct tally_site *old = &sites[e->old_site];
		struct tally_thread *th = &t->threads[e->thread];
		if (behaviour)
			behaviour_on_realloc(behaviour, e);
		uint64_t growth = e->size > e->old_size ? e->size - e->old_size : 0;
		keep_peak(t, old);
		old->live_bytes -= e->old_size;
		old->live_blocks--;
		old->live_slack -= e->old_slack;
		th->reallocations++;
		th->allocated_bytes += growth;
		s->reallocations++;
		s->reallocated_bytes += e->size;
		s->allocated_bytes += growth;
		s->live_bytes += e->size;
		s->live_blocks++;
		s->live_slack += e->slack;
		t->live_bytes += e->size - e->old_size;
		break;
	}
	case TRACE_GONE:
		if (UNLIKELY(e->flags & TRACE_BEHAVIOUR_FLAGS) && behaviour)
			behaviour_on_free(behaviour, e, s->live_blocks, s->live_bytes);
		s->live_bytes -= e->size;
		s->live_blocks--;
		s->live_slack -= e->slack;
		s->end_bytes += e->size;
		s->end_blocks++;
		s->end_slack += e->slack;
		t->live_bytes -= e->size;
		t->live_blocks--;
		end_of_life(s, e->lifetime_ns);
		break;
	}
	note_own_peak(t, s);
	if (t->live_bytes > t->peak_bytes) {
		t->peak_bytes = t->live_bytes;
		t->peak_blocks = t->live_blocks;
		t->peak_time_ns = e->time_ns;
		t->peak_epoch++;
	}
}

/* Applies events that all belong to the current slot of history. */
static void apply_events(struct tally *t, const struct trace_event *events, size_t count)
{
	/* Few sites are in the cache anyway. */
	const size_t far = t->site_count > PREFETCH_FROM && count > PREFETCH_AHEAD
				   ? count - PREFETCH_AHEAD
				   : 0;
	for (size_t i = 0; i < count; i++) {
		if (i < far) {
			const struct trace_event *ahead = &events[i + PREFETCH_AHEAD];
			__builtin_prefetch(&t->sites[ahead->site], 1);
			if (ahead->op != TRACE_ALLOC)
				__builtin_prefetch(&t->sites[ahead->site].lifetime_sum_ns, 1);
		}
		apply(t, &events[i]);
	}
	t->events += count;
}

void tally_apply(struct tally *t, const struct trace_event *events, size_t count)
{
	while (t->behaviour && count) {
		behaviour_advance(t->behaviour, t, events[0].time_ns);
		uint64_t end_ns = behaviour_slot_end(t->behaviour);
		if (events[count - 1].time_ns < end_ns)
			break;
		size_t before = 1;
		while (before < count && events[before].time_ns < end_ns)
			before++;
		apply_events(t, events, before);
		events += before;
		count -= before;
	}
	apply_events(t, events, count);
}

static __attribute__((noinline)) void on_cross(struct tally *t, struct tally_site *s,
					       const struct trace_brief *b)
{
	const struct behaviour_hand hand = {.time_ns = b->time_ns,
					    .lifetime_ns = b->lifetime_ns,
					    .size = trace_brief_size(b),
					    .site = trace_brief_site(b),
					    .from = trace_brief_birth(b),
					    .to = b->thread,
					    .weight = 1};
	s->cross_thread_frees++;
	if (t->behaviour)
		behaviour_on_handover(t->behaviour, &hand, s->live_blocks, s->live_bytes);
}

/* A thread frees a block of its own, and this free counts. */
static __attribute__((noinline)) void on_stay(struct tally *t, const struct tally_site *s,
					      const struct trace_brief *b)
{
	const struct behaviour_hand hand = {.time_ns = b->time_ns,
					    .lifetime_ns = b->lifetime_ns,
					    .size = trace_brief_size(b),
					    .site = trace_brief_site(b),
					    .from = b->thread,
					    .to = b->thread,
					    .weight = behaviour_stay_weight(s->frees)};
	if (t->behaviour)
		behaviour_on_stay(t->behaviour, &hand, s->live_blocks, s->live_bytes);
}

/* Adds up the brief events from b to end, which may lie between the two events of a pair. It counts what
 * `apply` counts: change both. */
static void apply_briefs(struct tally *t, const struct trace_batch *batch,
			 const struct trace_brief *b, const struct trace_brief *const end)
{
	struct tally_site *const sites = t->sites;
	struct tally_thread *const threads = t->threads;
	const bool far = t->site_count > PREFETCH_FROM;
	t->events += (uint64_t)(end - b);
	uint64_t live_bytes = t->live_bytes, live_blocks = t->live_blocks;
	for (; b < end; b++) {
		const uint64_t size = trace_brief_size(b), slack = trace_brief_slack(b);
		struct tally_site *const s = &sites[trace_brief_site(b)];
		const uint32_t kind = trace_brief_kind(b);
		if (far && b + PREFETCH_AHEAD < end) { /* a wrong place, if that one is not brief */
			struct tally_site *next = &sites[trace_brief_site(b + PREFETCH_AHEAD)];
			__builtin_prefetch(next, 1);
			__builtin_prefetch(&next->lifetime_sum_ns, 1);
		}
		if (kind == TRACE_BRIEF_ALLOC) {
			struct tally_thread *const th = &threads[b->thread];
			const uint64_t own_bytes = s->live_bytes + size;
			th->allocations++;
			th->allocated_bytes += size;
			s->allocations++;
			s->allocated_bytes += size;
			if (trace_brief_is_pair(b) && own_bytes <= s->own_peak_bytes &&
			    live_bytes + size <= t->peak_bytes && b + 1 < end) {
				b++;
				th->frees++;
				s->frees++;
				s->temporary++;
				end_of_life(s, b->lifetime_ns);
				continue;
			}
			keep_peak(t, s);
			s->live_bytes = own_bytes;
			s->live_blocks++;
			s->live_slack += slack;
			live_bytes += size;
			live_blocks++;
			if (own_bytes > s->own_peak_bytes)
				note_own_peak(t, s);
			if (live_bytes > t->peak_bytes) {
				t->peak_bytes = live_bytes;
				t->peak_blocks = live_blocks;
				t->peak_time_ns = b->time_ns;
				t->peak_epoch++;
			}
		} else if (LIKELY(kind != TRACE_BRIEF_FULL)) {
			keep_peak(t, s);
			if (kind == TRACE_BRIEF_FREE_CROSS)
				on_cross(t, s, b);
			else if (s->watched && kind == TRACE_BRIEF_FREE &&
				 UNLIKELY(behaviour_stay_weight(s->frees)))
				on_stay(t, s, b);
			threads[b->thread].frees++;
			s->frees++;
			s->live_bytes -= size;
			s->live_blocks--;
			s->live_slack -= slack;
			s->temporary += kind & 1;
			live_bytes -= size;
			live_blocks--;
			end_of_life(s, b->lifetime_ns);
		} else {
			t->live_bytes = live_bytes;
			t->live_blocks = live_blocks;
			apply(t, &batch->full[b->block]);
			live_bytes = t->live_bytes;
			live_blocks = t->live_blocks;
		}
	}
	t->live_bytes = live_bytes;
	t->live_blocks = live_blocks;
}
_Static_assert((TRACE_BRIEF_FREE_TEMP & 1) == 1 &&
		       ((TRACE_BRIEF_FREE | TRACE_BRIEF_FREE_CROSS) & 1) == 0,
	       "a temporary block counts as one");

void tally_apply_batch(struct tally *t, const struct trace_batch *batch)
{
	const struct trace_brief *b = batch->brief, *const end = b + batch->count;
	while (t->behaviour && b < end) {
		behaviour_advance(t->behaviour, t, b->time_ns);
		uint64_t end_ns = behaviour_slot_end(t->behaviour);
		if (end[-1].time_ns < end_ns)
			break;
		const struct trace_brief *next = b + 1;
		while (next < end && next->time_ns < end_ns)
			next++;
		apply_briefs(t, batch, b, next);
		b = next;
	}
	apply_briefs(t, batch, b, end);
}

void tally_update_peaks(struct tally *t)
{
	for (uint32_t i = 0; i < t->site_count; i++)
		keep_peak(t, &t->sites[i]);
}

uint64_t tally_lifetime_quantile(const struct tally_site *s, double fraction)
{
	uint64_t total = 0;
	for (int i = 0; i < TALLY_BUCKETS; i++)
		total += s->lifetime[i];
	if (!total)
		return 0;
	double want = fraction * (double)total;
	double seen = 0;
	for (int i = 0; i < TALLY_BUCKETS; i++) {
		double here = (double)s->lifetime[i];
		if (here > 0 && seen + here >= want) {
			double low = i ? (double)(1ull << (i + 8)) : 0;
			double high = (double)(1ull << (i + 9));
			double at = low + (high - low) * (want - seen) / here;
			return at < (double)s->lifetime_max_ns ? (uint64_t)at : s->lifetime_max_ns;
		}
		seen += here;
	}
	return s->lifetime_max_ns;
}
