/* Merging the streams.
 *
 * Every stream is in time order; all together are merged by a heap of their
 * next records. How far the merge may go is the watermark: no record still to
 * come may be older than what has been emitted. A round takes a time stamp,
 * then makes every processor that runs a profiled thread pass a memory barrier
 * (membarrier, so that the threads need none), then looks at the streams. A
 * stream that is not open then will only publish younger records. An open one
 * is between its stamp and its publication: it holds the watermark at its last
 * published record, or at the last round in which it was seen closed.
 *
 * What becomes of the records is match.c's business. */
#include "record/drain.h"

#include "base/arch.h"
#include "hosted/vector.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MEMBARRIER_GLOBAL_EXPEDITED = 1 << 1 };
/* Without membarrier: stores become visible well within this many cycles. */
enum { VISIBLE_CYCLES = 30000 };
/* Until this long after the start the clock's rate is measured again in every round. */
#define CLOCK_MEASURE_NS 2000000000ull

static uint64_t monotonic_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

/* A stamp and a time that belong together: the tightest of a few tries. */
static void clock_pair(uint64_t *tsc, uint64_t *ns)
{
	uint64_t best = UINT64_MAX;
	for (int i = 0; i < 5; i++) {
		uint64_t a = arch_stamp_after(), n = monotonic_ns(), b = arch_stamp_after();
		if (b - a < best) {
			best = b - a;
			*tsc = a + (b - a) / 2;
			*ns = n;
		}
	}
}

static void clock_tune(struct tsc_clock *c)
{
	uint64_t tsc, ns;
	if (c->measured)
		return;
	clock_pair(&tsc, &ns);
	if (ns - c->ns0 < 100000 || tsc <= c->tsc0)
		return;
	c->mult = (uint64_t)(((unsigned __int128)(ns - c->ns0) << 32) / (tsc - c->tsc0));
	c->measured = ns - c->ns0 > CLOCK_MEASURE_NS;
}

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
	clock_pair(&d->clock.tsc0, &d->clock.ns0);
	d->clock.mult = (uint64_t)(1.0 / 2.5 * 4294967296.0); /* until measured */
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

static void corrupted(struct session_view *v)
{
	v->corrupt = true;
	/* Its threads must not wait for chunks that will not come. */
	atomic_store(&v->session.header->state, WIRE_OFF);
	for (uint32_t i = 0; i < v->slots; i++)
		v->streams[i].more = v->streams[i].open = false;
}

static uint64_t min64(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t max64(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* The stream at i of the heap has been read: puts it where it belongs now, or out. Returns the
 * watermark, which it may lower. */
static uint64_t heap_again(struct drain *d, uint32_t i, uint64_t watermark)
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

/* The end of a process is the oldest thing in the heap: it ends now, unless it has left records that are
 * younger than what it said when it left. */
static uint64_t end_in_order(struct drain *d, uint64_t watermark)
{
	struct stream *s = d->heap[0];
	struct process *p = stream_process(s);
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
	return heap_again(d, 0, watermark);
}

/* Reads from the two streams with the oldest records, up to the third or the watermark, which it
 * returns: a stream that has been read out may lower it. */
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
		corrupted(failed->view);
	if (next)
		watermark = heap_again(d, second, watermark);
	return heap_again(d, 0, watermark);
}

static int add_end(struct drain *d, struct process *p)
{
	p->ending.next_tsc = p->end_tsc;
	p->ending.more = true;
	return heap_add(d, &p->ending);
}

static void give_back(struct process *p)
{
	/* In a namespace its threads have other numbers here too: their slots are kept until it ends. */
	streams_give_back(&p->view, !p->ended && p->seen_pid == p->pid ? p->pid : 0);
}

uint64_t drain_begin(struct drain *d)
{
	uint64_t round = arch_stamp_after();
	if (d->no_membarrier || syscall(SYS_membarrier, MEMBARRIER_GLOBAL_EXPEDITED, 0, 0))
		round -= VISIBLE_CYCLES;
	clock_tune(&d->clock);
	return round;
}

uint64_t drain_round(struct drain *d, struct process **processes, size_t count, uint64_t round,
		     uint64_t limit)
{
	uint64_t before = d->event_total;
	uint64_t now = drain_now_ns(d);
	d->heap_count = 0;
	uint64_t watermark = min64(round, limit);
	for (size_t i = 0; i < count; i++) {
		struct process *p = processes[i];
		if (p->done)
			continue;
		if (p->ended && add_end(d, p)) {
			d->out.failed = HEFT_ENOMEM;
			return 0;
		}
		if (p->view.corrupt)
			continue;
		if (streams_look(&p->view, round, now, p->ended) < 0) {
			corrupted(&p->view);
			continue;
		}
		for (uint32_t k = 0; k < p->view.slots; k++) {
			struct stream *s = &p->view.streams[k];
			if (!s->active)
				continue;
			if (s->more) {
				if (heap_add(d, s)) {
					d->out.failed = HEFT_ENOMEM;
					return 0;
				}
			} else if (s->open)
				watermark = min64(watermark, max64(s->tsc, s->bound));
		}
	}
	while (d->heap_count && d->heap[0]->next_tsc <= watermark)
		watermark = merge_some(d, watermark);
	drain_flush(d);
	for (size_t i = 0; i < count; i++)
		if (!processes[i]->done && !processes[i]->view.corrupt)
			give_back(processes[i]);
	return d->event_total - before;
}
