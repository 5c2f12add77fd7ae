/* Sampled mode: the slow half. It runs about once in rate_bytes allocated bytes.
 *
 * A thread draws the distance to its next sample from an exponential
 * distribution and counts it down. The block that reaches it is a sample, with
 * probability 1 - exp(-(size + 1)/rate), independent of everything else. Then the
 * thread draws again, from the end of the block (the distribution has no memory).
 * A thread draws its first distance at its first allocation, and tests that
 * allocation against it. A sample carries the rate at which its distance was drawn.
 *
 * A sample enters the table of live samples, and its weight is added to the sum of
 * its site. When the block is freed it leaves the table. A sample that finds no place
 * is counted as dropped.
 *
 * While sampling is switched off, a thread looks at the switch again after OFF_BYTES.
 * Frees still remove live samples, so that none is left over when it is switched on
 * again. When no sample is live the gate lets every call pass, until the outside
 * opens it. */
#include "capture/sample.h"

#include "capture/hotpath.h"
#include "capture/poisson.h"

#include <sys/auxv.h>

#define OFF_BYTES (4ull << 20)

uint8_t heft_sampling;
unsigned char heft_gate_page[HEFT_GATE_PAGE] __attribute__((aligned(HEFT_GATE_PAGE)));
_Atomic uint8_t heft_filter[1 << HEFT_FILTER_BITS];

/* ---- the filter */

void heft_filter_keep(const void *p)
{
	atomic_store_explicit(&heft_filter[heft_filter_slot(p)], 255, memory_order_relaxed);
}

static void filter_add(const void *p)
{
	_Atomic uint8_t *f = &heft_filter[heft_filter_slot(p)];
	uint8_t now = atomic_load_explicit(f, memory_order_relaxed);
	while (now < 255 && !atomic_compare_exchange_weak(f, &now, (uint8_t)(now + 1)))
		;
}

static void filter_remove(const void *p)
{
	_Atomic uint8_t *f = &heft_filter[heft_filter_slot(p)];
	uint8_t now = atomic_load_explicit(f, memory_order_relaxed);
	while (now && now < 255 && !atomic_compare_exchange_weak(f, &now, (uint8_t)(now - 1)))
		;
}

/* ---- drawing */

static uint64_t seed(struct heft_tls *tls)
{
	const uint64_t *random = (const uint64_t *)heft_auxiliary(AT_RANDOM);
	uint64_t s = (random ? random[0] : 0) ^ arch_stamp() ^ (uint64_t)(uintptr_t)tls << 17 ^
		     (uint64_t)heft_around_tid() << 40;
	return s;
}

/* Blocks of the start-up arena must never reach the allocator, so if there are any, frees have to be looked
 * at. A sample that is added meanwhile makes the exchange fail. One that is added after it finds the gate
 * closed and opens it (put_block), before anybody knows the block and can free it. */
void heft_gate_set(struct wire_header *h)
{
	struct wire_sampling *s = &h->sampling;
	union {
		uint64_t both;
		struct {
			uint32_t gate, live;
		};
	} was = {.both = atomic_load(&s->gate_and_live)}, now;
	do {
		now = was;
		now.gate = atomic_load(&s->on) || was.live || atomic_load(&heft_unusual.arena_used)
				   ? WIRE_GATE_COUNT
				   : WIRE_GATE_PASS;
	} while (!atomic_compare_exchange_weak(&s->gate_and_live, &was.both, now.both));
	/* The outside may have switched it on in between, and opened the gate before we closed it. */
	if (now.gate == WIRE_GATE_PASS && atomic_load(&s->on))
		atomic_store(&s->gate, WIRE_GATE_COUNT);
}

/* Draws the distance to the next sample into *left. Returns the rate that it was drawn with; 0: sampling is
 * switched off, and *left is when to look again. */
static uint64_t draw(struct heft_tls *tls, struct wire_header *h, uint64_t *left)
{
	uint64_t rate = h ? atomic_load_explicit(&h->sampling.rate_bytes, memory_order_relaxed) : 0;
	if (!rate || !atomic_load_explicit(&h->sampling.on, memory_order_relaxed)) {
		*left = OFF_BYTES;
		if (h && rate) {
			heft_gate_set(h);
			if (heft_gate_now() == WIRE_GATE_PASS)
				*left = 0; /* no call comes here until it is switched on */
		}
		return 0;
	}
	if (UNLIKELY(!tls->random))
		tls->random = seed(tls) | 1;
	*left = poisson_distance(&tls->random, rate);
	return rate;
}

/* ---- the tables */

static void add_double(_Atomic uint64_t *to, double value)
{
	union {
		double d;
		uint64_t bits;
	} was, sum;
	was.bits = atomic_load_explicit(to, memory_order_relaxed);
	do
		sum.d = was.d + value;
	while (!atomic_compare_exchange_weak(to, &was.bits, sum.bits));
}

