/* Matching: from records (addresses) to events (blocks).
 *
 * The stamps put records into the order of truth: an address is given back
 * before it is stamped given out again. Where an allocation still finds its
 * address taken, the free is on its way in another stream (or was never seen):
 * the allocation is parked until it comes. Nothing is guessed unless the free
 * does not come: then the old block ends where the new one begins, and that is
 * counted as an unknown free.
 *
 * This is the hottest loop outside. match_stream holds the whole common case:
 * blocks that lie in the shadow (live_blocks.h), allocated and freed, as brief
 * events (trace/batch.h). Whatever is not wholly so goes to the functions
 * above it, which take any record.
 *
 * A realloc takes its block out of the table when it is announced, since from
 * there on the address may be anybody's; the bytes stay live until it is
 * completed, cancelled, or turns out to have been a free. */
#include "record/drain.h"

#include <stdlib.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define HOT static inline __attribute__((always_inline))
#define RARE static __attribute__((noinline))
#define SIZE_LIMIT (1ull << 47) /* no block is larger than the address space */
#define PARK_NS 50000000ull
#define DT_MASK (WIRE_DT_MAX << 3)
enum { FAR_BLOCKS = 1024 }; /* live: from here on their entries are not in the cache */
enum { AHEAD = 24 };	       /* words between asking for an entry and using it */

_Static_assert((int)LIVE_SITE_BITS == (int)TRACE_BRIEF_SITE_BITS &&
		       (int)LIVE_SIZE_BITS == (int)TRACE_BRIEF_SIZE_BITS &&
		       (int)WIRE_SITE_BITS == (int)TRACE_BRIEF_SITE_BITS &&
		       (int)WIRE_SIZE_BITS == (int)TRACE_BRIEF_SIZE_BITS,
	       "a record's second word is an entry's and a brief event's block, but for the site");

struct raw { /* one record, decoded */
	uint64_t tsc, time_ns, addr, size;
	uint32_t node, slack;
	uint8_t flags; /* enum trace_event_flag */
	uint32_t free_site; /* TRACE_FREED_AT */
};

static struct trace_brief *next_brief(struct drain *d)
{
	if (UNLIKELY(d->batch.count == TRACE_BATCH))
		drain_flush(d);
	return &d->batch.brief[d->batch.count++];
}

static void put_brief(struct drain *d, uint64_t time_ns, uint64_t lifetime_ns, uint64_t block,
		      uint32_t thread, uint32_t birth_thread, enum trace_brief_kind kind)
{
	*next_brief(d) = (struct trace_brief){
		.time_ns = time_ns,
		.lifetime_ns = lifetime_ns,
		.block = block,
		.thread = thread,
		.birth_kind = birth_thread << 8 | kind,
	};
}

/* Room for an event in full; the caller sets all of it. */
static struct trace_event *next_full(struct drain *d, uint64_t time_ns, uint32_t thread)
{
	struct trace_brief *b = next_brief(d);
	uint32_t at = d->batch.full_count++;
	*b = (struct trace_brief){
		.time_ns = time_ns, .block = at, .thread = thread, .birth_kind = TRACE_BRIEF_FULL};
	return &d->batch.full[at];
}

RARE void new_thread(struct drain *d, struct stream *s)
{
	const struct wire_stream *w = &s->process->session.streams[s->slot];
	char name[17] = {0};
	__builtin_memcpy(name, w->name, 16);
	__builtin_memcpy(s->name, name, 16);
	struct trace_thread t = {.process = s->process->index, .tid = w->tid, .name = name};
	trace_writer_thread(d->writer, &t);
	s->thread = d->thread_count++;
	s->process->live.base_tsc = d->clock.tsc0;
}

HOT uint64_t cycles_ns(const struct drain *d, uint64_t cycles)
{
	return (uint64_t)((unsigned __int128)cycles * d->clock.mult >> 32);
}

