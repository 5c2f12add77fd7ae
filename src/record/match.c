/* Matching: from records (addresses) to events (blocks).
 *
 * The stamps put records into the order of truth: an address is given back
 * before it is stamped given out again. Where an allocation still finds its
 * address taken, the free is on its way in another stream (or was never seen):
 * the allocation is parked until it comes. Nothing is guessed unless the free
 * does not come: then the old block ends where the new one begins, and that is
 * counted as an unknown free.
 *
 * This is the hottest loop outside: everything of the common case is inlined into
 * match_stream, and the live table's lines are asked for some records ahead, so
 * that a free costs a few nanoseconds with a million live blocks.
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
enum { NEAR_BITS = 14 }; /* 512 KiB */
enum { AHEAD = 12 }; /* records between asking for a line of the live table and using it */

struct raw { /* one record, decoded */
	uint64_t tsc, time_ns, addr, size;
	uint32_t node, slack;
	uint8_t flags; /* enum trace_event_flag */
	uint32_t free_site; /* TRACE_FREED_AT */
};

HOT struct trace_event *next_event(struct drain *d)
{
	if (UNLIKELY(d->event_count == DRAIN_EVENTS))
		drain_flush(d);
	return &d->events[d->event_count++];
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
}

HOT uint64_t cycles_ns(const struct drain *d, uint64_t cycles)
{
	return (uint64_t)((unsigned __int128)cycles * d->clock.mult >> 32);
}

/* Time since the start of the recording; never goes back. */
HOT uint64_t time_of(struct drain *d, uint64_t tsc)
{
	uint64_t ns = cycles_ns(d, tsc > d->clock.tsc0 ? tsc - d->clock.tsc0 : 0);
	if (UNLIKELY(ns < d->last_ns))
		ns = d->last_ns;
	d->last_ns = ns;
	return ns;
}

HOT void grown(struct process *p, uint64_t time_ns)
{
	if (UNLIKELY(p->live_bytes > p->facts.peak_bytes)) {
		p->facts.peak_bytes = p->live_bytes;
		p->facts.peak_blocks = p->live_blocks;
		p->facts.peak_time_ns = time_ns;
	}
}

/* Only the fields that its op has are set (event.h). */
HOT void emit_alloc(struct drain *d, struct process *p, const struct live_block *b, uint64_t time_ns,
		    uint8_t flags)
{
	struct trace_event *e = next_event(d);
	e->time_ns = time_ns;
	e->size = b->size;
	e->site = b->site;
	e->thread = e->birth_thread = b->thread;
	e->slack = (uint32_t)b->slack;
	e->op = TRACE_ALLOC;
	e->flags = flags;
	p->live_bytes += b->size;
	p->live_blocks++;
	grown(p, time_ns);
}

/* What a program told of a block that grew goes with the event that ends it. */
RARE void tell_growth(struct process *p, const struct live_block *b, struct trace_event *e)
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

HOT void emit_end(struct drain *d, struct process *p, const struct live_block *b, uint64_t tsc,
		  uint64_t time_ns, enum trace_op op, uint32_t thread, uint8_t flags)
{
	struct trace_event *e = next_event(d);
	e->time_ns = time_ns;
	e->size = b->size;
	e->lifetime_ns = cycles_ns(d, tsc > b->birth_tsc ? tsc - b->birth_tsc : 0);
	e->site = b->site;
	e->thread = thread;
	e->birth_thread = b->thread;
	e->slack = (uint32_t)b->slack;
	e->op = (uint8_t)op;
	e->flags = flags;
	p->live_bytes -= b->size;
	p->live_blocks--;
	if (UNLIKELY(b->grown))
		tell_growth(p, b, e);
}

/* Makes room for one more block; false: there is none. */
HOT bool reserve_block(struct drain *d, struct process *p)
{
	if (LIKELY((p->live.count + 1) * 5 <= (3ull << p->live.bits)) ||
	    !live_table_reserve(&p->live, 1))
		return true;
	d->failed = HEFT_ENOMEM;
	return false;
}

