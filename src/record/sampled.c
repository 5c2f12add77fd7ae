/* The tables of a sampled process, read while it runs or after its death. The
 * process owns these pages as much as we do: an entry is taken if its address is
 * the same before and after, and everything in it is checked or bounded; a wild
 * store costs entries, never the recorder. */
#include "record/sampled.h"

#include "wire/samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_LIMIT (1ull << 47)
#define RATE_LIMIT (1ull << 47)

/* The sample at slot i; false: there is none, or it is changing. */
static bool take(const struct wire_samples *s, uint32_t i, struct wire_sample *out)
{
	uint64_t addr = atomic_load_explicit(&s->addresses[i], memory_order_acquire);
	if (addr <= WIRE_SAMPLE_BUSY)
		return false;
	memcpy(out, &s->blocks[i], sizeof *out);
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&s->addresses[i], memory_order_relaxed) == addr &&
	       out->size < SIZE_LIMIT && out->rate_bytes && out->rate_bytes < RATE_LIMIT;
}

static double live_bytes(const struct process *p)
{
	struct wire_samples s = wire_samples_at(p->base);
	struct wire_sample b;
	double bytes = 0;
	for (uint32_t i = 0; i < WIRE_SAMPLE_SLOTS; i++)
		if (take(&s, i, &b))
			bytes += (double)b.size / trace_sample_chance(b.size, b.rate_bytes);
	return bytes;
}

static double bits_double(uint64_t bits)
{
	double value;
	memcpy(&value, &bits, sizeof value);
	return value >= 0 && value < 1e38 ? value : 0;
}

/* Everything, into a zeroed struct. What makes no sense is left out. 0 or HEFT_ENOMEM. */
static int collect(struct drain *d, struct process *p, struct trace_samples *out)
{
	struct wire_samples s = wire_samples_at(p->base);
	struct wire_header *h = p->session.header;
	struct wire_sample b;
	process_stacks_read_log(&d->stacks, &p->stacks);
	out->process = p->index;
	out->time_ns = drain_now_ns(d);
	out->rate_bytes = atomic_load(&h->rate_bytes);
	out->on = atomic_load(&h->sampling) != 0;
	out->live = calloc(WIRE_SAMPLE_SLOTS, sizeof *out->live);
	out->sums = calloc(WIRE_SUM_SLOTS, sizeof *out->sums);
	if (!out->live || !out->sums)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < WIRE_SAMPLE_SLOTS; i++) {
		uint32_t site;
		if (!take(&s, i, &b) || stack_map_site(&d->stacks, &p->stacks, b.site, &site))
			continue;
		uint64_t since = b.birth_tsc > d->clock.tsc0 ? b.birth_tsc - d->clock.tsc0 : 0;
		out->live[out->live_count++] = (struct trace_sample){
			.site = site,
			.tid = b.tid,
			.size = b.size,
			.rate_bytes = b.rate_bytes,
			.birth_ns = (uint64_t)((unsigned __int128)since * d->clock.mult >> 32),
		};
	}
	for (uint32_t i = 0; i < WIRE_SUM_SLOTS; i++) {
		struct wire_sum *w = &s.sums[i];
		uint32_t node = atomic_load_explicit(&w->site, memory_order_relaxed), site;
		if (!node || stack_map_site(&d->stacks, &p->stacks, node, &site))
			continue;
		out->sums[out->sum_count++] = (struct trace_sample_sum){
			.site = site,
			.samples = atomic_load(&w->samples),
			.bytes = (double)atomic_load(&w->bytes_16) / 16,
			.objects = (double)atomic_load(&w->objects_1024) / 1024,
			.bytes_variance = bits_double(atomic_load(&w->bytes_variance)),
			.objects_variance = bits_double(atomic_load(&w->objects_variance)),
		};
	}
	return 0;
}

void sampled_see_peak(struct drain *d, struct process *p)
{
	double bytes = live_bytes(p);
	if (bytes <= p->sampled_peak)
		return;
	struct trace_samples now = {0};
	if (collect(d, p, &now) == 0) {
		trace_samples_fini(&p->sampled);
		p->sampled = now;
		p->sampled_peak = bytes;
	} else
		trace_samples_fini(&now);
}

void sampled_write(struct drain *d, struct process *p)
{
	struct trace_samples now = {0};
	sampled_see_peak(d, p);
	if (collect(d, p, &now) == 0) {
		now.peak_time_ns = p->sampled.time_ns;
		now.peak = p->sampled.live;
		now.peak_count = p->sampled.live_count;
		trace_writer_samples(d->writer, &now); /* latches its failure */
		now.peak = NULL; /* stays the process's */
	}
	trace_samples_fini(&now);
}