/* Time since the start of the recording; never goes back. */
static uint64_t time_of(struct drain *d, uint64_t tsc)
{
	uint64_t ns = cycles_ns(d, tsc > d->clock.tsc0 ? tsc - d->clock.tsc0 : 0);
	if (UNLIKELY(ns < d->last_ns))
		ns = d->last_ns;
	d->last_ns = ns;
	return ns;
}

static void grown(struct process *p, uint64_t time_ns)
{
	if (UNLIKELY(p->live_bytes > p->facts.peak_bytes)) {
		p->facts.peak_bytes = p->live_bytes;
		p->facts.peak_blocks = p->live_blocks;
		p->facts.peak_time_ns = time_ns;
	}
}

/* ---- events of any block */

static bool fits_brief(uint64_t size, uint32_t slack, uint32_t site)
{
	return size >> TRACE_BRIEF_SIZE_BITS == 0 && slack < (1u << TRACE_BRIEF_SLACK_BITS) - 1 &&
	       site >> TRACE_BRIEF_SITE_BITS == 0;
}

static uint64_t brief_block(const struct live_block *b)
{
	return b->site | (uint64_t)b->size << TRACE_BRIEF_SITE_BITS |
	       (uint64_t)b->slack << (TRACE_BRIEF_SITE_BITS + TRACE_BRIEF_SIZE_BITS);
}

static void emit_alloc(struct drain *d, struct process *p, const struct live_block *b,
		       uint64_t time_ns, uint8_t flags)
{
	if (!flags && fits_brief(b->size, (uint32_t)b->slack, b->site) &&
	    b->thread >> TRACE_BRIEF_BIRTH_BITS == 0)
		put_brief(d, time_ns, 0, brief_block(b), b->thread, b->thread, TRACE_BRIEF_ALLOC);
	else
		*next_full(d, time_ns, b->thread) = (struct trace_event){
			.time_ns = time_ns,
			.size = b->size,
			.site = b->site,
			.thread = b->thread,
			.birth_thread = b->thread,
			.slack = (uint32_t)b->slack,
			.op = TRACE_ALLOC,
			.flags = flags,
		};
	p->live_bytes += b->size;
	p->live_blocks++;
	grown(p, time_ns);
}

/* What a program told of a block that grew goes with the event that ends it. */
static void tell_growth(struct process *p, const struct live_block *b, struct trace_event *e)
{
	e->flags |= TRACE_GROWN;
	uint32_t count = p->unused_count < PROCESS_UNUSED ? p->unused_count : PROCESS_UNUSED;
	for (uint32_t i = 0; i < count; i++)
		if (p->unused[i].addr == b->addr) {
			e->flags |= TRACE_MEASURED;
			e->old_size = p->unused[i].bytes;
			p->unused[i].addr = 0;
			return;
		}
}

/* free_site: of TRACE_FREED_AT */
static void emit_end(struct drain *d, struct process *p, const struct live_block *b, uint64_t tsc,
		     uint64_t time_ns, enum trace_op op, uint32_t thread, uint8_t flags,
		     uint32_t free_site)
{
	uint64_t lifetime_ns = cycles_ns(d, tsc > b->birth_tsc ? tsc - b->birth_tsc : 0);
	if (lifetime_ns > time_ns)
		lifetime_ns = time_ns;
	p->live_bytes -= b->size;
	p->live_blocks--;
	if (op == TRACE_FREE && !b->grown && !(flags & ~TRACE_TEMPORARY) &&
	    fits_brief(b->size, (uint32_t)b->slack, b->site) &&
	    b->thread >> TRACE_BRIEF_BIRTH_BITS == 0) {
		put_brief(d, time_ns, lifetime_ns, brief_block(b), thread, b->thread,
			  b->thread != thread	    ? TRACE_BRIEF_FREE_CROSS
			  : flags & TRACE_TEMPORARY ? TRACE_BRIEF_FREE_TEMP
						    : TRACE_BRIEF_FREE);
		return;
	}
	struct trace_event *e = next_full(d, time_ns, thread);
	*e = (struct trace_event){
		.time_ns = time_ns,
		.size = b->size,
		.lifetime_ns = lifetime_ns,
		.site = b->site,
		.old_site = free_site,
		.thread = thread,
		.birth_thread = b->thread,
		.slack = (uint32_t)b->slack,
		.op = (uint8_t)op,
		.flags = flags,
	};
	if (b->grown)
		tell_growth(p, b, e);
}

