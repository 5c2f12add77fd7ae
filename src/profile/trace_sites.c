/* The sites of a recording into the model: stacks are symbolised here, measures come from the tally of
 * what is selected. Sites whose stacks read the same become one, unless stacks are kept apart
 * (chosen.apart). A summary loads only the largest. */
#include "profile/trace_load.h"

#include "hosted/ranking.h"
#include "hosted/saturating.h"
#include "profile/estimate.h"
#include "profile/measure.h"
#include "profile/process_images.h"
#include "profile/trace_behaviour.h"
#include "profile/trace_looks.h"
#include "profile/trace_remarks.h"
#include "profile/trace_resident.h"
#include "profile/trace_stacks.h"

#include <stdlib.h>
#include <string.h>

/* A summary looks at no more than this many of the largest stacks ... */
enum { SUMMARY_STACKS = 64, SUMMARY_NODES = 4096 /* ... unless they are short */ };

/* A site that only lost blocks to another one, by realloc, has nothing but what it began with. */
static bool site_is_empty(const struct load *l, uint32_t site)
{
	const struct tally_site *s = &l->tally->sites[site];
	return !s->allocations && !s->reallocations && !s->frees && !s->live_blocks &&
	       !s->end_blocks && !s->peak_blocks &&
	       !(l->start && site < l->start_count && l->start[site].blocks) &&
	       !(l->map_calls && (l->sel->map_events ? l->map_calls[site] != 0
						     : l->mapped.sites[site].allocations != 0));
}

static size_t want_stack(const struct trace_contents *c, uint32_t node, bool *wanted)
{
	size_t added = 0;
	while (node < c->node_count && !wanted[node]) {
		wanted[node] = true;
		added++;
		uint32_t parent = c->nodes[node].parent;
		if (parent >= node)
			break;
		node = parent;
	}
	return added;
}

/* Calls that mapped memory of which a ledger has a line: it is named by their stacks. */
static void want_makers(const struct load *l, bool *nodes)
{
	for (uint32_t i = 0; i < l->p->ledger_count && !l->sel->numbers_only; i++)
		for (size_t k = 0; k < l->p->ledgers[i].count; k++) {
			uint32_t site = l->p->ledgers[i].items[k].site;
			if (site && site <= l->c->site_count)
				want_stack(l->c, l->c->sites[site - 1].node, nodes);
		}
}

/* From here on a line has the node of the profile, plus 1, in place of the recording's site. */
static void find_makers(struct load *l, const uint32_t *nodes)
{
	for (uint32_t i = 0; i < l->p->ledger_count; i++)
		for (size_t k = 0; k < l->p->ledgers[i].count; k++) {
			uint32_t *site = &l->p->ledgers[i].items[k].site;
			uint32_t at = *site && *site <= l->c->site_count
					      ? l->c->sites[*site - 1].node
					      : UINT32_MAX;
			uint32_t node = at < l->c->node_count ? nodes[at] : PROFILE_NONE;
			*site = node == PROFILE_NONE ? 0 : node + 1;
		}
}

/* How many sites the tally has: the recording's, or those apart by process. */
static uint32_t count_sites(const struct load *l)
{
	uint32_t count = l->split ? l->split->count : l->c->site_count;
	return l->tally->site_count < count ? l->tally->site_count : count;
}

static const struct trace_site *recorded_site(const struct load *l, uint32_t site)
{
	return &l->c->sites[l->split ? l->split->sites[site].site : site];
}

static int add_site(struct load *l, uint32_t site, uint32_t node, uint32_t *id)
{
	const struct trace_site *s = recorded_site(l, site);
	uint32_t labels = l->split ? l->split->labels[l->split->sites[site].group] : PROFILE_NONE;
	/* A stack without its inner end does not show the allocation function. */
	bool lost = s->node < l->c->node_count && (l->c->nodes[s->node].flags & TRACE_FRAME_LOST);
	uint32_t via = lost ? PROFILE_VIA_UNKNOWN : s->via;
	if (via == TRACE_VIA_FREE && l->map_calls && l->map_calls[site])
		via = PROFILE_VIA_MAPS + l->map_calls[site] - 1u;
	return profile_add_labelled_site(l->p, node, via, labels, id);
}

