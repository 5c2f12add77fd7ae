/* What the program says goes from its records straight into the file. Who reads the file works out what it means: how
 * long blocks were at each stage, what the objects of pools add up to. A followed block gets its age here, because only
 * the recorder knows when it was made.
 *
 * A realloc may move a followed block, which ends it, or leave it where it is. That is known after the realloc. But as soon
 * as it is under way, the old address may be another block's, which somebody may follow: then the old one has ended. */
#include "record/drain.h"

_Static_assert((int)WIRE_REMARK_MARK == TRACE_REMARK_MARK &&
		       (int)WIRE_REMARK_STAGE == TRACE_REMARK_STAGE &&
		       (int)WIRE_REMARK_EVENT == TRACE_REMARK_EVENT &&
		       (int)WIRE_REMARK_POOL_DESTROY == TRACE_REMARK_POOL_DESTROY &&
		       (int)WIRE_REMARK_STAGE_MOVES == TRACE_REMARK_KINDS,
	       "the numbers of the recording are those of the wire");

static void find_block(struct drain *d, struct recorded_process *p, struct trace_remark *m)
{
	struct live_block block;
	if (!live_blocks_find(&p->reorder.blocks, m->a, &block))
		return;
	uint64_t birth_ns = drain_stamp_ns(d, block.birth_tsc);
	m->b = (birth_ns < m->time_ns ? m->time_ns - birth_ns : 0) + 1;
	m->c = block.size;
	m->born_at = block.site + 1;
}

/* The program has written the name into its log before the record; nobody may have read that part of the log yet. */
static int find_name(struct drain *d, struct recorded_process *p, uint32_t number, uint32_t *name)
{
	int rc = 0;
	*name = stack_map_name(&p->process.stacks, number);
	if (number && !*name) {
		rc = process_stacks_read_log(&d->stacks, &p->process.stacks);
		*name = stack_map_name(&p->process.stacks, number);
	}
	return rc;
}

static void write_end(struct drain *d, const struct stream *s)
{
	const struct trace_remark m = {.time_ns = d->last_ns,
				       .a = s->moving,
				       .thread = s->thread.number,
				       .kind = TRACE_REMARK_STAGE_END};
	trace_writer_remark(d->writer, &m);
}

static void stop_moving(struct drain *d, struct stream *s)
{
	d->moving -= s->moving != 0;
	s->moving = 0;
}

/* Another block is there now. */
static void end_those_that_move_from(struct drain *d, struct recorded_process *p, uint64_t address)
{
	struct session_view *v = &p->process.view;
	for (uint32_t i = 0; i < v->slots && d->moving; i++)
		if (v->streams[i].moving == address) {
			write_end(d, &v->streams[i]);
			stop_moving(d, &v->streams[i]);
		}
}

static void move(struct drain *d, struct stream *s, const struct stream_record *rec)
{
	if (rec->map_call == WIRE_REMARK_STAGE_MOVED && s->moving && s->moving != rec->addr)
		write_end(d, s);
	stop_moving(d, s);
	if (rec->map_call == WIRE_REMARK_STAGE_MOVES) {
		s->moving = rec->addr;
		d->moving += rec->addr != 0;
	}
}

int drain_remark(struct drain *d, struct recorded_process *p, struct stream *s,
		 const struct stream_record *rec)
{
	struct trace_remark m = {
		.time_ns = d->last_ns,
		.a = rec->addr,
		.b = rec->size,
		.c = rec->old_size,
		.thread = s->thread.number,
		.kind = (uint8_t)rec->map_call,
	};
	if (rec->map_call >= WIRE_REMARK_STAGE_MOVES) {
		move(d, s, rec);
		return 0;
	}
	if (rec->node && stack_map_site(&d->stacks, &p->process.stacks, rec->node, &m.site))
		return HEFT_EFORMAT;
	if (find_name(d, p, rec->detail, &m.name))
		return HEFT_EFORMAT;
	if (m.kind == TRACE_REMARK_STAGE && d->moving)
		end_those_that_move_from(d, p, m.a);
	if (m.kind == TRACE_REMARK_STAGE)
		find_block(d, p, &m);
	else if (m.kind == TRACE_REMARK_STOP)
		p->reorder.is_attached = true; /* from here on it has blocks that were never seen */
	if (d->stacks.written.sites < d->stacks.site_count)
		stack_map_write(&d->stacks, d->writer);
	for (; d->stacks.written.names < d->stacks.name_count; d->stacks.written.names++)
		trace_writer_remark_name(d->writer, d->stacks.names[d->stacks.written.names]);
	trace_writer_remark(d->writer, &m); /* latches its failure */
	return 0;
}
