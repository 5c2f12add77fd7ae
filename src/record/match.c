/* Matching: from records (addresses) to events (blocks).
 *
 * The stamps put records into the order of truth: an address is given back
 * before it is stamped given out again. Where an allocation still finds its
 * address taken, the free is on its way in another stream (or was never seen):
 * the allocation is parked until it comes. Nothing is guessed unless the free
 * does not come: then the old block ends where the new one begins, and that is
 * counted as an unknown free.
 *
 * A realloc takes its block out of the table when it is announced, since from
 * there on the address may be anybody's; the bytes stay live until it is
 * completed, cancelled, or turns out to have been a free. */
#include "record/drain.h"

#include <stdlib.h>

#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define SIZE_LIMIT (1ull << 47) /* no block is larger than the address space */
#define PARK_NS 50000000ull

static struct trace_event *next_event(struct drain *d)
{
	if (d->event_count == DRAIN_EVENTS)
		drain_flush(d);
	return &d->events[d->event_count++];
}

static void bad(struct process *p)
{
	p->corrupt = true;
	atomic_store(&p->session.header->state, WIRE_OFF);
}

static void new_thread(struct drain *d, struct stream *s)
{
	const struct wire_stream *w = &s->process->session.streams[s->slot];
	char name[17] = {0};
	__builtin_memcpy(name, w->name, 16);
	__builtin_memcpy(s->name, name, 16);
	struct trace_thread t = {.process = s->process->index, .tid = w->tid, .name = name};
	trace_writer_thread(d->writer, &t);
	s->thread = d->thread_count++;
}

static void grown(struct process *p, uint64_t time_ns)
{
	if (p->live_bytes > p->facts.peak_bytes) {
		p->facts.peak_bytes = p->live_bytes;
		p->facts.peak_blocks = p->live_blocks;
		p->facts.peak_time_ns = time_ns;
	}
}

static uint64_t age_ns(const struct drain *d, uint64_t birth_tsc, uint64_t tsc)
{
	return tsc > birth_tsc
		       ? (uint64_t)((unsigned __int128)(tsc - birth_tsc) * d->clock.mult >> 32)
		       : 0;
}