/* How many levels of a kind are in use. The header is shared, so it may hold anything. */
static unsigned levels_in_use(_Atomic uint32_t *levels)
{
	uint32_t n = atomic_load_explicit(levels, memory_order_acquire);
	uint32_t most = atomic_load_explicit(&heft_part.levels, memory_order_relaxed);
	return n < most ? n : most;
}

/* Takes the level after those `n` into use. False: there is no memory for it. */
static bool add_level(_Atomic uint32_t *levels, unsigned n, void *first, size_t bytes)
{
	uint32_t before = n;
	if (sys_populate(first, bytes))
		return false;
	atomic_compare_exchange_strong(levels, &before, n + 1);
	return true;
}

static bool add_live_level(struct wire_header *h, unsigned n)
{
	if (n >= atomic_load_explicit(&heft_part.levels, memory_order_relaxed))
		return false;
	struct wire_live_level l = wire_live_level(h, n);
	return add_level(&h->sampling.live_levels, n, l.addresses, WIRE_LIVE_BYTES << l.bits);
}

static bool add_sum_level(struct wire_header *h, unsigned n)
{
	if (n >= atomic_load_explicit(&heft_part.levels, memory_order_relaxed))
		return false;
	struct wire_sum_level l = wire_sum_level(h, n);
	return add_level(&h->sampling.sum_levels, n, l.sums, sizeof *l.sums << l.bits);
}

int heft_sample_make_tables(struct wire_header *h)
{
	return add_live_level(h, 0) && add_sum_level(h, 0) ? 0 : -1;
}

static struct wire_sum *find_sum(struct wire_sum_level l, uint32_t site)
{
	uint32_t mask = (1u << l.bits) - 1, at = site * 0x9e3779b1u >> (32 - l.bits);
	for (uint32_t i = 0; i < WIRE_SUM_PROBES; i++, at = (at + 1) & mask) {
		struct wire_sum *sum = &l.sums[at];
		uint32_t here = atomic_load_explicit(&sum->site, memory_order_relaxed);
		if (!here && atomic_compare_exchange_strong(&sum->site, &here, site))
			here = site;
		if (here == site)
			return sum;
	}
	return NULL;
}

static bool add_sum(struct wire_header *h, uint32_t site, uint64_t size, uint64_t rate)
{
	struct wire_sum *sum = NULL;
	unsigned n = levels_in_use(&h->sampling.sum_levels);
	for (unsigned i = 0; i < n && !sum; i++)
		sum = find_sum(wire_sum_level(h, i), site);
	if (!sum && add_sum_level(h, n))
		sum = find_sum(wire_sum_level(h, n), site);
	if (!sum)
		return false;
	double chance = poisson_chance((double)(size + 1) / (double)rate);
	double objects = 1 / chance, bytes = (double)size * objects;
	/* What this sample adds to the variance of an estimate: S^2 (1-p)/p^2. */
	double spread = (1 - chance) * objects * objects;
	atomic_fetch_add_explicit(&sum->samples, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&sum->bytes_16, (uint64_t)(bytes * 16 + 0.5),
				  memory_order_relaxed);
	atomic_fetch_add_explicit(&sum->objects_1024, (uint64_t)(objects * 1024 + 0.5),
				  memory_order_relaxed);
	add_double(&sum->objects_variance, spread);
	add_double(&sum->bytes_variance, spread * (double)size * (double)size);
	return true;
}

/* Slot i of the 16 that an address may be in. */
static inline uint32_t slot_of(uint32_t first, uint32_t i)
{
	return (first ^ (i & WIRE_SAMPLE_BUCKET)) + i % WIRE_SAMPLE_BUCKET;
}

static bool put_block(struct wire_header *h, struct wire_live_level l, const void *p,
		      const struct wire_sample *b)
{
	uint32_t first = wire_sample_bucket((uint64_t)p, l.bits);
	for (uint32_t i = 0; i < 2 * WIRE_SAMPLE_BUCKET; i++) {
		uint32_t at = slot_of(first, i);
		uint64_t empty = 0;
		if (atomic_load_explicit(&l.addresses[at], memory_order_relaxed) ||
		    !atomic_compare_exchange_strong(&l.addresses[at], &empty, WIRE_SAMPLE_BUSY))
			continue;
		l.blocks[at] = *b;
		atomic_store_explicit(&l.addresses[at], (uint64_t)p, memory_order_release);
		filter_add(p);
		atomic_fetch_add(&h->sampling.live, 1);
		if (UNLIKELY(heft_gate_now() != WIRE_GATE_COUNT)) /* switched off a moment ago */
			heft_gate_set(h);
		return true;
	}
	return false;
}

