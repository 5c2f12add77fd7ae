/* Calls that map memory go from their records straight into the file: they are matched with nothing. Who
 * reads the file works out what is mapped (tally/mapped_memory.h). */
#include "record/drain.h"

#include <string.h>
#include <sys/mman.h>

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

/* ---- a C++ program's own operator new */

enum { CALLERS_MOST = 64 }; /* of a call that maps memory, up to operator new */

bool drain_site_is_in_new(const struct drain *d, const struct recorded_process *p, uint32_t site)
{
	const struct stack_map *m = &d->stacks;
	const char *exe = p->process.entry.facts.exe;
	uint32_t at = m->sites[site].node;
	for (unsigned i = 0; i < CALLERS_MOST && at != TRACE_NONE; i++, at = m->nodes[at].parent) {
		const struct trace_node *n = &m->nodes[at];
		if (n->module != TRACE_NONE && !strcmp(m->modules[n->module].path, exe) &&
		    own_new_is_at(&p->own_new.program, n->offset))
			return true;
	}
	return false;
}

/* A call from inside of malloc has malloc's site. */
static bool takes_memory(const struct drain *d, const struct trace_mapping *m)
{
	if (m->origin != TRACE_MAP_SEEN || d->stacks.sites[m->site].via != TRACE_VIA_FREE ||
	    trace_mapping_change(m) <= 0)
		return false;
	return m->call == TRACE_MAP_BRK || m->call == TRACE_MAP_MREMAP ||
	       (m->call == TRACE_MAP_MMAP && m->detail & MAP_ANONYMOUS);
}

static void look_for_new(struct drain *d, struct recorded_process *p, const struct trace_mapping *m)
{
	struct recorded_new *n = &p->own_new;
	if (!takes_memory(d, m) || !p->process.entry.facts.exe)
		return;
	if (!n->looked)
		own_new_open(&n->program, p->process.entry.facts.exe);
	n->looked = true;
	if (n->program.at.count && drain_site_is_in_new(d, p, m->site))
		n->mapped_bytes += (uint64_t)trace_mapping_change(m);
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
	look_for_new(d, p, &m);
	return 0;
}