HOT void add_block(struct drain *d, struct process *p, const struct live_block *b)
{
	if (LIKELY(reserve_block(d, p)))
		live_table_add(&p->live, b);
}

/* ---- parked allocations: rare, so a plain list */

RARE void park(struct drain *d, struct process *p, const struct live_block *b, const struct raw *r)
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

/* The block at this address ends without having been freed: its free was never seen. */
RARE void end_unseen(struct drain *d, struct process *p, struct live_block *block, uint64_t tsc,
		     uint64_t time_ns)
{
	struct live_block gone = *block;
	live_table_remove(&p->live, block);
	p->facts.unknown_frees++;
	emit_end(d, p, &gone, tsc, time_ns, TRACE_FREE, gone.thread, 0);
}

/* The oldest parked allocation of addr (0: of any that has waited too long) takes its place. The
 * block that held the address ends, unless it just has. */
RARE bool unpark(struct drain *d, struct process *p, uint64_t addr, uint64_t tsc, uint64_t time_ns)
{
	for (uint32_t i = 0; i < p->parked_count; i++) {
		struct parked q = p->parked[i];
		if (addr ? q.block.addr != addr
			 : cycles_ns(d, tsc > q.tsc ? tsc - q.tsc : 0) < PARK_NS)
			continue;
		for (uint32_t k = i + 1; k < p->parked_count; k++)
			p->parked[k - 1] = p->parked[k];
		p->parked_count--;
		struct live_block *old = live_table_find(&p->live, q.block.addr);
		if (old)
			end_unseen(d, p, old, tsc, time_ns);
		emit_alloc(d, p, &q.block, time_ns, q.flags);
		add_block(d, p, &q.block);
		return true;
	}
	return false;
}

/* If this thread's own allocation is parked at addr, the free before it was never seen. */
RARE void unpark_own(struct drain *d, struct process *p, const struct stream *s, const struct raw *r)
{
	for (uint32_t i = 0; i < p->parked_count; i++)
		if (p->parked[i].block.addr == r->addr && p->parked[i].thread == s->thread) {
			unpark(d, p, r->addr, r->tsc, r->time_ns);
			return;
		}
}

/* ---- one record each */

HOT void on_alloc(struct drain *d, struct process *p, struct stream *s, const struct raw *r,
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
	s->last_addr = r->addr;
	if (UNLIKELY(!reserve_block(d, p)))
		return;
	struct live_block *slot = live_table_slot_for(&p->live, r->addr);
	if (UNLIKELY(slot->addr)) {
		park(d, p, &b, r);
		return;
	}
	*slot = b;
	p->live.count++;
	emit_alloc(d, p, &b, r->time_ns, r->flags);
}

/* A block whose free is the thread's next record, already there and within bounds: it never enters
 * the table of live blocks. Returns false if its address is taken. */
HOT bool on_alloc_and_free(struct drain *d, struct process *p, struct stream *s, const struct raw *r,
			   uint32_t site, uint64_t free_tsc)
{
	if (UNLIKELY(live_table_find(&p->live, r->addr) != NULL))
		return false;
	struct live_block b = {
		.birth_tsc = r->tsc,
		.size = r->size & (SIZE_LIMIT - 1),
		.slack = (uint16_t)r->slack,
		.site = site,
		.thread = s->thread,
	};
	s->last_addr = r->addr;
	emit_alloc(d, p, &b, r->time_ns, r->flags);
	emit_end(d, p, &b, free_tsc, time_of(d, free_tsc), TRACE_FREE, s->thread, TRACE_TEMPORARY);
	return true;
}

static void count_unseen(struct process *p)
{
	if (p->child)
		p->facts.inherited_frees++;
	else
		p->facts.unknown_frees++;
}

