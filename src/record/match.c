/* Matching: from records (addresses) to events (blocks).
 *
 * The stamps put records into the order of truth: an address is given back
 * before it is stamped given out again. Where an allocation still finds its
 * address taken, the free is on its way in another stream (or was never seen):
 * the allocation is parked until it comes, and so is its own free, if that comes
 * first. A free that finds no block waits a moment for its allocation: a
 * processor may take its stamp while the load of the address is still under way.
 * For the same reason the free of another thread's very young block is held for a
 * moment where blocks are resized: the block may have been, before it was handed on.
 * Nothing is guessed unless what is waited for does not come: then the old block
 * ends where the new one begins, and that is counted as an unknown free.
 *
 * What is here takes any record; the common ones are taken by match_plain.c.
 *
 * A realloc takes its block out of the table when it is announced, since from
 * there on the address may be anybody's; the bytes stay live until it is
 * completed, cancelled, or turns out to have been a free. */
#include "record/drain.h"

#include <stdlib.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define RARE static __attribute__((noinline))
#define SIZE_LIMIT (1ull << 47) /* no block is larger than the address space */
#define PARK_NS 50000000ull
/* Far more than a processor runs ahead of a load that is under way. A child frees blocks that it
 * inherited, and gets their addresses again: what waits for long there is taken for something else. */
#define EARLY_NS 20000ull
#define EARLY_CHILD_NS 2000ull
#define HELD_NS 2000ull

struct raw { /* one record, decoded */
	uint64_t tsc, time_ns, addr, size;
	uint32_t node, slack;
	uint8_t flags; /* enum trace_event_flag */
	uint32_t free_site; /* TRACE_FREED_AT */
};

