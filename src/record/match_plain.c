/* Matching, the common case: allocations and frees of blocks that lie in the
 * shadow (live_blocks.h). They become brief events (tally/batch.h).
 *
 * This is the hottest loop outside the program, so nothing in it is general: the
 * first record that is not wholly ordinary ends it, and match.c takes that one. Two
 * busy threads alternate every few events, so the loop itself goes over to the other
 * stream. It prefetches entries some records ahead. All its functions are inlined,
 * and the cursor that is being read lives in registers. */
#include "record/drain.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define INLINE static inline __attribute__((always_inline))
#define DT_MASK (WIRE_DT_MAX << 3)
enum { FAR_BLOCKS = 1024 }; /* with more live blocks, not all entries are in the cache */
enum { AHEAD = 24 };        /* words between the prefetch of an entry and its use */

/* A stream while it is read */
struct cursor {
	const uint64_t *w, *end;   /* published words, from the next record on */
	uint64_t cycles;           /* stamp of the last record, since the clock's start */
	uint64_t last;             /* address of the thread's last allocation, in eighths */
	uint64_t by;               /* thread and birth thread of a brief event, without its kind */
	struct live_region region; /* of the last address */
	struct recorded_process *process;
	struct stream *stream;
};

static bool is_alloc_or_free(uint64_t word)
{
	return wire_type_of(word) - WIRE_ALLOC <= WIRE_FREE - WIRE_ALLOC;
}

/* Whether no call waits, and an entry has space for every number of the stream. */
static bool is_plain(const struct drain *d, const struct stream *s)
{
	return s->thread.number < LIVE_THREADS && s->tsc >= d->clock.tsc0 &&
	       s->tsc - d->clock.tsc0 < LIVE_AGE_LIMIT / 2 &&
	       !reorder_waits(&stream_process(s)->reorder);
}

static struct cursor cursor_begin(const struct drain *d, struct stream *s)
{
	const uint64_t *data = s->chunk->data;
	return (struct cursor){
		.w = data + s->pos / 8,
		.end = data + s->end / 8,
		.cycles = s->tsc - d->clock.tsc0,
		.last = s->thread.last_addr >> 3,
		.by = (uint64_t)s->thread.number << 40 | s->thread.number,
		.region = {.number = UINT64_MAX},
		.process = stream_process(s),
		.stream = s,
	};
}

static int cursor_end(const struct drain *d, const struct cursor *c)
{
	struct stream *s = c->stream;
	s->pos = (uint32_t)(c->w - s->chunk->data) * 8;
	s->tsc = c->cycles + d->clock.tsc0;
	s->thread.last_addr = c->last << 3;
	return stream_advance(s);
}

/* Writes thread, birth thread and kind at once. */
INLINE void put_who(struct trace_brief *b, uint64_t by, enum trace_brief_kind kind)
{
	by |= (uint64_t)kind << 32;
	__builtin_memcpy(&b->thread, &by, sizeof by);
}

/* Makes the region with this number the cursor's. False: it is not near, or has no shadow. */
INLINE bool enter_region(struct cursor *c, uint64_t number)
{
	const struct live_region *near = live_region_near(&c->process->reorder.blocks, number);
	if (near)
		c->region = *near;
	return near;
}

INLINE void prefetch_ahead(const struct cursor *c)
{
	if (c->process->reorder.live_blocks > FAR_BLOCKS && c->w + AHEAD < c->end) {
		/* This word may hold an address; if it does not, the prefetch is in vain. */
		const uint64_t ahead = live_sixteenths(c->w[AHEAD] >> WIRE_ADDR_SHIFT);
		if (live_number(ahead) == c->region.number)
			__builtin_prefetch(live_entry_in(c->region.shadow, ahead), 1);
	}
}

/* Takes the free that the cursor stands at and writes its event to b. addr: in eighths; e: its entry; stamp: in
 * cycles. False: it is not an ordinary one, and nothing was taken. */
INLINE bool take_free(struct cursor *c, struct trace_brief *b, struct live_entry *e, uint64_t addr,
		      uint64_t stamp, uint64_t time_ns, uint64_t mult)
{
	struct reorder *const r = &c->process->reorder;
	const uint64_t birth = e->birth;
	if (UNLIKELY(!birth || !live_entry_is(birth, live_upper(addr))))
		return false;
	const uint64_t block = e->block, born = live_entry_birth(birth);
	const uint64_t lived = stamp > born ? stamp - born : 0;
	const bool own = live_entry_thread(birth) == (uint32_t)c->by;
	if (UNLIKELY(!own && lived < r->young_cycles))
		return false;
	e->birth = 0;
	b->time_ns = time_ns;
	b->lifetime_ns = (uint64_t)((unsigned __int128)lived * mult >> 32);
	b->block = block;
	if (LIKELY(own))
		put_who(b, c->by, addr == c->last ? TRACE_BRIEF_FREE_TEMP : TRACE_BRIEF_FREE);
	else {
		b->thread = (uint32_t)c->by;
		b->birth_kind = live_entry_thread(birth) << 8 | TRACE_BRIEF_FREE_CROSS;
	}
	r->live_bytes -= block_size(block);
	r->live_blocks--;
	c->cycles = stamp;
	c->w++;
	return true;
}

/* The same for the allocation `word`, and for its free if that is the thread's next record and not after
 * `until`. Returns where its events end, which is b if nothing was taken. */