/* Decides which sites become sites of the profile, and so which stacks are symbolised. */
static int want_sites(struct load *l, bool *sites, bool *nodes)
{
	const struct trace_contents *c = l->c;
	uint32_t count = count_sites(l);
	struct ranked *order = malloc(((size_t)count + 1) * sizeof *order);
	uint32_t candidates = 0;
	if (!order)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		if (!site_is_empty(l, i))
			order[candidates++] = (struct ranked){l->tally->sites[i].peak_bytes, i};
	if (l->sel->top_only)
		rank_greatest_first(order, candidates);
	size_t used_nodes = 0;
	for (uint32_t i = 0; i < candidates; i++) {
		if (l->sel->top_only &&
		    (!order[i].value || (i >= SUMMARY_STACKS && used_nodes >= SUMMARY_NODES))) {
			l->p->chosen.sites_left_out = candidates - i;
			break;
		}
		sites[order[i].index] = true;
		used_nodes += want_stack(c, recorded_site(l, order[i].index)->node, nodes);
	}
	free(order);
	return 0;
}

/* Live when the recording ended: what was never freed, unless its process ended before. */
static struct live_sums live_at_end(const struct load *l, uint32_t site)
{
	const struct tally_site *s = &l->tally->sites[site];
	struct live_sums end = {s->end_bytes, s->end_blocks, s->end_slack};
	if (l->last)
		end = site < l->last_count ? l->last[site] : (struct live_sums){0};
	return (struct live_sums){saturating_add(s->live_bytes, end.bytes),
				  saturating_add(s->live_blocks, end.blocks),
				  saturating_add(s->live_slack, end.slack)};
}

/* Adds what a site of the tally counted, but for lifetimes. */
static void add_measures(const struct load *l, struct profile_site *to, uint32_t site)
{
	const struct tally_site *s = &l->tally->sites[site];
	struct live_sums live = live_at_end(l, site);
	to->allocations += s->allocations;
	to->reallocations += s->reallocations;
	to->frees += s->frees;
	to->allocated_bytes += s->allocated_bytes;
	to->reallocated_bytes += s->reallocated_bytes;
	to->live_bytes += live.bytes;
	to->live_blocks += live.blocks;
	to->live_slack_bytes += live.slack;
	to->left_bytes += saturating_add(s->live_bytes, s->end_bytes);
	to->left_blocks += saturating_add(s->live_blocks, s->end_blocks);
	to->peak_bytes += s->peak_bytes;
	to->peak_blocks += s->peak_blocks;
	to->peak_slack_bytes += s->peak_slack;
	/* Stacks that read the same need not have been at their maxima together: the sum of their
	 * own peaks is an upper bound, and exact for a single stack. */
	to->own_peak_bytes += s->own_peak_bytes;
	to->temporary += s->temporary;
	to->cross_thread_frees += s->cross_thread_frees;
	if (l->map_calls) {
		const struct tally_site *m = &l->mapped.sites[site];
		to->mapped_bytes += m->peak_bytes;
		to->mapped_pieces += m->peak_blocks;
		to->mapped_left_bytes += saturating_add(m->live_bytes, m->end_bytes);
	}
	if (l->start) {
		to->start_bytes += l->start[site].bytes;
		to->start_blocks += l->start[site].blocks;
	}
}

static void add_lifetimes(struct tally_site *all, const struct tally_site *s)
{
	all->end_blocks += s->end_blocks;
	all->lifetime_sum_ns = saturating_add(all->lifetime_sum_ns, s->lifetime_sum_ns);
	if (s->lifetime_max_ns > all->lifetime_max_ns)
		all->lifetime_max_ns = s->lifetime_max_ns;
	for (int i = 0; i < TALLY_BUCKETS; i++) {
		uint64_t n = (uint64_t)all->lifetime[i] + s->lifetime[i];
		all->lifetime[i] = n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
	}
}

static struct profile_lifetime lifetime_of(const struct tally_site *all, uint64_t frees)
{
	uint64_t ended = saturating_add(frees, all->end_blocks);
	return (struct profile_lifetime){
		.mean_ns = ended ? all->lifetime_sum_ns / ended : 0,
		.p50_ns = tally_lifetime_quantile(all, 0.5),
		.p99_ns = tally_lifetime_quantile(all, 0.99),
		.max_ns = all->lifetime_max_ns,
	};
}