static bool add_block(struct wire_header *h, const void *p, const struct wire_sample *b)
{
	unsigned n = levels_in_use(&h->sampling.live_levels);
	for (unsigned i = 0; i < n; i++)
		if (put_block(h, wire_live_level(h, i), p, b))
			return true;
	return add_live_level(h, n) && put_block(h, wire_live_level(h, n), p, b);
}

/* The place of an address in a bucket; WIRE_SAMPLE_BUCKET: it is not there. The loop is unrolled: with
 * thousands of live samples some frees of other blocks come here, and nearly all of them find nothing. */
static inline uint32_t place_in(_Atomic uint64_t *bucket, uint64_t addr)
{
	uint32_t i;
#pragma GCC unroll 8
	for (i = 0; i < WIRE_SAMPLE_BUCKET; i++)
		if (atomic_load_explicit(&bucket[i], memory_order_relaxed) == addr)
			break;
	return i;
}

static bool take_block(struct wire_live_level l, const void *p, struct wire_sample *was)
{
	uint32_t bucket = wire_sample_bucket((uint64_t)p, l.bits);
	for (int beside = 0; beside < 2; beside++, bucket ^= WIRE_SAMPLE_BUCKET) {
		uint64_t addr = (uint64_t)p;
		uint32_t place = place_in(&l.addresses[bucket], addr), at = bucket + place;
		if (place == WIRE_SAMPLE_BUCKET)
			continue;
		*was = l.blocks[at];
		if (atomic_compare_exchange_strong(&l.addresses[at], &addr, 0))
			return true;
	}
	return false;
}

int heft_sample_remove(const void *p, struct wire_sample *was)
{
	struct heft_process *process = heft_process;
	if (!process || atomic_load_explicit(&process->phase, memory_order_acquire) != HEFT_OPEN)
		return 0;
	struct wire_header *h = process->session.header;
	unsigned n = levels_in_use(&h->sampling.live_levels);
	for (unsigned i = 0; i < n; i++)
		if (take_block(wire_live_level(h, i), p, was)) {
			filter_remove(p);
			atomic_fetch_sub_explicit(&h->sampling.live, 1, memory_order_relaxed);
			return 1;
		}
	return 0;
}

static void count_dropped(struct heft_process *p)
{
	atomic_fetch_add_explicit(&p->session.header->dropped, 1, memory_order_relaxed);
}

void heft_sample_restore(const void *p, const struct wire_sample *was)
{
	if (!add_block(heft_process->session.header, p, was))
		count_dropped(heft_process);
}

void heft_sample_forget_all(void)
{
	for (unsigned i = 0; i < 1 << HEFT_FILTER_BITS; i++) {
		uint8_t count = atomic_load_explicit(&heft_filter[i], memory_order_relaxed);
		if (count &&
		    count != 255) /* zeros are not written: a page of them may have no memory yet */
			atomic_store_explicit(&heft_filter[i], 0, memory_order_relaxed);
	}
}

/* ---- one sample */

NOINLINE void heft_sample_test(void *p, size_t size, uintptr_t hook, unsigned via)
{
	struct heft_tls *tls = heft_tls_now();
	if (UNLIKELY(!sys_may_stamp())) { /* the program has locked itself in: no more samples */
		tls->left = OFF_BYTES;
		if (heft_process && atomic_load(&heft_process->phase) == HEFT_OPEN)
			count_dropped(heft_process);
		return;
	}
	/* Read before the guard is set: after that a handler that allocates may reset it. */
	uint64_t rate = tls->rate_bytes, left = 0;
	__asm__ volatile("" : : : "memory");
	/* A signal handler or the allocator itself has called: that does not count, and another distance
	 * is drawn. */
	if (UNLIKELY(!enter(tls, HERE()))) {
		tls->rate_bytes = 0;
		tls->left = 0;
		return;
	}
	struct heft_thread *t = heft_sample_thread();
	struct heft_process *process = heft_process;
	struct wire_header *h = t ? process->session.header : NULL;
	if (!rate) /* the first call of the thread, or the first after it was switched off */
		rate = draw(tls, h, &left);
	bool reached = rate && size >= left;
	if (rate && !reached)
		left -= size + 1;
	uint64_t next = reached ? draw(tls, h, &left) : rate;
	tls->rate_bytes = next;
	tls->left = left;
	if (reached && next && p && !heft_in_arena(p)) {
		uint64_t begun = arch_stamp();
		struct wire_sample b = {
			.size = size,
			.rate_bytes = rate,
			.birth_tsc = begun,
			.progress_bytes = atomic_fetch_add_explicit(&h->sampling.progress_bytes,
								    rate, memory_order_relaxed),
			.site = heft_site(t, hook, via),
			.tid = t->stream->tid,
		};
		if (!add_sum(h, b.site, size, rate) || !add_block(h, p, &b))
			count_dropped(process);
		atomic_fetch_add_explicit(&h->sampling.cost_tsc, arch_stamp() - begun,
					  memory_order_relaxed);
	}
	leave(tls);
}
