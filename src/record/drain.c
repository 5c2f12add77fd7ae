/* Merging the streams.
 *
 * Every stream is in time order. A heap of their next records merges them all. The
 * watermark is how far the merge may go: no record that is still to come may be
 * older than it. A round takes a time stamp, then makes every processor that runs a
 * profiled thread pass a memory barrier (membarrier, so that the threads need none),
 * then looks at the streams. A stream that is not open then will only publish
 * younger records. An open stream is between its stamp and its publication: it holds
 * the watermark at its last published record, or at the last round that saw it
 * closed.
 *
 * A process that has ended is in the heap too, at the moment of its end. match.c
 * makes events of the records. */
#include "record/drain.h"

#include "base/arch.h"
#include "hosted/monotonic.h"
#include "hosted/vector.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MEMBARRIER_GLOBAL_EXPEDITED = 1 << 1 };
/* Without membarrier: a store becomes visible well within this many cycles. */
enum { VISIBLE_CYCLES = 30000 };

static void flush(void *drain)
{
	drain_flush(drain);
}

void drain_init(struct drain *d, struct trace_writer *writer)
{
	memset(d, 0, sizeof *d);
	d->writer = writer;
	tally_init(&d->tally);
	behaviour_init(&d->behaviour);
	d->tally.behaviour = &d->behaviour;
	tsc_clock_start(&d->clock);
	d->out = (struct reorder_output){&d->batch, flush, d, &d->clock, 0};
	d->no_membarrier = syscall(SYS_membarrier, MEMBARRIER_GLOBAL_EXPEDITED, 0, 0) != 0;
}

void drain_fini(struct drain *d)
{
	tally_fini(&d->tally);
	behaviour_fini(&d->behaviour);
	stack_map_fini(&d->stacks);
	free(d->heap);
}

uint64_t drain_now_ns(const struct drain *d)
{
	return monotonic_ns() - d->clock.ns0;
}

void drain_flush(struct drain *d)
{
	struct trace_batch *b = &d->batch;
	drain_step(d);
	stack_map_write(&d->stacks, d->writer);
	if (!b->count)
		return;
	if (tally_reserve(&d->tally, d->stacks.site_count, d->thread_count)) {
		d->out.failed = HEFT_ENOMEM;
	} else if (!d->out.failed) {
		tally_apply_batch(&d->tally, b);
		trace_writer_batch(d->writer, b); /* latches its failure */
	}
	d->event_total += b->count;
	b->count = b->full_count = 0;
}

/* ---- the heap of streams, the earliest first */

static void sift_down(struct stream **h, uint32_t count, uint32_t i)
{
	struct stream *s = h[i];
	for (;;) {
		uint32_t c = 2 * i + 1;
		if (c >= count)
			break;
		if (c + 1 < count && h[c + 1]->next_tsc < h[c]->next_tsc)
			c++;
		if (h[c]->next_tsc >= s->next_tsc)
			break;
		h[i] = h[c];
		i = c;
	}
	h[i] = s;
}

static int heap_add(struct drain *d, struct stream *s)
{
	if (!array_reserve(d->heap, d->heap_count, d->heap_capacity, 1))
		return HEFT_ENOMEM;
	uint32_t i = d->heap_count++;
	for (; i && d->heap[(i - 1) / 2]->next_tsc > s->next_tsc; i = (i - 1) / 2)
		d->heap[i] = d->heap[(i - 1) / 2];
	d->heap[i] = s;
	return 0;
}

static void give_up(struct session_view *v)
{
	v->corrupt = true;
	/* Its threads must not wait for chunks: nobody will give any back. */
	atomic_store(&v->session.header->state, WIRE_OFF);
	for (uint32_t i = 0; i < v->slots; i++)
		v->streams[i].more = v->streams[i].open = false;
}

static uint64_t min64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}
static uint64_t max64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* The stream at i of the heap has been read: moves it to its new place, or removes it if it has no more
 * records. Returns the watermark, which it may lower. */
static uint64_t heap_update(struct drain *d, uint32_t i, uint64_t watermark)
{
	struct stream *s = d->heap[i];
	if (s->view->corrupt)
		s->more = false;
	if (!s->more) {
		if (s->open)
			watermark = min64(watermark, max64(s->tsc, s->bound));
		d->heap[i] = d->heap[--d->heap_count];
	}
	if (i < d->heap_count)
		sift_down(d->heap, d->heap_count, i);
	return watermark;
}

/* The oldest thing in the heap is the end of a process. The process ends now, unless it made records after
 * the moment at which it said that it leaves. */
