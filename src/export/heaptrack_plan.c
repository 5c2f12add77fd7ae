/* What a heaptrack file has to make and free, and when (export_heaptrack.c says why it is made up).
 *
 * A site has four kinds of blocks: live at the peak and at the end ("kept"), at the peak alone, at the
 * end alone, and the rest, which come and go. Nobody knows how many are kept: this assumes as many as
 * possible. The run is cut into steps. Before the peak each step makes a share of the blocks of the
 * peak; after it, each step frees a share of those that go and makes a share of those of the end. The
 * rest are spread over the steps in which they fit under the peak. */
#include "export/heaptrack_plan.h"

#define NEARLY 0.999999

static struct blocks blocks_of(uint64_t count, uint64_t bytes)
{
	struct blocks b = {.count = count};
	if (count) {
		b.small_size = bytes / count;
		b.large = bytes % count;
	}
	return b;
}

/* Whether that many blocks can be live at both instants, and how many bytes they then have: all bytes of
 * an instant if they are all its blocks, else no more than their share of either. */
static bool can_keep(uint64_t kept, uint64_t peak_blocks, uint64_t peak_bytes, uint64_t end_blocks,
		     uint64_t end_bytes, uint64_t *bytes)
{
	uint64_t of_peak = heaptrack_share(peak_bytes, kept, peak_blocks);
	uint64_t of_end = heaptrack_share(end_bytes, kept, end_blocks);
	*bytes = kept == peak_blocks  ? peak_bytes
		 : kept == end_blocks ? end_bytes
		 : of_peak < of_end   ? of_peak
				      : of_end;
	return *bytes <= peak_bytes && *bytes <= end_bytes &&
	       (kept < end_blocks || *bytes == end_bytes);
}

/* Some files have bytes without counts. */
static uint64_t at_least_one(uint64_t blocks, uint64_t bytes)
{
	return blocks ? blocks : bytes > 0;
}

static void plan_site(struct heaptrack *x, uint32_t site)
{
	const struct profile_site *s = &x->p->sites[site];
	uint32_t has = x->p->run.has;
	struct plan plan = {.site = site};
	uint64_t end_blocks = has & PROFILE_HAS_LIVE ? at_least_one(s->live_blocks, s->live_bytes)
						     : 0;
	uint64_t end_bytes = end_blocks ? s->live_bytes : 0;
	/* Without a peak of its own, the file's is what is live at its end. */
	uint64_t peak_blocks = end_blocks, peak_bytes = end_bytes;
	if (has & PROFILE_HAS_PEAK) {
		peak_blocks = at_least_one(s->peak_blocks, s->peak_bytes);
		peak_bytes = s->peak_bytes;
	}
	uint64_t kept = peak_blocks < end_blocks ? peak_blocks : end_blocks, kept_bytes = 0;
	if (kept && !can_keep(kept, peak_blocks, peak_bytes, end_blocks, end_bytes, &kept_bytes))
		can_keep(--kept, peak_blocks, peak_bytes, end_blocks, end_bytes, &kept_bytes);
	plan.kept = blocks_of(kept, kept_bytes);
	plan.peak = blocks_of(peak_blocks - kept, peak_bytes - kept_bytes);
	plan.end = blocks_of(end_blocks - kept, end_bytes - kept_bytes);
	uint64_t made = peak_blocks + end_blocks - kept;
	uint64_t made_bytes = peak_bytes + end_bytes - kept_bytes;
	uint64_t all = s->allocations + s->reallocations, all_bytes = export_foreign_bytes(s);
	if (has & PROFILE_HAS_ALLOCATED && all > made)
		plan.rest = blocks_of(all - made,
				      all_bytes > made_bytes ? all_bytes - made_bytes : 0);
	if (has & PROFILE_HAS_TEMPORARY)
		plan.temporary = s->temporary;
	x->peak += peak_bytes;
	x->end += end_bytes;
	if (made || plan.rest.count)
		x->plans[x->plan_count++] = plan;
}

/* How far each step gets: on the way up the most that the history had so far, on the way down the most
 * that it will still have; evenly without a history. */
