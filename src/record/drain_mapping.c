/* Calls that map memory go from their records straight into the file: they are matched with nothing. Who
 * reads the file works out what is mapped (tally/mapped_memory.h). */
#include "record/drain.h"

_Static_assert((int)WIRE_MAP_MMAP == TRACE_MAP_MMAP && (int)WIRE_MAP_BRK == TRACE_MAP_BRK &&
		       (int)WIRE_MAP_SHMDT == TRACE_MAP_SHMDT &&
		       (int)WIRE_MAP_PROT_SHIFT == TRACE_MAP_PROT_SHIFT,
	       "the numbers of the recording are those of the wire");

static int ignore_change(void *ctx, const struct mapped_piece *piece, bool added)
{
	(void)ctx;
	(void)piece;
	(void)added;
	return 0;
}

/* For ledgers: what has no memory here is only not named there. */
static void keep(struct recorded_process *p, const struct trace_mapping *m)
{
	if (!p->mapped)
		p->mapped = mapped_memory_new();
	if (p->mapped)
		(void)mapped_memory_apply(p->mapped, m, ignore_change, NULL);
}

int drain_mapping(struct drain *d, struct recorded_process *p, struct stream *s,
		  const struct stream_record *rec)
{
	uint32_t site;
	int rc = rec->map_call == WIRE_MAP_BREAK_MOVED
			 ? stack_map_named_site(&d->stacks, TRACE_BREAK_MODULE, &site)
			 : stack_map_site(&d->stacks, &p->process.stacks, rec->node, &site);
	if (rc)
		return rc;
	struct trace_mapping m = {
		.time_ns = d->last_ns,
		.began_ns = drain_stamp_ns(d, rec->before_tsc),
		.address = rec->addr,
		.bytes = rec->size,
		.old_address = rec->old_addr,
		.old_bytes = rec->old_size,
		.thread = s->thread.number,
		.site = site,
		.detail = rec->detail,
		.call = (uint8_t)rec->map_call,
	};
	if (rec->map_call == WIRE_MAP_BREAK_MOVED) {
		m.call = TRACE_MAP_BRK;
		m.origin = TRACE_MAP_DERIVED;
	} else if (rec->map_call == WIRE_MAP_GLIBC) {
		m.call = TRACE_MAP_GLIBC;
	}
	if (m.began_ns > m.time_ns)
		m.began_ns = m.time_ns;
	if (d->stacks.written.sites < d->stacks.site_count)
		stack_map_write(&d->stacks, d->writer);
	trace_writer_mapping(d->writer, &m); /* latches its failure */
	if (d->keeps_mapped)
		keep(p, &m);
	return 0;
}