HOT void on_free(struct drain *d, struct process *p, struct stream *s, const struct raw *r)
{
	if (UNLIKELY(p->parked_count))
		unpark_own(d, p, s, r);
	struct live_block *b = live_table_find(&p->live, r->addr);
	if (UNLIKELY(!b)) {
		count_unseen(p);
		return;
	}
	bool temporary = s->last_addr == r->addr && b->thread == s->thread;
	emit_end(d, p, b, r->tsc, r->time_ns, TRACE_FREE, s->thread,
		 (uint8_t)(r->flags | (temporary ? TRACE_TEMPORARY : 0)));
	if (UNLIKELY(r->flags & TRACE_FREED_AT))
		d->events[d->event_count - 1].old_site = r->free_site;
	live_table_remove(&p->live, b);
	if (UNLIKELY(p->parked_count))
		unpark(d, p, r->addr, r->tsc, r->time_ns);
}

static void on_realloc_begin(struct drain *d, struct process *p, struct stream *s,
			     const struct raw *r)
{
	if (UNLIKELY(p->parked_count))
		unpark_own(d, p, s, r);
	s->announced = true;
	s->moving.addr = 0; /* stays so for a block never seen: it counts when it completes */
	struct live_block *b = live_table_find(&p->live, r->addr);
	if (b) {
		s->moving = *b;
		live_table_remove(&p->live, b);
	}
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
	struct trace_event *e = next_event(d);
	*e = (struct trace_event){
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
	struct live_block *there = live_table_find(&p->live, r->addr);
	if (UNLIKELY(there != NULL))
		end_unseen(d, p, there, r->tsc, r->time_ns);
	add_block(d, p, &b);
}

static void on_realloc_failed(struct drain *d, struct process *p, struct stream *s)
{
	if (s->moving.addr && !live_table_find(&p->live, s->moving.addr))
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
			 temporary ? TRACE_TEMPORARY : 0);
	} else
		count_unseen(p);
	s->moving.addr = 0;
	s->announced = false;
}

/* ---- reading a stream */

/* The site of a record; HEFT_EFORMAT if it names none, or a block that cannot be. */
HOT int check_block(struct drain *d, struct process *p, const struct raw *r, uint32_t *site)
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
		struct live_block *b = live_table_find(&p->live, w[1]);
		if (!b || !b->grown)
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

/* Asks for the live table's line of the record at `ahead` and returns where the next one is. What
 * lies beyond the published part is never looked at. */
HOT uint32_t look_ahead(const struct live_table *live, const uint64_t *data, uint32_t ahead,
			uint32_t end)
{
	if (UNLIKELY(ahead >= end))
		return ahead;
	uint64_t w = data[ahead / 8];
	unsigned type = wire_type_of(w);
	live_table_prefetch(live, wire_addr_of(w));
	if (UNLIKELY(type == WIRE_EXT))
		return ahead + 8 + wire_ext_words(w) * 8;
	return ahead + (type == WIRE_ALLOC || type == WIRE_REALLOC_END ? 16 : 8);
}