static void add_block(struct drain *d, struct process *p, const struct live_block *b)
{
	if (!live_blocks_add(&p->live, b))
		d->failed = HEFT_ENOMEM;
}

/* ---- parked allocations: rare, so a plain list */

static void park(struct drain *d, struct process *p, const struct live_block *b, const struct raw *r)
{
	if (p->parked_count == p->parked_capacity) {
		uint32_t bigger = p->parked_capacity ? p->parked_capacity * 2 : 16;
		struct parked *q = realloc(p->parked, bigger * sizeof *q);
		if (!q) {
			d->failed = HEFT_ENOMEM;
			return;
		}
		p->parked = q;
		p->parked_capacity = bigger;
	}
	p->parked[p->parked_count++] = (struct parked){*b, r->tsc, b->thread, r->flags};
}

/* This block ends without having been freed: its free was never seen. */
static void end_unseen(struct drain *d, struct process *p, const struct live_block *gone,
		       uint64_t tsc, uint64_t time_ns)
{
	live_blocks_remove(&p->live, gone->addr);
	p->facts.unknown_frees++;
	emit_end(d, p, gone, tsc, time_ns, TRACE_FREE, gone->thread, 0, 0);
}

/* The oldest parked allocation of addr (0: of any that has waited too long) takes its place. The
 * block that held the address ends, unless it just has. */
static bool unpark(struct drain *d, struct process *p, uint64_t addr, uint64_t tsc, uint64_t time_ns)
{
	for (uint32_t i = 0; i < p->parked_count; i++) {
		struct parked q = p->parked[i];
		if (addr ? q.block.addr != addr
			 : cycles_ns(d, tsc > q.tsc ? tsc - q.tsc : 0) < PARK_NS)
			continue;
		for (uint32_t k = i + 1; k < p->parked_count; k++)
			p->parked[k - 1] = p->parked[k];
		p->parked_count--;
		struct live_block old;
		if (live_blocks_find(&p->live, q.block.addr, &old))
			end_unseen(d, p, &old, tsc, time_ns);
		emit_alloc(d, p, &q.block, time_ns, q.flags);
		add_block(d, p, &q.block);
		return true;
	}
	return false;
}

/* If this thread's own allocation is parked at addr, the free before it was never seen. */
static void unpark_own(struct drain *d, struct process *p, const struct stream *s,
		       const struct raw *r)
{
	for (uint32_t i = 0; i < p->parked_count; i++)
		if (p->parked[i].block.addr == r->addr && p->parked[i].thread == s->thread) {
			unpark(d, p, r->addr, r->tsc, r->time_ns);
			return;
		}
}

/* ---- one record each, of any kind */

static void on_alloc(struct drain *d, struct process *p, struct stream *s, const struct raw *r,
		     uint32_t site)
{
	struct live_block b = {
		.addr = r->addr,
		.birth_tsc = r->tsc,
		.size = r->size & (SIZE_LIMIT - 1),
		.slack = (uint16_t)r->slack,
		.site = site,
		.thread = s->thread,
	};
	struct live_block there;
	s->last_addr = r->addr;
	if (live_blocks_find(&p->live, r->addr, &there)) {
		park(d, p, &b, r);
		return;
	}
	emit_alloc(d, p, &b, r->time_ns, r->flags);
	add_block(d, p, &b);
}

