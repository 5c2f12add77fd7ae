/* Matching, the common case: allocations and frees of blocks that lie in the
 * shadow (live_blocks.h), which become brief events (tally/batch.h).
 *
 * This is the hottest loop outside, so nothing in it is general: a record that
 * is not wholly ordinary ends it, and match.c takes that one. Two busy threads
 * alternate every few events, so going over to the other one's stream is part
 * of the loop. Entries are asked for some records ahead. */
#include "record/drain.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define DT_MASK (WIRE_DT_MAX << 3)
enum { FAR_BLOCKS = 1024 }; /* live: from here on their entries are not all in the cache */
enum { AHEAD = 24 };	    /* words between asking for an entry and using it */

struct lane { /* a stream while it is read */
	const uint64_t *w, *end; /* words that are published */
	uint64_t cycles;	 /* stamp of the last record, since the clock's start */
	uint64_t last;		 /* address of the thread's last allocation, in eighths */
	uint64_t by;		 /* thread and birth thread of a brief event, without its kind */
	struct live_region region; /* of the last address */
	struct process *process;
	struct stream *stream;
};

/* Nothing waits, and every number that the lane may meet has its place in an entry. */
static bool is_plain(const struct drain *d, const struct stream *s)
{
	return s->thread < LIVE_THREADS && s->tsc >= d->clock.tsc0 &&
	       s->tsc - d->clock.tsc0 < LIVE_AGE_LIMIT / 2 && !s->process->parked_count && !s->process->early_count;
}

static struct lane lane_of(const struct drain *d, struct stream *s)
{
	const uint64_t *data = s->chunk->data;
	return (struct lane){
		.w = data + s->pos / 8,
		.end = data + s->end / 8,
		.cycles = s->tsc - d->clock.tsc0,
		.last = s->last_addr >> 3,
		.by = (uint64_t)s->thread << 40 | s->thread,
		.region = {.number = UINT64_MAX},
		.process = s->process,
		.stream = s,
	};
}

static int lane_done(const struct drain *d, const struct lane *l)
{
	struct stream *s = l->stream;
	s->pos = (uint32_t)(l->w - s->chunk->data) * 8;
	s->tsc = l->cycles + d->clock.tsc0;
	s->last_addr = l->last << 3;
	return stream_advance(s);
}

/* Thread, birth thread and kind at once. */
static inline void put_who(struct trace_brief *b, uint64_t by, enum trace_brief_kind kind)
{
	by |= (uint64_t)kind << 32;
	__builtin_memcpy(&b->thread, &by, sizeof by);
}

/* Takes allocations and frees of blocks that lie in the shadow, of one lane or of two in the order of
 * their stamps, until the next one is not so, is younger than `limit`, or a lane has no more. The
 * lanes stand at records; at[0]'s is not the younger one. Returns whether it took any. */
