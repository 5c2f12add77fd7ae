/* The sites of a recording into the model: their stacks, which are symbolised here, and their measures,
 * which come from the tally of what is selected. Sites whose stacks read the same become one, unless
 * stacks are kept apart. A summary looks at the largest only. */
#include "profile/trace_load.h"

#include "profile/estimate.h"
#include "profile/process_images.h"
#include "profile/trace_behaviour.h"
#include "profile/trace_resident.h"
#include "profile/trace_stacks.h"

#include <stdlib.h>
#include <string.h>

/* A summary looks at no more than this many of the largest stacks ... */
enum { SUMMARY_STACKS = 64, SUMMARY_NODES = 4096 /* ... unless they are short */ };

static uint64_t sum(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

static uint64_t site_left(const struct tally_site *s)
{
	return sum(s->live_bytes, s->end_bytes);
}

/* A site that only lost blocks to another one, by realloc, has nothing but what it began with. */
static bool site_is_empty(const struct load *l, uint32_t site)
{
	const struct tally_site *s = &l->tally->sites[site];
	return !s->allocations && !s->reallocations && !s->frees && !s->live_blocks &&
	       !s->end_blocks && !s->peak_blocks &&
	       !(l->start && site < l->start_count && l->start[site].blocks);
}

struct site_order {
	uint64_t peak_bytes;
	uint32_t site;
};

static int by_peak(const void *a, const void *b)
{
	const struct site_order *x = a, *y = b;
	if (x->peak_bytes != y->peak_bytes)
		return x->peak_bytes > y->peak_bytes ? -1 : 1;
	return x->site < y->site ? -1 : x->site > y->site;
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
	/* Of a stack without its inner end the allocation function is not known either. */
	bool lost = s->node < l->c->node_count && (l->c->nodes[s->node].flags & TRACE_FRAME_LOST);
	return profile_add_labelled_site(l->p, node, lost ? PROFILE_VIA_UNKNOWN : s->via, labels,
					 id);
}

/* Decides which sites become sites of the profile, and so which stacks are symbolised. */
static int want_sites(struct load *l, bool *sites, bool *nodes)
{
	const struct trace_contents *c = l->c;
	uint32_t count = count_sites(l);
	struct site_order *order = malloc(((size_t)count + 1) * sizeof *order);
	uint32_t candidates = 0;
	if (!order)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		if (!site_is_empty(l, i))
			order[candidates++] = (struct site_order){l->tally->sites[i].peak_bytes, i};
	if (l->sel->top_only && candidates)
		qsort(order, candidates, sizeof *order, by_peak);
	size_t used_nodes = 0;
	for (uint32_t i = 0; i < candidates; i++) {
		if (l->sel->top_only && (!order[i].peak_bytes ||
					 (i >= SUMMARY_STACKS && used_nodes >= SUMMARY_NODES))) {
			l->p->chosen.sites_left_out = candidates - i;
			break;
		}
		sites[order[i].site] = true;
		used_nodes += want_stack(c, recorded_site(l, order[i].site)->node, nodes);
	}
	free(order);
	return 0;
}

/* Of the recording's sites that are one of the profile's */
struct site_sums {
	struct tally_site tally;
	uint64_t left_bytes, left_blocks;
};

/* Live when the recording ended: what was never freed, unless its process ended before. */
static struct live_at_end live_at_end(const struct load *l, uint32_t site)
{
	const struct tally_site *s = &l->tally->sites[site];
	struct live_at_end end = {s->end_bytes, s->end_blocks, s->end_slack};
	if (l->last)
		end = site < l->last_count ? l->last[site] : (struct live_at_end){0};
	return (struct live_at_end){sum(s->live_bytes, end.bytes), sum(s->live_blocks, end.blocks),
				    sum(s->live_slack, end.slack)};
}

static void add_measures(const struct load *l, struct site_sums *sums, uint32_t site)
{
	const struct tally_site *s = &l->tally->sites[site];
	struct tally_site *all = &sums->tally;
	struct live_at_end live = live_at_end(l, site);
	sums->left_bytes += site_left(s);
	sums->left_blocks += sum(s->live_blocks, s->end_blocks);
	all->allocations += s->allocations;
	all->allocated_bytes += s->allocated_bytes;
	all->live_bytes += live.bytes;
	all->live_blocks += live.blocks;
	all->live_slack += live.slack;
	all->peak_bytes += s->peak_bytes;
	all->peak_blocks += s->peak_blocks;
	all->peak_slack += s->peak_slack;
	/* Stacks that read the same need not have been at their maxima together: the sum of their
	 * own peaks is an upper bound, exact for a single stack. The heap's peak is another. */
	all->own_peak_bytes += s->own_peak_bytes;
	all->frees += s->frees;
	all->temporary += s->temporary;
	all->cross_thread_frees += s->cross_thread_frees;
	all->reallocations += s->reallocations;
	all->reallocated_bytes += s->reallocated_bytes;
	all->end_blocks += s->end_blocks;
	all->lifetime_sum_ns = sum(all->lifetime_sum_ns, s->lifetime_sum_ns);
	if (s->lifetime_max_ns > all->lifetime_max_ns)
		all->lifetime_max_ns = s->lifetime_max_ns;
	for (int i = 0; i < TALLY_BUCKETS; i++) {
		uint64_t n = (uint64_t)all->lifetime[i] + s->lifetime[i];
		all->lifetime[i] = n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
	}
}

static void take_measures(struct profile_site *site, const struct site_sums *sums)
{
	const struct tally_site *all = &sums->tally;
	uint64_t ended = sum(all->frees, all->end_blocks);
	site->allocations = all->allocations;
	site->reallocations = all->reallocations;
	site->frees = all->frees;
	site->allocated_bytes = all->allocated_bytes;
	site->reallocated_bytes = all->reallocated_bytes;
	site->peak_bytes = all->peak_bytes;
	site->peak_blocks = all->peak_blocks;
	site->peak_slack_bytes = all->peak_slack;
	site->own_peak_bytes = all->own_peak_bytes;
	site->live_bytes = all->live_bytes;
	site->live_blocks = all->live_blocks;
	site->live_slack_bytes = all->live_slack;
	site->left_bytes = sums->left_bytes;
	site->left_blocks = sums->left_blocks;
	site->temporary = all->temporary;
	site->cross_thread_frees = all->cross_thread_frees;
	site->lifetime.mean_ns = ended ? all->lifetime_sum_ns / ended : 0;
	site->lifetime.p50_ns = tally_lifetime_quantile(all, 0.5);
	site->lifetime.p99_ns = tally_lifetime_quantile(all, 0.99);
	site->lifetime.max_ns = all->lifetime_max_ns;
}

_Static_assert((int)PROFILE_LIFE_BUCKETS == TALLY_BUCKETS, "one histogram");

/* Of sites in order, from those in the order in which they were added. */
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

/* Of a sampled recording: how certain its numbers are, and when what is live was made. */
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

/* Of the recording's sites that one of the profile stands for: is `a` the one to show? */
static bool is_larger(const struct tally_site *a, const struct tally_site *b)
{
	if (a->peak_bytes != b->peak_bytes)
		return a->peak_bytes > b->peak_bytes;
	if (a->allocated_bytes != b->allocated_bytes)
		return a->allocated_bytes > b->allocated_bytes;
	return a < b; /* the order of the recording, so that reports repeat */
}

/* Of a part that has sites of its own. */
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
	uint32_t count;  /* of the recording's sites, or of their parts by process */
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

/* The numbers of a profile's site: the sums over the recording's. */
static void fill_site(const struct load *l, struct site_loading *w, uint32_t id)
{
	struct profile *p = l->p;
	struct profile_site *s = &p->sites[id];
	struct site_sums all;
	const struct tally_site *largest = NULL;
	memset(&all, 0, sizeof all);
	for (uint32_t i = w->head[id]; i != PROFILE_NONE; i = w->next[i]) {
		const struct tally_site *one = &l->tally->sites[i];
		add_measures(l, &all, i);
		s->merged++;
		uint32_t node = recorded_site(l, i)->node;
		if (p->stacks.call_count && node < l->c->node_count &&
		    (!largest || is_larger(one, largest))) {
			largest = one;
			s->call = w->calls[node];
		}
		if (l->start) {
			s->start_bytes += l->start[i].bytes;
			s->start_blocks += l->start[i].blocks;
		}
	}
	uint64_t *own = &all.tally.own_peak_bytes, peak = l->tally->peak_bytes;
	if (s->merged > 1 && peak && *own > peak)
		*own = peak;
	take_measures(s, &all);
	memcpy(w->lifetimes[id], all.tally.lifetime, sizeof *w->lifetimes);
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
		rc = load_stacks(l, w.wanted, w.nodes, w.calls);
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
	if (rc == 0 && behaves)
		rc = trace_behaviour_load(p, l->c, w.final, w.nodes, l->thread_ids);
	if (rc == 0 && l->behaviour)
		rc = load_own_behaviour(l, w.final, w.nodes);
	if (rc == 0 && p->stacks.lender)
		take_ids(l, w.final);
	if (rc == 0 && (l->sel->keep || p->stacks.lender || trace_judges(l)) && !l->split) {
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
	const struct tally *tally = l->tally;
	for (uint32_t i = 0; i < tally->site_count; i++) {
		const struct tally_site *s = &tally->sites[i];
		t->allocations += s->allocations;
		t->reallocations += s->reallocations;
		t->frees += s->frees;
		t->allocated_bytes += s->allocated_bytes;
		t->reallocated_bytes += s->reallocated_bytes;
		t->left_bytes += site_left(s);
		t->left_blocks += sum(s->live_blocks, s->end_blocks);
		struct live_at_end live = live_at_end(l, i);
		t->live_bytes += live.bytes;
		t->live_blocks += live.blocks;
		t->live_slack_bytes += live.slack;
		t->temporary += s->temporary;
		t->peak_slack_bytes += s->peak_slack;
		if (l->start) {
			t->start_bytes += l->start[i].bytes;
			t->start_blocks += l->start[i].blocks;
		}
	}
	p->chosen.from_ns = l->sel->has_window ? l->sel->from_ns : 0;
	p->chosen.to_ns = l->sel->has_window ? l->sel->to_ns : p->run.duration_ns;
	t->peak_bytes = tally->peak_bytes;
	t->peak_blocks = tally->peak_blocks;
	t->peak_time_ns = tally->peak_time_ns;
	t->threads = profile_count_threads(p);
	for (uint32_t i = 0; i < p->process_count; i++) {
		t->dropped += p->processes[i].totals.dropped;
		t->unknown_frees += p->processes[i].totals.unknown_frees;
	}
	return trace_resident_peak(p, l->c, l->processes, trace_counts_from(l),
				   l->sel->has_window ? l->sel->to_ns : UINT64_MAX);
}