static void count_unseen(struct process *p)
{
	if (p->child)
		p->facts.inherited_frees++;
	else
		p->facts.unknown_frees++;
}

RARE void on_free(struct drain *d, struct process *p, struct stream *s, const struct raw *r)
{
	if (p->parked_count)
		unpark_own(d, p, s, r);
	struct live_block b;
	if (!live_blocks_find(&p->live, r->addr, &b)) {
		count_unseen(p);
		return;
	}
	bool temporary = s->last_addr == r->addr && b.thread == s->thread;
	live_blocks_remove(&p->live, r->addr);
	emit_end(d, p, &b, r->tsc, r->time_ns, TRACE_FREE, s->thread,
		 (uint8_t)(r->flags | (temporary ? TRACE_TEMPORARY : 0)), r->free_site);
	if (p->parked_count)
		unpark(d, p, r->addr, r->tsc, r->time_ns);
}

static void on_realloc_begin(struct drain *d, struct process *p, struct stream *s,
			     const struct raw *r)
{
	if (UNLIKELY(p->parked_count))
		unpark_own(d, p, s, r);
	s->announced = true;
	s->moving.addr = 0; /* stays so for a block never seen: it counts when it completes */
	if (live_blocks_find(&p->live, r->addr, &s->moving))
		live_blocks_remove(&p->live, r->addr);
	if (UNLIKELY(p->parked_count))
		unpark(d, p, r->addr, r->tsc, r->time_ns);
}

/* Whether a block looks like one that glibc mapped by itself: the kernel moves such pages. */
static bool is_mapped(uint64_t addr, uint64_t size)
{
	return (addr & 0xfff) == 16 && size >= 128 << 10;
}

static void on_realloc_end(struct drain *d, struct process *p, struct stream *s, const struct raw *r,
			   uint32_t site)
{
	bool announced = s->announced;
	struct live_block old = s->moving;
	s->announced = false;
	s->moving.addr = 0;
	if (!announced || !old.addr) {
		/* A block we never saw (inherited over fork): from here on it is this process's. */
		on_alloc(d, p, s, r, site);
		return;
	}
	struct live_block b = old;
	b.addr = r->addr;
	b.size = r->size & (SIZE_LIMIT - 1);
	b.slack = (uint16_t)r->slack;
	b.site = site;
	b.grown = 1;
	uint8_t moved = 0;
	if (r->addr != old.addr)
		moved = is_mapped(r->addr, r->size) && is_mapped(old.addr, old.size)
				? TRACE_MOVED
				: TRACE_MOVED | TRACE_COPIED;
	*next_full(d, r->time_ns, s->thread) = (struct trace_event){
		.time_ns = r->time_ns,
		.size = r->size,
		.old_size = old.size,
		.site = site,
		.old_site = old.site,
		.thread = s->thread,
		.birth_thread = old.thread,
		.slack = (uint32_t)b.slack,
		.old_slack = (uint32_t)old.slack,
		.op = TRACE_REALLOC,
		.flags = r->flags | moved,
	};
	p->live_bytes += r->size - old.size;
	grown(p, r->time_ns);
	/* Its own block goes on being the thread's last one; another ends that. */
	s->last_addr = s->last_addr == old.addr ? r->addr : 0;
	struct live_block there;
	if (UNLIKELY(live_blocks_find(&p->live, r->addr, &there)))
		end_unseen(d, p, &there, r->tsc, r->time_ns);
	add_block(d, p, &b);
}

static void on_realloc_failed(struct drain *d, struct process *p, struct stream *s)
{
	struct live_block there;
	if (s->moving.addr && !live_blocks_find(&p->live, s->moving.addr, &there))
		add_block(d, p, &s->moving);
	s->moving.addr = 0;
	s->announced = false;
}

