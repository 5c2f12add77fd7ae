/* From samples to estimates. A sampled block of S bytes had the chance p to be
 * one, so it stands for 1/p blocks and S/p bytes, each sample by itself; what it
 * adds to the variance of such a sum is (1-p)/p^2, times S^2 for bytes. Numbers are
 * rounded once, by site, and totals are sums of the rounded ones.
 *
 * The peak of a sampled process is the greatest estimate that was seen; of several
 * processes the sum, which need not have been at one moment. */
#include "profile/trace_samples.h"

#include <math.h>
#include <stdlib.h>

struct estimate {
	double live_bytes, live_blocks, peak_bytes, peak_blocks, allocated_bytes, allocations;
};

static uint64_t rounded(double value)
{
	return value < 0x1p62 ? (uint64_t)(value + 0.5) : 1ull << 62;
}

static void add_blocks(const struct trace_sample *blocks, uint32_t count, struct estimate *sites,
		       struct trace_spread *spread, bool peak)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct trace_sample *b = &blocks[i];
		double chance = trace_sample_chance(b->size, b->rate_bytes);
		double objects = 1 / chance, size = (double)b->size;
		double v = (1 - chance) * objects * objects;
		struct estimate *e = &sites[b->site];
		struct trace_spread *s = &spread[b->site];
		*(peak ? &e->peak_blocks : &e->live_blocks) += objects;
		*(peak ? &e->peak_bytes : &e->live_bytes) += size * objects;
		*(peak ? &s->peak_blocks : &s->live_blocks) += v;
		*(peak ? &s->peak_bytes : &s->live_bytes) += v * size * size;
	}
}

static void fill(struct tally *t, const struct estimate *sites)
{
	for (uint32_t i = 0; i < t->site_count; i++) {
		struct tally_site *s = &t->sites[i];
		s->allocations = rounded(sites[i].allocations);
		s->allocated_bytes = rounded(sites[i].allocated_bytes);
		s->end_bytes = rounded(sites[i].live_bytes);
		s->end_blocks = rounded(sites[i].live_blocks);
		s->peak_bytes = rounded(sites[i].peak_bytes);
		s->peak_blocks = rounded(sites[i].peak_blocks);
		s->own_peak_bytes = s->peak_bytes;
		s->frees = s->allocations > s->end_blocks ? s->allocations - s->end_blocks : 0;
		t->peak_bytes += s->peak_bytes;
		t->peak_blocks += s->peak_blocks;
	}
}

int trace_samples_tally(const struct trace_contents *c, const bool *processes, struct tally *t,
			struct trace_spread **spread)
{
	struct estimate *sites = calloc((size_t)c->site_count + 1, sizeof *sites);
	*spread = calloc((size_t)c->site_count + 1, sizeof **spread);
	if (!sites || !*spread || tally_reserve(t, c->site_count, c->thread_count)) {
		free(sites);
		free(*spread);
		*spread = NULL;
		return HEFT_ENOMEM;
	}
	for (uint32_t i = 0; i < c->samples_count; i++) {
		const struct trace_samples *s = &c->samples[i];
		if (!processes[s->process])
			continue;
		add_blocks(s->live, s->live_count, sites, *spread, false);
		add_blocks(s->peak, s->peak_count, sites, *spread, true);
		if (s->peak_time_ns > t->peak_time_ns)
			t->peak_time_ns = s->peak_time_ns;
		for (uint32_t k = 0; k < s->sum_count; k++) {
			const struct trace_sample_sum *x = &s->sums[k];
			sites[x->site].allocated_bytes += x->bytes;
			sites[x->site].allocations += x->objects;
			(*spread)[x->site].allocated_bytes += x->bytes_variance;
			(*spread)[x->site].allocations += x->objects_variance;
		}
	}
	fill(t, sites);
	free(sites);
	return 0;
}

void trace_spread_add(struct trace_spread *to, const struct trace_spread *more)
{
	to->live_bytes += more->live_bytes;
	to->live_blocks += more->live_blocks;
	to->peak_bytes += more->peak_bytes;
	to->peak_blocks += more->peak_blocks;
	to->allocated_bytes += more->allocated_bytes;
	to->allocations += more->allocations;
}

static uint64_t certain(double variance)
{
	return rounded(1.959964 * sqrt(variance));
}

struct profile_errors trace_spread_errors(const struct trace_spread *s)
{
	return (struct profile_errors){
		certain(s->live_bytes),	    certain(s->live_blocks),	 certain(s->peak_bytes),
		certain(s->peak_blocks),    certain(s->allocated_bytes), certain(s->allocations),
	};
}