static void plan_levels(struct heaptrack *x)
{
	const struct profile *p = x->p;
	const struct profile_history *h = &p->behaviour.history;
	bool follow = h->slot_count && !p->chosen.words && !x->o->focus && !x->o->ignore;
	uint64_t peak_ns = p->totals.peak_time_ns, end_ns = p->run.duration_ns;
	if (peak_ns > end_ns)
		end_ns = peak_ns;
	x->steps[0] = end_ns ? (uint32_t)((double)peak_ns / (double)end_ns * HEAPTRACK_STEPS)
			     : HEAPTRACK_STEPS / 2;
	x->steps[0] = x->steps[0] < 1                     ? 1
		      : x->steps[0] > HEAPTRACK_STEPS - 1 ? HEAPTRACK_STEPS - 1
							  : x->steps[0];
	x->steps[1] = HEAPTRACK_STEPS - x->steps[0];
	uint64_t most = 0;
	uint32_t slot = 0;
	for (uint32_t i = 0; i < x->steps[0]; i++) {
		uint64_t until = heaptrack_share(peak_ns, i + 1, x->steps[0]);
		for (; follow && slot < h->slot_count && (slot + 1) * h->slot_ns <= until; slot++)
			if (h->bytes[slot] > most)
				most = h->bytes[slot];
		x->level[0][i] = follow && x->peak ? (double)most / (double)x->peak
						   : (double)(i + 1) / x->steps[0];
		if (x->level[0][i] > NEARLY) /* the peak is not reached before its time */
			x->level[0][i] = NEARLY;
		if (i + 1 == x->steps[0])
			x->level[0][i] = 1;
	}
	double way = (double)x->peak - (double)x->end;
	most = x->end;
	slot = h->slot_count;
	for (uint32_t i = x->steps[1]; i-- > 0;) {
		uint64_t from = peak_ns + heaptrack_share(end_ns - peak_ns, i, x->steps[1]);
		for (; follow && slot > 0 && slot * h->slot_ns > from; slot--)
			if (h->bytes[slot - 1] > most)
				most = h->bytes[slot - 1];
		x->level[1][i] = follow && way > 0 ? ((double)x->peak - (double)most) / way
						   : (double)(i + 1) / x->steps[1];
		if (i + 1 == x->steps[1])
			x->level[1][i] = 1;
		if (x->level[1][i] < 0)
			x->level[1][i] = 0;
	}
}

/* In which steps two more blocks of the rest stay under the peak: the first ones before it, the
 * last ones after it. A block that never fits is made smaller. */
static void plan_rest(struct heaptrack *x, struct plan *plan)
{
	struct blocks *b = &plan->rest;
	if (plan->temporary > b->count)
		plan->temporary = b->count;
	if (!b->count)
		return;
	if (x->peak && heaptrack_size(b, b->large) >= x->peak)
		*b = (struct blocks){.count = b->count, .small_size = x->peak - 1};
	double two = 2.0 * (double)heaptrack_size(b, b->large), peak = (double)x->peak;
	plan->before = 1;
	while (plan->before < x->steps[0] && x->level[0][plan->before - 1] * peak + two < peak)
		plan->before++;
	double down = peak - (double)x->end;
	while (plan->after + 1 < x->steps[1] &&
	       two <= x->level[1][x->steps[1] - 2 - plan->after] * down)
		plan->after++;
}

/* Takes the last block of the peak from its site: from one with more temporaries than blocks of the
 * rest, because one of those was live at the peak. Without such a site a block that is kept reaches the
 * peak, which needs no care; if none is kept, any block. */
static void plan_final(struct heaptrack *x)
{
	struct plan *of = NULL;
	bool kept = false;
	for (uint32_t i = 0; i < x->plan_count && !x->final.temporary; i++) {
		struct plan *plan = &x->plans[i];
		kept = kept || (plan->kept.count && heaptrack_size(&plan->kept, plan->kept.large));
		if (!plan->peak.count || !heaptrack_size(&plan->peak, plan->peak.large))
			continue;
		x->final.temporary = plan->temporary > plan->rest.count;
		if (!of || x->final.temporary)
			of = plan;
	}
	if (!of || (kept && !x->final.temporary))
		return;
	x->final.size = heaptrack_size(&of->peak, of->peak.large);
	x->final.site = of->site;
	x->final.exists = true;
	of->peak.large -= of->peak.large > 0;
	of->peak.count--;
}

void heaptrack_plan(struct heaptrack *x)
{
	for (uint32_t i = 0; i < x->p->site_count; i++)
		plan_site(x, i);
	plan_levels(x);
	plan_final(x);
	for (uint32_t i = 0; i < x->plan_count; i++)
		plan_rest(x, &x->plans[i]);
}