/* realloc(p, 0) was a free. */
static void on_realloc_freed(struct drain *d, struct process *p, struct stream *s, const struct raw *r)
{
	if (s->moving.addr) {
		bool temporary = s->last_addr == s->moving.addr && s->moving.thread == s->thread;
		emit_end(d, p, &s->moving, r->tsc, r->time_ns, TRACE_FREE, s->thread,
			 temporary ? TRACE_TEMPORARY : 0, 0);
	} else
		count_unseen(p);
	s->moving.addr = 0;
	s->announced = false;
}

/* ---- reading a stream */

/* The site of a record; HEFT_EFORMAT if it names none, or a block that cannot be. */
static int check_block(struct drain *d, struct process *p, const struct raw *r, uint32_t *site)
{
	if (UNLIKELY(r->size >= SIZE_LIMIT || !r->addr))
		return HEFT_EFORMAT;
	return stack_map_site(&d->stacks, &p->stacks, r->node, site);
}

/* A record in its long form at w; `left` bytes are published from there. Returns its bytes, or
 * HEFT_EFORMAT. */
RARE int on_ext(struct drain *d, struct process *p, struct stream *s, struct raw *r, const uint64_t *w,
		uint32_t left)
{
	uint64_t word = w[0], usable;
	unsigned kind = wire_ext_kind(word), n = wire_ext_words(word);
	uint32_t site;
	if (n > WIRE_EXT_MAX_WORDS || 8 + n * 8 > left)
		return HEFT_EFORMAT;
	switch (kind) {
	case WIRE_EXT_ALLOC:
	case WIRE_EXT_REALLOC_END:
		if (n != 4)
			return HEFT_EFORMAT;
		r->addr = w[1];
		r->size = w[2];
		usable = w[3];
		r->node = (uint32_t)w[4];
		r->slack = 0;
		if (usable == WIRE_USABLE_UNKNOWN || usable < r->size)
			r->flags = TRACE_SLACK_UNKNOWN;
		else
			r->slack = usable - r->size < 0xffff ? (uint32_t)(usable - r->size) : 0xffff;
		if (check_block(d, p, r, &site))
			return HEFT_EFORMAT;
		if (kind == WIRE_EXT_ALLOC)
			on_alloc(d, p, s, r, site);
		else
			on_realloc_end(d, p, s, r, site);
		break;
	case WIRE_EXT_FREE:
	case WIRE_EXT_REALLOC_BEGIN:
		if (n != 1)
			return HEFT_EFORMAT;
		r->addr = w[1];
		if (kind == WIRE_EXT_FREE)
			on_free(d, p, s, r);
		else
			on_realloc_begin(d, p, s, r);
		break;
	case WIRE_EXT_REALLOC_FREED: on_realloc_freed(d, p, s, r); break;
	case WIRE_EXT_FREE_AT:
		if (n != 2 || stack_map_site(&d->stacks, &p->stacks, (uint32_t)w[2], &r->free_site))
			return HEFT_EFORMAT;
		r->addr = w[1];
		r->flags = TRACE_FREED_AT;
		on_free(d, p, s, r);
		break;
	case WIRE_EXT_UNUSED:
		if (n != 2)
			return HEFT_EFORMAT;
		/* Of a block that the parent grew, nothing would ever take it but a later one there. */
		struct live_block b;
		if (!live_blocks_find(&p->live, w[1], &b) || !b.grown)
			break;
		p->unused[p->unused_count % PROCESS_UNUSED] = (struct unused){w[1], w[2]};
		/* Stays at least PROCESS_UNUSED when it wraps: all entries are in use. */
		if (++p->unused_count == 2 * PROCESS_UNUSED)
			p->unused_count = PROCESS_UNUSED;
		break;
	default: return HEFT_EFORMAT;
	}
	return (int)(8 + n * 8);
}