static void emit_alloc(struct drain *d, struct process *p, const struct live_block *b, uint64_t tsc,
		       uint8_t flags)
{
	struct trace_event *e = next_event(d);
	*e = (struct trace_event){
		.time_ns = drain_time_ns(d, tsc),
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
	grown(p, e->time_ns);
}

static void emit_end(struct drain *d, struct process *p, const struct live_block *b, uint64_t tsc,
		     enum trace_op op, uint32_t thread, uint8_t flags)
{
	struct trace_event *e = next_event(d);
	*e = (struct trace_event){
		.time_ns = drain_time_ns(d, tsc),
		.size = b->size,
		.lifetime_ns = age_ns(d, b->birth_tsc, tsc),
		.site = b->site,
		.thread = thread,
		.birth_thread = b->thread,
		.slack = (uint32_t)b->slack,
		.op = (uint8_t)op,
		.flags = flags,
	};
	p->live_bytes -= b->size;
	p->live_blocks--;
}

static int add_block(struct drain *d, struct process *p, const struct live_block *b)
{
	if (UNLIKELY((p->live.count + 1) * 5 > (3ull << p->live.bits)) &&
	    live_table_reserve(&p->live, 1)) {
		d->failed = HEFT_ENOMEM;
		return -1;
	}
	live_table_add(&p->live, b);
	return 0;
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

/* The oldest parked allocation of addr (0: of any that has waited too long) takes its place. The
 * block that held the address ends, unless it just has. */
static bool unpark(struct drain *d, struct process *p, uint64_t addr, uint64_t tsc)
{
	for (uint32_t i = 0; i < p->parked_count; i++) {
		struct parked q = p->parked[i];
		if (addr ? q.block.addr != addr : age_ns(d, q.tsc, tsc) < PARK_NS)
			continue;
		for (uint32_t k = i + 1; k < p->parked_count; k++)
			p->parked[k - 1] = p->parked[k];
		p->parked_count--;
		struct live_block *old = live_table_find(&p->live, q.block.addr);
		if (old) {
			struct live_block gone = *old;
			live_table_remove(&p->live, old);
			p->facts.unknown_frees++;
			emit_end(d, p, &gone, tsc, TRACE_FREE, gone.thread, 0);
		}
		emit_alloc(d, p, &q.block, tsc, q.flags);
		add_block(d, p, &q.block);
		return true;
	}
	return false;
}

/* ---- one record each */

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
	s->last_addr = r->addr;
	if (UNLIKELY(live_table_find(&p->live, r->addr) != NULL)) {
		park(d, p, &b, r);
		return;
	}
	emit_alloc(d, p, &b, r->tsc, r->flags);
	add_block(d, p, &b);
}

/* The block at addr leaves the table. False: it was not there (and has been counted). */
static bool take_block(struct drain *d, struct process *p, struct stream *s, uint64_t addr,
		       uint64_t tsc, struct live_block *b)
{
	if (UNLIKELY(p->parked_count)) {
		/* If this thread's own allocation is parked here, the free before it was never seen. */
		for (uint32_t i = 0; i < p->parked_count; i++)
			if (p->parked[i].block.addr == addr && p->parked[i].thread == s->thread) {
				unpark(d, p, addr, tsc);
				break;
			}
	}
	struct live_block *found = live_table_find(&p->live, addr);
	if (UNLIKELY(!found)) {
		if (p->child)
			p->facts.inherited_frees++;
		else
			p->facts.unknown_frees++;
		return false;
	}
	*b = *found;
	live_table_remove(&p->live, found);
	return true;
}

static void on_free(struct drain *d, struct process *p, struct stream *s, const struct raw *r)
{
	struct live_block b;
	if (!take_block(d, p, s, r->addr, r->tsc, &b))
		return;
	bool temporary = s->last_addr == r->addr && b.thread == s->thread;
	emit_end(d, p, &b, r->tsc, TRACE_FREE, s->thread, temporary ? TRACE_TEMPORARY : 0);
	if (UNLIKELY(p->parked_count))
		unpark(d, p, r->addr, r->tsc);
}

static void on_realloc_begin(struct drain *d, struct process *p, struct stream *s,
			     const struct raw *r)
{
	s->announced = true;
	s->moving.addr = 0;
	struct live_block b;
	uint64_t inherited = p->facts.inherited_frees, unknown = p->facts.unknown_frees;
	if (take_block(d, p, s, r->addr, r->tsc, &b))
		s->moving = b;
	else { /* not a free: counted when it completes, as an allocation */
		p->facts.inherited_frees = inherited;
		p->facts.unknown_frees = unknown;
	}
	if (UNLIKELY(p->parked_count))
		unpark(d, p, r->addr, r->tsc);
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
	struct trace_event *e = next_event(d);
	*e = (struct trace_event){
		.time_ns = drain_time_ns(d, r->tsc),
		.size = r->size,
		.old_size = old.size,
		.site = site,
		.old_site = old.site,
		.thread = s->thread,
		.birth_thread = old.thread,
		.slack = r->slack,
		.old_slack = (uint32_t)old.slack,
		.op = TRACE_REALLOC,
		.flags = r->flags,
	};
	p->live_bytes += r->size - old.size;
	grown(p, e->time_ns);
	/* Its own block goes on being the thread's last one; another ends that. */
	s->last_addr = s->last_addr == old.addr ? r->addr : 0;
	if (UNLIKELY(live_table_find(&p->live, r->addr) != NULL)) {
		/* The place is taken: its free was missed, end it here. */
		struct live_block *there = live_table_find(&p->live, r->addr);
		struct live_block gone = *there;
		live_table_remove(&p->live, there);
		p->facts.unknown_frees++;
		emit_end(d, p, &gone, r->tsc, TRACE_FREE, gone.thread, 0);
	}
	add_block(d, p, &b);
}

void match_records(struct drain *d)
{
	for (uint32_t i = 0; i < d->raw_count && !d->failed; i++) {
		const struct raw *r = &d->raw[i];
		struct stream *s = r->stream;
		struct process *p = s->process;
		uint32_t site = 0;
		if (UNLIKELY(p->corrupt))
			continue;
		if (UNLIKELY(s->thread == TRACE_NONE))
			new_thread(d, s);
		if (r->type == WIRE_FREE) {
			on_free(d, p, s, r);
			continue;
		}
		if (r->type == WIRE_ALLOC || r->type == WIRE_REALLOC_END) {
			if (UNLIKELY(r->size >= SIZE_LIMIT || !r->addr ||
				     stack_map_site(&d->stacks, &p->stacks, r->node, &site))) {
				bad(p);
				continue;
			}
		}
		switch (r->type) {
		case WIRE_ALLOC: on_alloc(d, p, s, r, site); break;
		case WIRE_REALLOC_BEGIN: on_realloc_begin(d, p, s, r); break;
		case WIRE_REALLOC_END: on_realloc_end(d, p, s, r, site); break;
		case WIRE_REALLOC_FAIL:
			if (s->moving.addr && !live_table_find(&p->live, s->moving.addr))
				add_block(d, p, &s->moving);
			s->moving.addr = 0;
			s->announced = false;
			break;
		default: /* realloc(p, 0) was a free */
			if (s->moving.addr) {
				bool temporary = s->last_addr == s->moving.addr && s->moving.thread == s->thread;
				emit_end(d, p, &s->moving, r->tsc, TRACE_FREE, s->thread,
					 temporary ? TRACE_TEMPORARY : 0);
			} else if (p->child)
				p->facts.inherited_frees++;
			else
				p->facts.unknown_frees++;
			s->moving.addr = 0;
			s->announced = false;
		}
		if (UNLIKELY(p->parked_count))
			unpark(d, p, 0, r->tsc);
	}
	d->raw_count = 0;
}

void drain_process_end(struct drain *d, struct process *p, uint64_t time_ns)
{
	/* In time stamps, since ages are measured in them. */
	uint64_t tsc = d->clock.tsc0 +
		       (uint64_t)(((unsigned __int128)time_ns << 32) / (d->clock.mult ? d->clock.mult : 1));
	while (p->parked_count)
		unpark(d, p, p->parked[0].block.addr, tsc);
	for (uint32_t i = 0; i < p->slots; i++)
		if (p->streams[i].moving.addr)
			emit_end(d, p, &p->streams[i].moving, tsc, TRACE_GONE,
				 p->streams[i].moving.thread, 0);
	for (uint64_t i = 0; i < 1ull << p->live.bits; i++) {
		const struct live_block *b = &p->live.slots[i];
		if (b->addr)
			emit_end(d, p, b, tsc, TRACE_GONE, b->thread, 0);
	}
	drain_flush(d);
	live_table_fini(&p->live);
	p->done = true;
}