static void emit(struct drain *d, const struct trace_event *e)
{
	if (UNLIKELY(d->batch.count == TRACE_BATCH))
		drain_flush(d);
	trace_batch_add(&d->batch, e);
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

/* Time since the start of the recording; never goes back. */
static uint64_t time_of(struct drain *d, uint64_t tsc)
{
	uint64_t ns = drain_stamp_ns(d, tsc);
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

static void emit_alloc(struct drain *d, struct process *p, const struct live_block *b,
		       uint64_t time_ns, uint8_t flags)
{
	emit(d, &(struct trace_event){
			.time_ns = time_ns,
			.size = b->size,
			.site = b->site,
			.thread = b->thread,
			.birth_thread = b->thread,
			.slack = (uint32_t)b->slack,
			.op = TRACE_ALLOC,
			.flags = flags,
		});
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
	uint64_t lifetime_ns = drain_cycles_ns(d, tsc > b->birth_tsc ? tsc - b->birth_tsc : 0);
	struct trace_event e = {
		.time_ns = time_ns,
		.size = b->size,
		.lifetime_ns = lifetime_ns < time_ns ? lifetime_ns : time_ns,
		.site = b->site,
		.old_site = free_site,
		.thread = thread,
		.birth_thread = b->thread,
		.slack = (uint32_t)b->slack,
		.op = (uint8_t)op,
		.flags = flags,
	};
	if (b->grown)
		tell_growth(p, b, &e);
	emit(d, &e);
	p->live_bytes -= b->size;
	p->live_blocks--;
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
	p->parked[p->parked_count++] = (struct parked){
		.block = *b, .tsc = r->tsc, .thread = b->thread, .flags = r->flags};
}

/* This block ends without having been freed: its free was never seen. */
static void end_unseen(struct drain *d, struct process *p, const struct live_block *gone,
		       uint64_t tsc, uint64_t time_ns)
{
	live_blocks_remove(&p->live, gone->addr);
	p->facts.unknown_frees++;
	emit_end(d, p, gone, tsc, time_ns, TRACE_FREE, gone->thread, 0, 0);
}

/* This thread's own allocation that is parked at addr, and was not freed there. */
static struct parked *parked_own(const struct process *p, const struct stream *s, uint64_t addr)
{
	for (uint32_t i = 0; i < p->parked_count; i++)
		if (p->parked[i].block.addr == addr && p->parked[i].thread == s->thread &&
		    !p->parked[i].freed)
			return &p->parked[i];
	return NULL;
}

/* What is parked at i takes its place. The block that held the address ends, unless it just has. */
static void place(struct drain *d, struct process *p, uint32_t i, uint64_t tsc, uint64_t time_ns)
{
	struct parked q = p->parked[i];
	struct live_block old;
	for (uint32_t k = i + 1; k < p->parked_count; k++)
		p->parked[k - 1] = p->parked[k];
	p->parked_count--;
	if (live_blocks_find(&p->live, q.block.addr, &old))
		end_unseen(d, p, &old, tsc, time_ns);
	emit_alloc(d, p, &q.block, time_ns, q.flags);
	if (q.freed)
		emit_end(d, p, &q.block, q.free_tsc, time_ns, TRACE_FREE, q.thread, q.free_flags,
			 q.free_site);
	else
		add_block(d, p, &q.block);
}

/* The block at addr has ended: what is parked there follows, up to one that is live. */
static void unpark(struct drain *d, struct process *p, uint64_t addr, uint64_t tsc, uint64_t time_ns)
{
	bool is_free = true;
	for (uint32_t i = 0; is_free && i < p->parked_count;)
		if (p->parked[i].block.addr == addr) {
			is_free = p->parked[i].freed;
			place(d, p, i, tsc, time_ns);
		} else
			i++;
}

/* The oldest one has waited long enough. */
static void unpark_late(struct drain *d, struct process *p, uint64_t tsc, uint64_t time_ns)
{
	const struct parked *q = p->parked;
	if (drain_cycles_ns(d, tsc > q->tsc ? tsc - q->tsc : 0) >= PARK_NS)
		place(d, p, 0, tsc, time_ns);
}

/* ---- one record each, of any kind */

static void count_unseen(struct process *p)
{
	if (p->child)
		p->facts.inherited_frees++;
	else
		p->facts.unknown_frees++;
}

static void forget_early(struct process *p, uint32_t i)
{
	for (p->early_count--; i < p->early_count; i++)
		p->early[i] = p->early[i + 1];
}

/* What is kept at i is not waited with any longer. */
static void expire(struct drain *d, struct process *p, uint32_t i, uint64_t time_ns)
{
	struct early_free f = p->early[i];
	struct live_block b;
	forget_early(p, i);
	if (!f.held || !live_blocks_find(&p->live, f.addr, &b)) {
		count_unseen(p); /* a block that was never seen */
		return;
	}
	live_blocks_remove(&p->live, f.addr);
	emit_end(d, p, &b, f.tsc, time_ns, TRACE_FREE, f.thread, f.flags, f.free_site);
	if (p->parked_count)
		unpark(d, p, f.addr, f.tsc, time_ns);
}

/* A free whose stamp may be older than what it follows in another thread: its block's allocation, which
 * is not there yet, or (held) the block's being resized. */
static void keep_early(struct drain *d, struct process *p, const struct stream *s,
		       const struct raw *r, bool held)
{
	if (p->slots < 2) {
		count_unseen(p);
		return;
	}
	if (p->early_count == PROCESS_EARLY)
		expire(d, p, 0, r->time_ns);
	p->early[p->early_count++] =
		(struct early_free){r->addr, r->tsc, s->thread, r->flags, held, r->free_site};
}

static void expire_late(struct drain *d, struct process *p, uint64_t tsc, uint64_t time_ns)
{
	for (uint32_t i = 0; i < p->early_count;) {
		const struct early_free *f = &p->early[i];
		uint64_t wait = f->held ? HELD_NS : p->child ? EARLY_CHILD_NS : EARLY_NS;
		if (drain_cycles_ns(d, tsc > f->tsc ? tsc - f->tsc : 0) >= wait)
			expire(d, p, i, time_ns);
		else
			i++;
	}
}

static struct early_free *held_at(struct process *p, uint64_t addr)
{
	for (uint32_t i = 0; i < p->early_count; i++)
		if (p->early[i].held && p->early[i].addr == addr)
			return &p->early[i];
	return NULL;
}

/* Something else happens at this address: a free that is held there comes first. */
static void end_held(struct drain *d, struct process *p, uint64_t addr, uint64_t time_ns)
{
	struct early_free *f = p->early_count ? held_at(p, addr) : NULL;
	if (f)
		expire(d, p, (uint32_t)(f - p->early), time_ns);
}

/* The free of this address that came before its block. A child frees blocks that it inherited, and gets
 * their addresses again: there, only another thread's free is taken. */
static struct early_free *early_at(struct process *p, uint64_t addr, uint32_t thread)
{
	for (uint32_t i = 0; i < p->early_count; i++) {
		struct early_free *f = &p->early[i];
		if (!f->held && f->addr == addr && !(p->child && f->thread == thread))
			return f;
	}
	return NULL;
}

/* A block is there, unless its free came before it. */
static void settle(struct drain *d, struct process *p, const struct live_block *b, uint32_t thread,
		   const struct raw *r)
{
	struct early_free *f = p->early_count ? early_at(p, b->addr, thread) : NULL;
	if (UNLIKELY(f && !p->young_cycles)) {
		emit_end(d, p, b, r->tsc, r->time_ns, TRACE_FREE, f->thread, f->flags, f->free_site);
		forget_early(p, (uint32_t)(f - p->early));
		return;
	}
	add_block(d, p, b);
	if (UNLIKELY(f)) { /* it may be of what the block is resized to */
		f->held = true;
		f->tsc = r->tsc;
	}
}

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
	end_held(d, p, r->addr, r->time_ns);
	if (live_blocks_find(&p->live, r->addr, &there)) {
		park(d, p, &b, r);
		return;
	}
	emit_alloc(d, p, &b, r->time_ns, r->flags);
	settle(d, p, &b, s->thread, r);
}

RARE void on_free(struct drain *d, struct process *p, struct stream *s, const struct raw *r)
{
	struct parked *own = p->parked_count ? parked_own(p, s, r->addr) : NULL;
	if (own) { /* follows its allocation */
		own->freed = true;
		own->free_tsc = r->tsc;
		own->free_flags = (uint8_t)(r->flags | (s->last_addr == r->addr ? TRACE_TEMPORARY : 0));
		own->free_site = r->free_site;
		return;
	}
	struct live_block b;
	end_held(d, p, r->addr, r->time_ns);
	if (!live_blocks_find(&p->live, r->addr, &b)) {
		keep_early(d, p, s, r, false);
		return;
	}
	if (b.thread != s->thread && r->tsc < b.birth_tsc + p->young_cycles) {
		keep_early(d, p, s, r, true);
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
	struct parked *own = p->parked_count ? parked_own(p, s, r->addr) : NULL;
	if (UNLIKELY(own != NULL)) /* the free before it was never seen */
		place(d, p, (uint32_t)(own - p->parked), r->tsc, r->time_ns);
	if (UNLIKELY(p->slots > 1 && !p->young_cycles))
		p->young_cycles = (HELD_NS << 32) / (d->clock.mult | 1);
	struct early_free *f = p->early_count ? held_at(p, r->addr) : NULL;
	if (f)
		f->held = false; /* it is of what comes of the block */
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
	emit(d, &(struct trace_event){
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
		});
	p->live_bytes += r->size - old.size;
	grown(p, r->time_ns);
	/* Its own block goes on being the thread's last one; another ends that. */
	s->last_addr = s->last_addr == old.addr ? r->addr : 0;
	struct live_block there;
	end_held(d, p, r->addr, r->time_ns);
	if (UNLIKELY(live_blocks_find(&p->live, r->addr, &there)))
		end_unseen(d, p, &there, r->tsc, r->time_ns);
	settle(d, p, &b, s->thread, r);
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
	r->node = block_site(w[1]);
	r->size = block_size(w[1]);
	r->slack = block_slack(w[1]);
	if (r->slack == BLOCK_SLACK_UNKNOWN) {
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
		unpark_late(d, p, r.tsc, r.time_ns);
	if (UNLIKELY(p->early_count))
		expire_late(d, p, r.tsc, r.time_ns);
	return UNLIKELY(d->failed) ? HEFT_ENOMEM : used;
}

int match_streams(struct drain *d, struct stream *s, struct stream *next, uint64_t limit,
		  struct stream **failed)
{
	*failed = s;
	if (UNLIKELY(s->thread == TRACE_NONE))
		new_thread(d, s);
	if (UNLIKELY(d->batch.count > TRACE_BATCH - 2))
		drain_flush(d);
	int rc = match_plain(d, s, next, limit, failed);
	if (LIKELY(rc))
		return rc < 0 ? rc : 0;
	int used = on_record(d, s->process, s, s->next_tsc, &s->chunk->data[s->pos / 8],
			     s->end - s->pos);
	if (used < 0)
		return used;
	s->tsc = s->next_tsc;
	s->pos += (uint32_t)used;
	return stream_advance(s);
}

struct how_ended {
	struct drain *drain;
	struct process *process;
	uint64_t tsc, time_ns;
};

static void gone(void *ctx, const struct live_block *b)
{
	const struct how_ended *e = ctx;
	emit_end(e->drain, e->process, b, e->tsc, e->time_ns, TRACE_GONE, b->thread, 0, 0);
}

void drain_process_end(struct drain *d, struct process *p)
{
	uint64_t tsc = p->end_tsc, time_ns = time_of(d, tsc);
	while (p->early_count)
		expire(d, p, 0, time_ns);
	while (p->parked_count)
		place(d, p, 0, tsc, time_ns);
	p->left_bytes = p->live_bytes;
	p->left_blocks = p->live_blocks;
	struct how_ended ending = {d, p, tsc, time_ns};
	for (uint32_t i = 0; i < p->slots; i++)
		if (p->streams[i].moving.addr)
			gone(&ending, &p->streams[i].moving);
	live_blocks_all(&p->live, gone, &ending);
	drain_flush(d);
	live_blocks_fini(&p->live);
	p->done = true;
}