static uint64_t end_in_order(struct drain *d, uint64_t watermark)
{
	struct stream *s = d->heap[0];
	struct process *p = &stream_process(s)->process;
	uint64_t last = 0;
	for (uint32_t i = 0; i < p->view.slots && !p->view.corrupt; i++)
		if (p->view.streams[i].active && p->view.streams[i].more)
			last = max64(last, p->view.streams[i].next_tsc);
	if (last) {
		s->next_tsc = p->end_tsc = max64(last, s->next_tsc) + 1;
		sift_down(d->heap, d->heap_count, 0);
		return watermark;
	}
	s->more = false;
	drain_process_end(d, p);
	return heap_update(d, 0, watermark);
}

/* Reads from the two streams with the oldest records, up to the third one's next record or the watermark.
 * Returns the watermark: a stream that has no more records may lower it. */
static uint64_t merge_some(struct drain *d, uint64_t watermark)
{
	struct stream **h = d->heap, *failed;
	const uint32_t count = d->heap_count;
	uint32_t second = count > 2 && h[2]->next_tsc < h[1]->next_tsc ? 2 : 1;
	uint64_t limit = watermark;
	if (count > 2)
		limit = min64(limit, h[3 - second]->next_tsc);
	for (uint32_t c = 2 * second + 1; c <= 2 * second + 2 && c < count; c++)
		limit = min64(limit, h[c]->next_tsc);
	if (h[0]->is_end)
		return end_in_order(d, watermark);
	struct stream *next = count > 1 && h[second]->next_tsc <= limit && !h[second]->is_end
				      ? h[second]
				      : NULL;
	if (!next && count > 1)
		limit = min64(limit, h[second]->next_tsc);
	if (!h[0]->view->corrupt && !(next && next->view->corrupt) &&
	    match_streams(d, h[0], next, limit, &failed))
		give_up(failed->view);
	if (next)
		watermark = heap_update(d, second, watermark);
	return heap_update(d, 0, watermark);
}

static int add_end(struct drain *d, struct process *p)
{
	struct stream *ending = &recorded(p)->ending;
	ending->next_tsc = p->end_tsc;
	ending->more = true;
	return heap_add(d, ending);
}

static void give_back(struct process *p)
{
	/* A process in another namespace has other thread numbers here: its slots are kept until it ends. */
	streams_give_back(&p->view, !p->ended && p->seen_pid == p->pid ? p->pid : 0);
}

uint64_t drain_begin(struct drain *d)
{
	uint64_t round = arch_stamp_after();
	if (d->no_membarrier || syscall(SYS_membarrier, MEMBARRIER_GLOBAL_EXPEDITED, 0, 0))
		round -= VISIBLE_CYCLES;
	tsc_clock_measure(&d->clock);
	drain_step(d);
	return round;
}

/* Puts the streams of p that have records into the heap, and its end. Lowers the watermark to what it may
 * still publish. HEFT_ENOMEM. */
static int add_process(struct drain *d, struct process *p, uint64_t round, uint64_t now_ns,
		       uint64_t *watermark)
{
	struct session_view *v = &p->view;
	if (p->ended && add_end(d, p))
		return HEFT_ENOMEM;
	if (v->corrupt)
		return 0;
	if (streams_look(v, round, now_ns, p->ended) < 0) {
		give_up(v);
		return 0;
	}
	for (uint32_t i = 0; i < v->slots; i++) {
		struct stream *s = &v->streams[i];
		if (!s->active)
			continue;
		if (s->more && heap_add(d, s))
			return HEFT_ENOMEM;
		if (!s->more && s->open)
			*watermark = min64(*watermark, max64(s->tsc, s->bound));
	}
	return 0;
}

uint64_t drain_round(struct drain *d, struct process **processes, size_t count, uint64_t round,
		     uint64_t limit)
{
	uint64_t before = d->event_total, watermark = min64(round, limit), now = drain_now_ns(d);
	d->heap_count = 0;
	for (size_t i = 0; i < count; i++)
		if (!recorded(processes[i])->done &&
		    add_process(d, processes[i], round, now, &watermark)) {
			d->out.failed = HEFT_ENOMEM;
			return 0;
		}
	while (d->heap_count && d->heap[0]->next_tsc <= watermark)
		watermark = merge_some(d, watermark);
	d->watermark = watermark;
	drain_flush(d);
	for (size_t i = 0; i < count; i++)
		if (!recorded(processes[i])->done && !processes[i]->view.corrupt)
			give_back(processes[i]);
	return d->event_total - before;
}