static bool match_lanes(struct drain *d, struct lane *at, unsigned lanes, uint64_t limit)
{
	/* From the oldest record on, which is not older than what was read last: times never go back. A
	 * lane's records are less than 2^27 cycles apart until its chunk ends, so 64 bits are enough. */
	const uint64_t mult = d->clock.mult, start = at->cycles + wire_dt_of(*at->w);
	uint64_t time_base = drain_cycles_ns(d, start);
	if (time_base < d->last_ns)
		time_base = d->last_ns;
	struct trace_brief *b = d->batch.brief + d->batch.count, *const first = b;
	struct trace_brief *const full = d->batch.brief + TRACE_BATCH - 1; /* room for a pair */
	struct lane *here = at;
	struct process *p = here->process;
	const uint64_t *w = here->w, *end = here->end;
	uint64_t cycles = here->cycles, last = here->last, by = here->by;
	struct live_region region = here->region;
	/* The next stamp of the other lane. */
	uint64_t other = lanes > 1 ? at[1].cycles + wire_dt_of(*at[1].w) : UINT64_MAX;
	uint64_t until = other < limit ? other : limit;

	while (w < end) {
		const uint64_t word = *w, addr = word >> WIRE_ADDR_SHIFT; /* in eighths */
		const unsigned type = wire_type_of(word);
		const uint64_t stamp = cycles + wire_dt_of(word);
		if (UNLIKELY(type - 1 > WIRE_FREE - 1 || stamp < start)) /* written over since */
			break;
		if (stamp > until) {
			if (other > limit)
				break;
			here->w = w;
			here->cycles = cycles;
			here->last = last;
			here->region = region;
			here = at + (here == at);
			p = here->process;
			w = here->w;
			end = here->end;
			cycles = here->cycles;
			last = here->last;
			by = here->by;
			region = here->region;
			other = stamp;
			until = other < limit ? other : limit;
			continue;
		}
		const uint64_t sixteenths = live_sixteenths(addr);
		if (UNLIKELY(live_number(sixteenths) != region.number)) {
			const struct live_region *near =
				live_region_near(&p->live, live_number(sixteenths));
			if (!near)
				break;
			region = *near;
		}
		struct live_entry *const e = live_entry_in(region.shadow, sixteenths);
		if (UNLIKELY(b >= full))
			break;
		const uint64_t birth = e->birth;
		const uint64_t time_ns = time_base + ((stamp - start) * mult >> 32);
		if (p->live_blocks > FAR_BLOCKS && w + AHEAD < end) {
			/* Perhaps an address. */
			const uint64_t ahead = live_sixteenths(w[AHEAD] >> WIRE_ADDR_SHIFT);
			if (live_number(ahead) == region.number)
				__builtin_prefetch(live_entry_in(region.shadow, ahead), 1);
		}
		if (type == WIRE_FREE) {
			if (UNLIKELY(!birth || !live_entry_is(birth, live_upper(addr))))
				break;
			const uint64_t block = e->block, born = live_entry_birth(birth);
			const uint64_t lived = stamp > born ? stamp - born : 0;
			const bool own = live_entry_thread(birth) == (uint32_t)by;
			if (UNLIKELY(!own && lived < p->young_cycles))
				break;
			e->birth = 0;
			b->time_ns = time_ns;
			b->lifetime_ns = (uint64_t)((unsigned __int128)lived * mult >> 32);
			b->block = block;
			if (LIKELY(own))
				put_who(b, by, addr == last ? TRACE_BRIEF_FREE_TEMP : TRACE_BRIEF_FREE);
			else {
				b->thread = (uint32_t)by;
				b->birth_kind = live_entry_thread(birth) << 8 | TRACE_BRIEF_FREE_CROSS;
			}
			b++;
			p->live_bytes -= block_size(block);
			p->live_blocks--;
			cycles = stamp;
			w++;
			continue;
		}
		if (UNLIKELY(birth || end - w < 2))
			break;
		const uint64_t w1 = w[1], size = block_size(w1);
		const uint32_t node = block_site(w1);
		uint32_t site;
		if (UNLIKELY(node >= p->stacks.known ||
			     (site = p->stacks.site_of[node] - 1) >= 1u << BLOCK_SITE_BITS ||
			     w1 >= BLOCK_SLACK_UNKNOWN << BLOCK_SLACK_SHIFT))
			break;
		const uint64_t block = w1 - node + site, live_bytes = p->live_bytes + size;
		cycles = stamp;
		last = addr;
		w += 2;
		b->time_ns = time_ns;
		b->lifetime_ns = 0;
		b->block = block;
		put_who(b, by, TRACE_BRIEF_ALLOC);
		b++;
		if (UNLIKELY(live_bytes > p->facts.peak_bytes)) {
			p->facts.peak_bytes = live_bytes;
			p->facts.peak_blocks = p->live_blocks + 1;
			p->facts.peak_time_ns = time_ns;
		}
		/* Is it freed by the thread's next record? Then it was never there. */
		if (w < end && ((*w ^ word) & ~DT_MASK) == (WIRE_ALLOC ^ WIRE_FREE)) {
			const uint64_t lived = wire_dt_of(*w);
			if (LIKELY(stamp + lived <= until)) {
				b->lifetime_ns = lived * mult >> 32;
				b->time_ns = time_ns + b->lifetime_ns;
				b->block = block;
				b[-1].birth_kind |= TRACE_BRIEF_PAIR;
				put_who(b, by, TRACE_BRIEF_FREE_TEMP);
				b++;
				cycles = stamp + lived;
				w++;
				continue;
			}
		}
		live_entry_set(e, live_upper(addr), stamp, (uint32_t)by, block);
		p->live_bytes = live_bytes;
		p->live_blocks++;
	}
	here->w = w;
	here->cycles = cycles;
	here->last = last;
	d->batch.count += (uint32_t)(b - first);
	if (b > first)
		d->last_ns = b[-1].time_ns;
	return b > first;
}

int match_plain(struct drain *d, struct stream *s, struct stream *next, uint64_t limit,
		struct stream **failed)
{
	if (UNLIKELY(!is_plain(d, s)))
		return 0;
	struct lane lanes[2] = {lane_of(d, s)};
	unsigned count = 1;
	if (next && next->thread != TRACE_NONE && is_plain(d, next))
		lanes[count++] = lane_of(d, next);
	else if (next && next->next_tsc < limit)
		limit = next->next_tsc;
	if (UNLIKELY(!match_lanes(d, lanes, count, limit - d->clock.tsc0)))
		return 0;
	for (unsigned i = 0; i < count; i++)
		if (lane_done(d, &lanes[i])) {
			*failed = lanes[i].stream;
			return HEFT_EFORMAT;
		}
	return 1;
}