int match_stream(struct drain *d, struct stream *s, uint64_t until)
{
	struct process *p = s->process;
	if (UNLIKELY(s->thread == TRACE_NONE))
		new_thread(d, s);
	do {
		/* As far as this chunk goes. */
		const uint64_t *data = s->chunk->data;
		const uint32_t end = s->end;
		uint32_t pos = s->pos, ahead = s->ahead;
		uint64_t tsc = s->next_tsc;
		bool more = false; /* in this chunk, before `until` */
		/* A small table is in the cache anyway. */
		const bool far = p->live.bits > NEAR_BITS;
		if (far && ahead <= pos) {
			ahead = pos;
			for (int i = 0; i < AHEAD; i++)
				ahead = look_ahead(&p->live, data, ahead, end);
		}
		do {
			const uint64_t word = data[pos / 8];
			struct raw r;
			uint32_t site;
			int used = 8;
			if (far)
				ahead = look_ahead(&p->live, data, ahead, end);
			r.tsc = tsc;
			r.time_ns = time_of(d, tsc);
			r.flags = 0;
			r.addr = wire_addr_of(word);
			switch (wire_type_of(word)) {
			case WIRE_FREE: on_free(d, p, s, &r); break;
			case WIRE_ALLOC:
			case WIRE_REALLOC_END: {
				if (UNLIKELY(end - pos < 16))
					return HEFT_EFORMAT;
				uint64_t w1 = data[pos / 8 + 1];
				r.node = (uint32_t)(w1 & ((1u << WIRE_SITE_BITS) - 1));
				r.size = w1 >> WIRE_SITE_BITS & WIRE_SIZE_MAX;
				r.slack = (uint32_t)(w1 >> (WIRE_SITE_BITS + WIRE_SIZE_BITS));
				if (UNLIKELY(r.slack == WIRE_SLACK_UNKNOWN)) {
					r.slack = 0;
					r.flags = TRACE_SLACK_UNKNOWN;
				}
				if (UNLIKELY(check_block(d, p, &r, &site)))
					return HEFT_EFORMAT;
				used = 16;
				if (UNLIKELY(wire_type_of(word) != WIRE_ALLOC)) {
					on_realloc_end(d, p, s, &r, site);
					break;
				}
				if (end - pos >= 24 && !p->parked_count) {
					uint64_t w2 = data[pos / 8 + 2], freed = tsc + wire_dt_of(w2);
					if (wire_type_of(w2) == WIRE_FREE &&
					    wire_addr_of(w2) == r.addr && freed <= until &&
					    LIKELY(on_alloc_and_free(d, p, s, &r, site, freed))) {
						if (far)
							ahead = look_ahead(&p->live, data, ahead, end);
						tsc = freed;
						used = 24;
						break;
					}
				}
				on_alloc(d, p, s, &r, site);
				break;
			}
			case WIRE_REALLOC_BEGIN: on_realloc_begin(d, p, s, &r); break;
			case WIRE_REALLOC_FAIL: on_realloc_failed(d, p, s); break;
			case WIRE_EXT:
				used = on_ext(d, p, s, &r, &data[pos / 8], end - pos);
				if (used < 0)
					return used;
				break;
			default: return HEFT_EFORMAT;
			}
			if (UNLIKELY(p->parked_count))
				unpark(d, p, 0, r.tsc, r.time_ns);
			if (UNLIKELY(d->failed))
				return HEFT_ENOMEM;
			pos += (uint32_t)used;
			s->tsc = tsc;
			more = false;
			if (LIKELY(pos < end)) {
				uint64_t w = data[pos / 8];
				unsigned type = wire_type_of(w);
				tsc += wire_dt_of(w);
				more = type != WIRE_SYNC && type != WIRE_NOTHING;
			}
		} while (more && tsc <= until);
		s->pos = pos;
		s->ahead = far ? ahead : 0;
		s->next_tsc = tsc;
		if (!more) { /* the chunk's end, or a time of its own */
			int rc = stream_advance(s);
			if (rc)
				return rc;
		}
	} while (s->more && s->next_tsc <= until);
	return 0;
}

void drain_process_end(struct drain *d, struct process *p, uint64_t time_ns)
{
	/* In time stamps, since ages are measured in them. */
	uint64_t tsc = d->clock.tsc0 +
		       (uint64_t)(((unsigned __int128)time_ns << 32) / (d->clock.mult ? d->clock.mult : 1));
	time_ns = time_of(d, tsc);
	while (p->parked_count)
		unpark(d, p, p->parked[0].block.addr, tsc, time_ns);
	for (uint32_t i = 0; i < p->slots; i++)
		if (p->streams[i].moving.addr)
			emit_end(d, p, &p->streams[i].moving, tsc, time_ns, TRACE_GONE,
				 p->streams[i].moving.thread, 0);
	for (uint64_t i = 0; i < 1ull << p->live.bits; i++) {
		const struct live_block *b = &p->live.slots[i];
		if (b->addr)
			emit_end(d, p, b, tsc, time_ns, TRACE_GONE, b->thread, 0);
	}
	drain_flush(d);
	live_table_fini(&p->live);
	p->done = true;
}