INLINE struct trace_brief *take_alloc(struct cursor *c, struct trace_brief *b, struct live_entry *e,
				      uint64_t word, uint64_t stamp, uint64_t time_ns,
				      uint64_t mult, uint64_t until)
{
	struct recorded_process *const p = c->process;
	struct reorder *const r = &p->reorder;
	if (UNLIKELY(e->birth || c->end - c->w < 2))
		return b;
	const uint64_t addr = word >> WIRE_ADDR_SHIFT;
	const uint64_t w1 = c->w[1], size = block_size(w1);
	const uint32_t node = block_site(w1);
	uint32_t site;
	if (UNLIKELY(node >= p->process.stacks.known ||
		     (site = p->process.stacks.site_of[node] - 1) >= 1u << BLOCK_SITE_BITS ||
		     w1 >= BLOCK_SLACK_UNKNOWN << BLOCK_SLACK_SHIFT))
		return b;
	const uint64_t block = w1 - node + site, live_bytes = r->live_bytes + size;
	c->cycles = stamp;
	c->last = addr;
	c->w += 2;
	b->time_ns = time_ns;
	b->lifetime_ns = 0;
	b->block = block;
	put_who(b, c->by, TRACE_BRIEF_ALLOC);
	if (UNLIKELY(live_bytes > r->peak_bytes)) {
		r->peak_bytes = live_bytes;
		r->peak_blocks = r->live_blocks + 1;
		r->peak_time_ns = time_ns;
	}
	/* If the thread's next record frees it, no entry ever needs to hold it. */
	if (c->w < c->end && ((*c->w ^ word) & ~DT_MASK) == (WIRE_ALLOC ^ WIRE_FREE)) {
		const uint64_t lived = wire_dt_of(*c->w);
		if (LIKELY(stamp + lived <= until)) {
			b->birth_kind |= TRACE_BRIEF_PAIR;
			b[1].lifetime_ns = lived * mult >> 32;
			b[1].time_ns = time_ns + b[1].lifetime_ns;
			b[1].block = block;
			put_who(b + 1, c->by, TRACE_BRIEF_FREE_TEMP);
			c->cycles = stamp + lived;
			c->w++;
			return b + 2;
		}
	}
	live_entry_set(e, live_upper(addr), stamp, (uint32_t)c->by, block);
	r->live_bytes = live_bytes;
	r->live_blocks++;
	return b + 1;
}

/* Takes allocations and frees of blocks in the shadow, from one stream or from two in the order of their
 * stamps. Stops at a record that is not such a one or is younger than `limit`, and where a stream has no
 * more. The cursors stand at records, and at[0]'s is not the younger one. Returns whether it took any. */
static bool match_cursors(struct drain *d, struct cursor *at, unsigned count, uint64_t limit)
{
	/* Times count from the oldest record on: it is not older than what was read last, so they never go
	 * back. The records of a chunk span less than 2^27 cycles, so 64 bits are enough. */
	const uint64_t mult = d->clock.mult, start = at->cycles + wire_dt_of(*at->w);
	uint64_t time_base = tsc_clock_ns(&d->clock, start);
	if (time_base < d->last_ns)
		time_base = d->last_ns;
	struct trace_brief *b = d->batch.brief + d->batch.count, *const first = b;
	struct trace_brief *const full = d->batch.brief + TRACE_BATCH -
					 1; /* a pair fits before it */
	struct cursor *here = at, c = *here;
	/* When the other stream has its next record. */
	uint64_t other = count > 1 ? at[1].cycles + wire_dt_of(*at[1].w) : UINT64_MAX;
	uint64_t until = other < limit ? other : limit;

	while (c.w < c.end) {
		const uint64_t word = *c.w, addr = word >> WIRE_ADDR_SHIFT; /* in eighths */
		const unsigned type = wire_type_of(word);
		const uint64_t stamp = c.cycles + wire_dt_of(word);
		if (UNLIKELY(!is_alloc_or_free(word) ||
			     stamp < start)) /* the program wrote over it */
			break;
		if (stamp > until) {
			if (other > limit)
				break;
			*here = c;
			here = at + (here == at);
			c = *here;
			other = stamp;
			until = other < limit ? other : limit;
			continue;
		}
		const uint64_t sixteenths = live_sixteenths(addr);
		if (UNLIKELY(live_number(sixteenths) != c.region.number) &&
		    !enter_region(&c, live_number(sixteenths)))
			break;
		struct live_entry *const e = live_entry_in(c.region.shadow, sixteenths);
		if (UNLIKELY(b >= full))
			break;
		const uint64_t time_ns = time_base + ((stamp - start) * mult >> 32);
		prefetch_ahead(&c);
		if (type == WIRE_FREE) {
			if (UNLIKELY(!take_free(&c, b, e, addr, stamp, time_ns, mult)))
				break;
			b++;
			continue;
		}
		struct trace_brief *after = take_alloc(&c, b, e, word, stamp, time_ns, mult, until);
		if (UNLIKELY(after == b))
			break;
		b = after;
	}
	*here = c;
	d->batch.count += (uint32_t)(b - first);
	if (b > first)
		d->last_ns = b[-1].time_ns;
	return b > first;
}

int match_plain(struct drain *d, struct stream *s, struct stream *next, uint64_t limit,
		struct stream **failed)
{
	if (!is_alloc_or_free(s->chunk->data[s->pos / 8]) || UNLIKELY(!is_plain(d, s)))
		return 0;
	struct cursor cursors[2] = {cursor_begin(d, s)};
	unsigned count = 1;
	if (next && next->thread.number != TRACE_NONE && is_plain(d, next))
		cursors[count++] = cursor_begin(d, next);
	else if (next && next->next_tsc < limit)
		limit = next->next_tsc;
	if (UNLIKELY(!match_cursors(d, cursors, count, limit - d->clock.tsc0)))
		return 0;
	for (unsigned i = 0; i < count; i++)
		if (cursor_end(d, &cursors[i])) {
			*failed = cursors[i].stream;
			return HEFT_EFORMAT;
		}
	return 1;
}