_Static_assert((int)PROFILE_LIFE_BUCKETS == TALLY_BUCKETS, "one histogram");

/* Puts the histograms, which are in the order in which sites were added, into the order of the sites. */
static int load_lifetimes(struct profile *p, const uint32_t (*unsorted)[PROFILE_LIFE_BUCKETS])
{
	p->behaviour.lifetimes = malloc(((size_t)p->site_count + 1) *
					sizeof *p->behaviour.lifetimes);
	if (!p->behaviour.lifetimes)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->site_count; i++)
		memcpy(p->behaviour.lifetimes[i], unsorted[p->sites[i].added],
		       sizeof *p->behaviour.lifetimes);
	return 0;
}

/* How certain the numbers of a sampled recording are, and when its live blocks were made. */
static int load_errors(struct load *l, const uint32_t *final)
{
	struct profile *p = l->p;
	p->estimates.errors = calloc((size_t)p->site_count + 1, sizeof *p->estimates.errors);
	p->estimates.spreads = calloc((size_t)p->site_count + 1, sizeof *p->estimates.spreads);
	if (!p->estimates.errors || !p->estimates.spreads)
		return HEFT_ENOMEM;
	uint32_t count = l->split ? l->split->count : l->c->site_count;
	for (uint32_t i = 0; i < count; i++) {
		if (final[i] != PROFILE_NONE)
			estimate_add_spread(&p->estimates.spreads[final[i]], &l->spread[i]);
		estimate_add_spread(&p->estimates.total_spread,
				    &l->spread[i]); /* also what a summary leaves out */
	}
	return l->sel->top_only || l->sel->numbers_only || l->split ? 0
								    : trace_load_births(l, final);
}

/* The stacks of the wanted nodes; nodes[] and calls[] become the profile's by the recording's. */
static int load_stacks(struct load *l, const bool *wanted, uint32_t *nodes, uint32_t *calls)
{
	const struct profile *whole = l->sel->part_of;
	if (!whole)
		return trace_stacks_load(l->p, l->c, l->modules, wanted, l->sel, nodes, calls);
	if (!whole->recorded.nodes || whole->recorded.site_count != l->c->site_count)
		return heft_fail(l->err, HEFT_EUSAGE, "a part of another recording");
	memcpy(nodes, whole->recorded.nodes, l->c->node_count * sizeof *nodes);
	l->p->stacks.lender = whole;
	l->p->stacks.modules = whole->stacks.modules;
	l->p->stacks.module_count = whole->stacks.module_count;
	l->p->stacks.frames = whole->stacks.frames;
	l->p->stacks.frame_count = whole->stacks.frame_count;
	l->p->stacks.nodes = whole->stacks.nodes;
	l->p->stacks.node_count = whole->stacks.node_count;
	return 0;
}

/* Sites of a part are named as in the whole. */
static void take_ids(struct load *l, const uint32_t *final)
{
	const struct profile *whole = l->p->stacks.lender;
	uint32_t count = l->split ? l->split->count : whole->recorded.site_count;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t site = whole->recorded.sites[l->split ? l->split->sites[i].site : i];
		if (final[i] != PROFILE_NONE && site != PROFILE_NONE)
			l->p->sites[final[i]].id = whole->sites[site].id;
	}
}

/* Whether `a` is the one to show of two recording sites that are one of the profile's. */
static bool is_larger(const struct tally_site *a, const struct tally_site *b)
{
	if (a->peak_bytes != b->peak_bytes)
		return a->peak_bytes > b->peak_bytes;
	if (a->allocated_bytes != b->allocated_bytes)
		return a->allocated_bytes > b->allocated_bytes;
	return a < b; /* the order of the recording, so that reports repeat */
}

