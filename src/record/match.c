/* Matching: from records (addresses, stack nodes) to events (blocks, sites).
 *
 * stream_reader.c reads a record, stack_map.c makes a site of its call stack, and
 * reorder.c decides what it means for the blocks of the process. match_plain.c takes
 * nearly all records before they come here. */
#include "record/drain.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define RARE static __attribute__((noinline))

RARE void new_thread(struct drain *d, struct stream *s)
{
	struct recorded_process *p = stream_process(s);
	const struct wire_stream *w = &p->process.view.session.streams[s->slot];
	char name[17] = {0};
	__builtin_memcpy(name, w->name, 16);
	__builtin_memcpy(s->name, name, 16);
	struct trace_thread t = {.process = p->process.index, .tid = w->tid, .name = name};
	trace_writer_thread(d->writer, &t);
	s->thread.number = d->thread_count++;
	p->reorder.blocks.base_tsc = d->clock.tsc0;
}

/* The time of a stamp, since the start of the recording. It never goes back. */
static uint64_t time_of(struct drain *d, uint64_t tsc)
{
	uint64_t ns = drain_stamp_ns(d, tsc);
	if (UNLIKELY(ns < d->last_ns))
		ns = d->last_ns;
	d->last_ns = ns;
	return ns;
}

static int take_block(struct drain *d, struct recorded_process *p, struct stream *s,
		      const struct reorder_now *now, const struct stream_record *rec)
{
	uint32_t site;
	if (stack_map_site(&d->stacks, &p->process.stacks, rec->node, &site))
		return HEFT_EFORMAT;
	const struct live_block b = {
		.addr = rec->addr,
		.birth_tsc = now->tsc,
		.size = rec->size & ((1ull << 47) - 1),
		.slack = (uint16_t)rec->slack,
		.site = site,
		.thread = s->thread.number,
	};
	uint8_t flags = rec->slack_unknown ? TRACE_SLACK_UNKNOWN : 0;
	if (rec->call == STREAM_ALLOC)
		reorder_alloc(&p->reorder, now, &s->thread, &b, flags);
	else
		reorder_realloc_end(&p->reorder, now, &s->thread, &b, flags);
	return 0;
}

static int take_free(struct drain *d, struct recorded_process *p, struct stream *s,
		     const struct reorder_now *now, const struct stream_record *rec)
{
	uint32_t site = 0;
	if (rec->has_free_node &&
	    stack_map_site(&d->stacks, &p->process.stacks, rec->free_node, &site))
		return HEFT_EFORMAT;
	reorder_free(&p->reorder, now, &s->thread, rec->addr,
		     rec->has_free_node ? TRACE_FREED_AT : 0, site);
	return 0;
}

/* Takes the next record of s, of any kind. Returns its bytes, or HEFT_EFORMAT. */
RARE int take_record(struct drain *d, struct stream *s)
{
	struct recorded_process *p = stream_process(s);
	struct reorder *r = &p->reorder;
	const struct reorder_now now = {&d->out, s->next_tsc, time_of(d, s->next_tsc)};
	struct stream_record rec;
	int used = stream_decode(s, &rec), rc = 0;
	if (used < 0)
		return used;
	r->several_threads = p->process.view.slots > 1;
	switch (rec.call) {
	case STREAM_ALLOC:
	case STREAM_REALLOC_END: rc = take_block(d, p, s, &now, &rec); break;
	case STREAM_FREE: rc = take_free(d, p, s, &now, &rec); break;
	case STREAM_REALLOC_BEGIN: reorder_realloc_begin(r, &now, &s->thread, rec.addr); break;
	case STREAM_REALLOC_FAILED: reorder_realloc_failed(r, &now, &s->thread); break;
	case STREAM_REALLOC_FREED: reorder_realloc_freed(r, &now, &s->thread); break;
	case STREAM_MAPPING: rc = drain_mapping(d, p, s, &rec); break;
	case STREAM_REMARK: rc = drain_remark(d, p, s, &rec); break;
	case STREAM_UNUSED: reorder_unused(r, rec.addr, rec.unused_bytes); break;
	}
	if (UNLIKELY(reorder_waits(r)))
		reorder_expire(r, &now);
	if (UNLIKELY(rc || d->out.failed))
		return rc ? rc : HEFT_ENOMEM;
	return used;
}

int match_streams(struct drain *d, struct stream *s, struct stream *next, uint64_t limit,
		  struct stream **failed)
{
	*failed = s;
	if (UNLIKELY(s->thread.number == TRACE_NONE))
		new_thread(d, s);
	if (UNLIKELY(d->batch.count > TRACE_BATCH - 2))
		drain_flush(d);
	int rc = match_plain(d, s, next, limit, failed);
	if (LIKELY(rc))
		return rc < 0 ? rc : 0;
	int used = take_record(d, s);
	if (used < 0)
		return used;
	s->tsc = s->next_tsc;
	s->pos += (uint32_t)used;
	return stream_advance(s);
}

void drain_process_end(struct drain *d, struct process *p)
{
	const struct reorder_now now = {&d->out, p->end_tsc, time_of(d, p->end_tsc)};
	struct reorder *r = &recorded(p)->reorder;
	reorder_end_waiting(r, &now);
	for (uint32_t i = 0; i < p->view.slots; i++)
		reorder_end_thread(r, &now, &p->view.streams[i].thread);
	reorder_end_blocks(r, &now);
	drain_flush(d);
	recorded(p)->done = true;
}