/* An allocation or a completed realloc that is not wholly ordinary; w: its two words. */
RARE int on_block(struct drain *d, struct process *p, struct stream *s, struct raw *r,
		  const uint64_t *w)
{
	uint32_t site;
	r->node = (uint32_t)(w[1] & ((1u << WIRE_SITE_BITS) - 1));
	r->size = w[1] >> WIRE_SITE_BITS & WIRE_SIZE_MAX;
	r->slack = (uint32_t)(w[1] >> (WIRE_SITE_BITS + WIRE_SIZE_BITS));
	if (r->slack == WIRE_SLACK_UNKNOWN) {
		r->slack = 0;
		r->flags = TRACE_SLACK_UNKNOWN;
	}
	if (check_block(d, p, r, &site))
		return HEFT_EFORMAT;
	if (wire_type_of(w[0]) == WIRE_ALLOC)
		on_alloc(d, p, s, r, site);
	else
		on_realloc_end(d, p, s, r, site);
	return 16;
}

/* Any record but the commonest at w; `left` bytes are published from there. Returns its bytes, or
 * HEFT_EFORMAT. */
RARE int on_record(struct drain *d, struct process *p, struct stream *s, uint64_t tsc,
		   const uint64_t *w, uint32_t left)
{
	struct raw r = {.tsc = tsc, .time_ns = time_of(d, tsc), .addr = wire_addr_of(w[0])};
	int used = 8;
	switch (wire_type_of(w[0])) {
	case WIRE_ALLOC:
	case WIRE_REALLOC_END:
		used = left < 16 ? HEFT_EFORMAT : on_block(d, p, s, &r, w);
		break;
	case WIRE_FREE: on_free(d, p, s, &r); break;
	case WIRE_REALLOC_BEGIN: on_realloc_begin(d, p, s, &r); break;
	case WIRE_REALLOC_FAIL: on_realloc_failed(d, p, s); break;
	case WIRE_EXT: used = on_ext(d, p, s, &r, w, left); break;
	default: return HEFT_EFORMAT;
	}
	if (UNLIKELY(p->parked_count))
		unpark(d, p, 0, r.tsc, r.time_ns);
	return UNLIKELY(d->failed) ? HEFT_ENOMEM : used;
}

/* ---- the common case */

struct lane { /* a stream while it is read */
	const uint64_t *w, *end; /* words that are published */
	uint64_t cycles;	 /* stamp of the last record, since the clock's start */
	uint64_t last;		 /* address of the thread's last allocation, in eighths */
	uint64_t by;		 /* thread and birth thread of a brief event, without its kind */
	struct live_region region; /* of the last address */
	struct process *process;
	struct stream *stream;
};