/* The behaviour of a part whose sites have numbers of their own. */
static int load_own_behaviour(struct load *l, const uint32_t *final, const uint32_t *nodes)
{
	uint32_t *by_recorded = malloc(((size_t)l->c->site_count + 1) * sizeof *by_recorded);
	if (!by_recorded)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < l->c->site_count; i++)
		by_recorded[i] = PROFILE_NONE;
	for (uint32_t i = 0; i < l->split->count; i++)
		by_recorded[l->split->sites[i].site] = final[i];
	int rc = trace_behaviour_load_own(l->p, l->c, l->behaviour, final, by_recorded, nodes,
					  l->thread_ids);
	free(by_recorded);
	return rc;
}

/* What trace_load_sites works with. Several sites of the recording may be one of the profile: they
 * are chained, so that one merged histogram at a time is in memory. */
struct site_loading {
	uint32_t count;  /* the recording's sites, or their parts by process */
	bool *sites;     /* by recording site: wanted */
	bool *wanted;    /* by recording node */
	uint32_t *nodes; /* of the profile, by recording node */
	uint32_t *calls; /* of the profile, by recording node */
	uint32_t *head;  /* by profile site: the last of its recording sites ... */
	uint32_t *next;  /* ... and by recording site the one before */
	uint32_t *final; /* by recording site: its profile site, when these are in order */
	uint32_t (*lifetimes)[PROFILE_LIFE_BUCKETS]; /* by profile site as they were added */
};

static int loading_init(struct site_loading *w, const struct load *l)
{
	size_t sites = l->split ? l->split->count : l->c->site_count, nodes = l->c->node_count;
	*w = (struct site_loading){
		.count = (uint32_t)sites,
		.sites = calloc(sites + 1, sizeof *w->sites),
		.wanted = calloc(nodes + 1, sizeof *w->wanted),
		.nodes = malloc((nodes + 1) * sizeof *w->nodes),
		.calls = malloc((nodes + 1) * sizeof *w->calls),
		.head = malloc((sites + 1) * sizeof *w->head),
		.next = malloc((sites + 1) * sizeof *w->next),
		.final = malloc((sites + 1) * sizeof *w->final),
	};
	return w->sites && w->wanted && w->nodes && w->calls && w->head && w->next && w->final
		       ? 0
		       : HEFT_ENOMEM;
}

static void loading_fini(struct site_loading *w)
{
	free(w->sites);
	free(w->wanted);
	free(w->nodes);
	free(w->calls);
	free(w->head);
	free(w->next);
	free(w->final);
	free(w->lifetimes);
}

static int add_sites(struct load *l, struct site_loading *w)
{
	int rc = 0;
	for (uint32_t i = 0; i < w->count && rc == 0; i++) {
		if (!w->sites[i])
			continue;
		uint32_t recorded = recorded_site(l, i)->node;
		uint32_t node = recorded < l->c->node_count ? w->nodes[recorded] : PROFILE_NONE;
		uint32_t id, before = l->p->site_count;
		rc = add_site(l, i, node, &id);
		if (rc < 0)
			break;
		w->next[i] = id == before ? PROFILE_NONE : w->head[id];
		w->head[id] = i;
	}
	return rc;
}

/* The numbers of a profile's site are the sums over its recording sites. */
static void fill_site(const struct load *l, struct site_loading *w, uint32_t id)
{
	struct profile *p = l->p;
	struct profile_site *s = &p->sites[id];
	struct tally_site lifetimes = {0};
	const struct tally_site *largest = NULL;
	for (uint32_t i = w->head[id]; i != PROFILE_NONE; i = w->next[i]) {
		const struct tally_site *one = &l->tally->sites[i];
		add_measures(l, s, i);
		add_lifetimes(&lifetimes, one);
		s->merged++;
		uint32_t node = recorded_site(l, i)->node;
		if (p->stacks.call_count && node < l->c->node_count &&
		    (!largest || is_larger(one, largest))) {
			largest = one;
			s->call = w->calls[node];
		}
	}
	/* Several stacks together never had more than everything at its peak. */
	uint64_t peak = l->tally->peak_bytes;
	if (s->merged > 1 && peak && s->own_peak_bytes > peak)
		s->own_peak_bytes = peak;
	s->lifetime = lifetime_of(&lifetimes, s->frees);
	memcpy(w->lifetimes[id], lifetimes.lifetime, sizeof *w->lifetimes);
}

