/* Takes in the blocks that an attached program had before (heft attach --older). They were listed while it stood
 * still, in the moment from which on its calls are recorded. So they are as good as allocations: each is one, of a
 * site and a thread of their own, at the start of the process. From there on the drain knows them as any block.
 *
 * The list comes from heft's own process, but what is in it the program could write: a block that is there twice, or
 * is no address, is left out. */
#include "record/recorder_parts.h"

#include <sys/mman.h>
#include <unistd.h>

struct older_entry {
	uint64_t at, bytes;
};

static void take_entry(struct recorder *r, struct process *p, const struct older_entry *e,
		       struct reorder_thread *t, uint32_t site)
{
	const uint64_t limit = UINT64_C(1) << 47;
	struct drain *d = &r->drain;
	struct reorder *blocks = &recorded(p)->reorder;
	struct live_block there;
	const struct live_block b = {
		.addr = e->at,
		.birth_tsc = p->start_tsc,
		.size = e->bytes & (limit - 1),
		.site = site,
		.thread = t->number,
	};
	const struct reorder_now now = {&d->out, p->start_tsc, d->last_ns};
	if (!e->at || e->at >= limit || e->bytes >= limit ||
	    live_blocks_find(&blocks->blocks, e->at, &there))
		return;
	reorder_alloc(blocks, &now, t, &b, TRACE_SLACK_UNKNOWN);
}

void recorder_take_older(struct recorder *r, struct process *p)
{
	const struct recorder_attach *o = r->o->attach;
	struct drain *d = &r->drain;
	struct reorder_thread thread = {.number = d->thread_count};
	const struct trace_thread t = {.process = p->index, .name = "before heft"};
	uint32_t site;
	if (!o->older_blocks || p->view.sampled || recorded(p)->reorder.older_site)
		return;
	size_t bytes = (size_t)o->older_blocks * sizeof(struct older_entry);
	const struct older_entry *list = mmap(NULL, bytes, PROT_READ, MAP_SHARED, o->older_fd, 0);
	if (list == MAP_FAILED || stack_map_named_site(&d->stacks, TRACE_OLDER_MODULE, &site)) {
		recorder_note(r, TRACE_NOTE_LOST, p->index,
			      "no memory for the blocks from before heft was attached");
		return;
	}
	trace_writer_thread(d->writer, &t);
	d->thread_count++;
	recorded(p)->reorder.blocks.base_tsc = d->clock.tsc0;
	recorded(p)->reorder.older_site = site + 1;
	uint64_t start_ns = drain_stamp_ns(d, p->start_tsc);
	d->last_ns = start_ns > d->last_ns ? start_ns : d->last_ns;
	for (uint64_t i = 0; i < o->older_blocks; i++)
		take_entry(r, p, &list[i], &thread, site);
	drain_flush(d);
	munmap((void *)(uintptr_t)list, bytes);
	close(o->older_fd);
}