/* Nothing is parked, and every number that the lane may meet has its place in an entry. */
static bool is_plain(const struct drain *d, const struct stream *s)
{
	return s->thread < LIVE_THREADS && s->tsc >= d->clock.tsc0 &&
	       s->tsc - d->clock.tsc0 < LIVE_AGE_LIMIT / 2 && !s->process->parked_count;
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
HOT void put_who(struct trace_brief *b, uint64_t by, enum trace_brief_kind kind)
{
	by |= (uint64_t)kind << 32;
	__builtin_memcpy(&b->thread, &by, sizeof by);
}

/* Takes allocations and frees of blocks that lie in the shadow, of one lane or of two in the order of
 * their stamps, until the next one is not so, is younger than `limit`, or a lane has no more. The
 * lanes stand at records; at[0]'s is not the younger one. Returns whether it took any.
 *
 * Two busy threads alternate every few events: going over to the other lane is part of the loop. */
static __attribute__((noinline)) bool match_plain(struct drain *d, struct lane *at, unsigned lanes,
						  uint64_t limit)
{
	const uint64_t mult = d->clock.mult, start = at->cycles;
	/* A lane's records are less than 2^27 cycles apart until its chunk ends, so from here on 64 bits
	 * are enough to convert. Times never go back. */
	uint64_t time_base = cycles_ns(d, start);
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
		if (UNLIKELY(type - 1 > WIRE_FREE - 1))
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
			e->birth = 0;
			b->time_ns = time_ns;
			b->lifetime_ns = (uint64_t)((unsigned __int128)lived * mult >> 32);
			b->block = block;
			if (LIKELY(live_entry_thread(birth) == (uint32_t)by))
				put_who(b, by, addr == last ? TRACE_BRIEF_FREE_TEMP : TRACE_BRIEF_FREE);
			else {
				b->thread = (uint32_t)by;
				b->birth_kind = live_entry_thread(birth) << 8 | TRACE_BRIEF_FREE_CROSS;
			}
			b++;
			p->live_bytes -= block >> LIVE_SITE_BITS & ((1u << LIVE_SIZE_BITS) - 1);
			p->live_blocks--;
			cycles = stamp;
			w++;
			continue;
		}
		if (UNLIKELY(birth || end - w < 2))
			break;
		const uint64_t w1 = w[1], size = w1 >> WIRE_SITE_BITS & WIRE_SIZE_MAX;
		const uint32_t node = (uint32_t)w1 & ((1u << WIRE_SITE_BITS) - 1);
		uint32_t site;
		if (UNLIKELY(node >= p->stacks.known ||
			     (site = p->stacks.site_of[node] - 1) >= 1u << LIVE_SITE_BITS ||
			     w1 >= WIRE_SLACK_UNKNOWN << (WIRE_SITE_BITS + WIRE_SIZE_BITS)))
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

int match_streams(struct drain *d, struct stream *s, struct stream *next, uint64_t limit,
		  struct stream **failed)
{
	*failed = s;
	if (UNLIKELY(s->thread == TRACE_NONE))
		new_thread(d, s);
	if (UNLIKELY(d->batch.count > TRACE_BATCH - 2))
		drain_flush(d);
	if (LIKELY(is_plain(d, s))) {
		struct lane lanes[2] = {lane_of(d, s)};
		unsigned count = 1;
		if (next && next->thread != TRACE_NONE && is_plain(d, next))
			lanes[count++] = lane_of(d, next);
		else if (next && next->next_tsc < limit)
			limit = next->next_tsc;
		if (LIKELY(match_plain(d, lanes, count, limit - d->clock.tsc0))) {
			if (count > 1 && lane_done(d, &lanes[1])) {
				*failed = next;
				return HEFT_EFORMAT;
			}
			return lane_done(d, &lanes[0]);
		}
	}
	int used = on_record(d, s->process, s, s->next_tsc, &s->chunk->data[s->pos / 8],
			     s->end - s->pos);
	if (used < 0)
		return used;
	s->tsc = s->next_tsc;
	s->pos += (uint32_t)used;
	return stream_advance(s);
}

struct ending {
	struct drain *drain;
	struct process *process;
	uint64_t tsc, time_ns;
};

static void gone(void *ctx, const struct live_block *b)
{
	const struct ending *e = ctx;
	emit_end(e->drain, e->process, b, e->tsc, e->time_ns, TRACE_GONE, b->thread, 0, 0);
}

void drain_process_end(struct drain *d, struct process *p, uint64_t time_ns)
{
	/* In time stamps, since ages are measured in them. */
	uint64_t tsc = d->clock.tsc0 +
		       (uint64_t)(((unsigned __int128)time_ns << 32) / (d->clock.mult ? d->clock.mult : 1));
	time_ns = time_of(d, tsc);
	while (p->parked_count)
		unpark(d, p, p->parked[0].block.addr, tsc, time_ns);
	struct ending ending = {d, p, tsc, time_ns};
	for (uint32_t i = 0; i < p->slots; i++)
		if (p->streams[i].moving.addr)
			gone(&ending, &p->streams[i].moving);
	live_blocks_all(&p->live, gone, &ending);
	drain_flush(d);
	live_blocks_fini(&p->live);
	p->done = true;
}