/* Puts the sites in order; what belongs to sites follows. */
static int order_sites(struct load *l, struct site_loading *w)
{
	struct profile *p = l->p;
	profile_finish_sites(p);
	int rc = load_lifetimes(p, (const uint32_t(*)[PROFILE_LIFE_BUCKETS])w->lifetimes);
	for (uint32_t i = 0; i < w->count; i++)
		w->final[i] = PROFILE_NONE;
	for (uint32_t id = 0; id < p->site_count; id++)
		for (uint32_t i = w->head[p->sites[id].added]; i != PROFILE_NONE; i = w->next[i])
			w->final[i] = id;
	if (rc == 0 && l->spread)
		rc = load_errors(l, w->final);
	return rc;
}

int trace_load_sites(struct load *l)
{
	struct profile *p = l->p;
	struct site_loading w;
	/* Behaviour is of the whole recording: a part need not repeat it. */
	bool behaves = !l->sel->top_only && !l->sel->part_of && !l->split;
	int rc = loading_init(&w, l);
	if (rc == 0)
		rc = want_sites(l, w.sites, w.wanted);
	if (rc == 0 && behaves)
		trace_behaviour_want(l->c, l->c->tally, w.sites, w.wanted);
	if (rc == 0)
		want_makers(l, w.wanted);
	if (rc == 0)
		trace_remarks_want(l, w.wanted);
	if (rc == 0)
		rc = load_stacks(l, w.wanted, w.nodes, w.calls);
	if (rc == 0)
		find_makers(l, w.nodes);
	if (rc == 0)
		rc = add_sites(l, &w);
	if (rc == 0) {
		w.lifetimes = malloc(((size_t)p->site_count + 1) * sizeof *w.lifetimes);
		rc = w.lifetimes ? 0 : HEFT_ENOMEM;
	}
	for (uint32_t id = 0; id < p->site_count && rc == 0; id++)
		fill_site(l, &w, id);
	if (rc == 0)
		rc = order_sites(l, &w);
	if (rc == 0)
		rc = trace_looks_sites(l, w.final);
	if (rc == 0)
		rc = trace_remarks_fill(l, w.nodes, l->split ? NULL : w.final);
	if (rc == 0 && behaves)
		rc = trace_behaviour_load(p, l->c, w.final, w.nodes, l->thread_ids);
	if (rc == 0 && l->behaviour)
		rc = load_own_behaviour(l, w.final, w.nodes);
	if (rc == 0 && p->stacks.lender)
		take_ids(l, w.final);
	if (rc == 0 &&
	    (l->sel->keep || p->stacks.lender || trace_judges(l) || trace_wants_firsts(l)) &&
	    !l->split) {
		p->recorded.site_count = l->c->site_count;
		p->recorded.nodes = w.nodes;
		p->recorded.sites = w.final;
		w.nodes = w.final = NULL;
	}
	loading_fini(&w);
	return rc;
}

/* ---- totals */

int trace_load_totals(struct load *l)
{
	struct profile *p = l->p;
	struct profile_totals *t = &p->totals;
	struct profile_site all = {0};
	for (uint32_t i = 0; i < l->tally->site_count; i++)
		add_measures(l, &all, i);
	measure_sum_sites(t, &all, 1);
	p->chosen.from_ns = l->sel->has_window ? l->sel->from_ns : 0;
	p->chosen.to_ns = l->sel->has_window ? l->sel->to_ns : p->run.duration_ns;
	t->peak_bytes = l->tally->peak_bytes;
	t->peak_blocks = l->tally->peak_blocks;
	t->peak_time_ns = l->tally->peak_time_ns;
	t->threads = profile_count_threads(p);
	for (uint32_t i = 0; i < p->process_count; i++) {
		t->dropped += p->processes[i].totals.dropped;
		t->unknown_frees += p->processes[i].totals.unknown_frees;
		t->older_frees += p->processes[i].totals.older_frees;
	}
	int rc = trace_looks_totals(l);
	if (rc)
		return rc;
	return trace_resident_peak(p, l->c, l->processes, trace_counts_from(l),
				   l->sel->has_window ? l->sel->to_ns : UINT64_MAX);
}
