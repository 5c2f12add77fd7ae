/* A recording's behaviour into the model. The recording counts by call stack; the
 * profile merges stacks that read the same, so their entries are added up. The greatest
 * backlogs of merged stacks need not have been at one moment: their sum is an upper bound.
 *
 * Invariant: every index was checked when the recording was read. */
#include "profile/trace_behaviour.h"

#include "hosted/compare.h"
#include <stdlib.h>
#include <string.h>

/* Freeing stacks are symbolised for sites that reach this part of the peak. */
enum { LARGE = 1024 };

static bool release_is_wanted(const struct tally *t, const struct behaviour_release *r,
			      const bool *handed)
{
	return handed[r->site] || t->sites[r->site].own_peak_bytes >= t->peak_bytes / LARGE;
}

void trace_behaviour_want(const struct trace_contents *c, const struct tally *tally,
			  const bool *sites, bool *nodes)
{
	const struct behaviour *b = c->behaviour;
	bool *handed = b ? calloc((size_t)c->site_count + 1, sizeof *handed) : NULL;
	if (!handed)
		return; /* the freeing stacks will have no names */
	for (uint32_t i = 0; i < b->handover_count; i++)
		handed[b->handovers[i].site] = true;
	for (uint32_t i = 0; i < b->stay_count; i++)
		handed[b->stays[i].site] = true;
	for (uint32_t i = 0; i < b->release_count; i++) {
		const struct behaviour_release *r = &b->releases[i];
		if (!sites[r->site] || r->site >= tally->site_count ||
		    !release_is_wanted(tally, r, handed))
			continue;
		for (uint32_t node = c->sites[r->free_site].node;
		     node < c->node_count && !nodes[node];) {
			nodes[node] = true;
			uint32_t parent = c->nodes[node].parent;
			if (parent >= node)
				break;
			node = parent;
		}
	}
	free(handed);
}

/* ---- hand-overs */

/* Frees of a site's blocks between two threads, all by the profile's ids. */
struct pair {
	uint32_t site;
	struct profile_handover_threads t;
};

static int by_site_then_threads(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;
	return compare_numbers(x->site, y->site) ?: compare_numbers(x->t.from, y->t.from) ?: compare_numbers(x->t.to, y->t.to);
}

static int by_site_then_frees(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;
	if (x->site == y->site && x->t.frees != y->t.frees)
		return x->t.frees > y->t.frees ? -1 : 1;
	return by_site_then_threads(a, b);
}

/* One of the profile's two lists, and where it has the entry of a site: entry_of[site], or PROFILE_NONE */
struct wait_list {
	struct profile_handover *list;
	struct profile_handover_threads *threads;
	uint32_t count, threads_count;
	uint32_t *entry_of;
	/* By the recording's sites: the greatest backlog so far. Several entries may be of one site, and each
	 * has the greatest backlog of the whole site that it saw. */
	struct backlog {
		uint64_t blocks, bytes;
	} *greatest;
	bool stays; /* with the frees by the allocating thread: everything */
};

/* Fills in the threads of the list's entries. */
static int load_pairs(struct wait_list *w, const struct behaviour *b, const uint32_t *sites,
		      const uint32_t *threads)
{
	size_t most = (size_t)b->pair_count + b->stay_count + 1;
	struct pair *pairs = malloc(most * sizeof *pairs);
	w->threads = malloc(most * sizeof *w->threads);
	if (!pairs || !w->threads) {
		free(pairs);
		return HEFT_ENOMEM;
	}
	uint32_t count = 0, n = 0;
	for (uint32_t i = 0; i < b->pair_count; i++) {
		const struct behaviour_pair *f = &b->pairs[i];
		uint32_t site = sites[f->site];
		if (site != PROFILE_NONE && w->entry_of[site] != PROFILE_NONE)
			pairs[count++] = (struct pair){
				site, {threads[f->from], threads[f->to], f->frees}};
	}
	for (uint32_t i = 0; w->stays && i < b->stay_count; i++) {
		const struct behaviour_stay *f = &b->stays[i];
		uint32_t site = sites[f->site], thread = threads[f->thread];
		if (site != PROFILE_NONE && w->entry_of[site] != PROFILE_NONE)
			pairs[count++] = (struct pair){site, {thread, thread, f->waits.frees}};
	}
	/* Two threads come again, for merged stacks and for threads that are not selected. They are added
	 * up before they are put in order. */
	qsort(pairs, count, sizeof *pairs, by_site_then_threads);
	for (uint32_t i = 0; i < count; i++) {
		if (n && by_site_then_threads(&pairs[n - 1], &pairs[i]) == 0)
			pairs[n - 1].t.frees += pairs[i].t.frees;
		else
			pairs[n++] = pairs[i];
	}
	qsort(pairs, n, sizeof *pairs, by_site_then_frees);
	for (uint32_t i = 0; i < n; i++) {
		struct profile_handover *h = &w->list[w->entry_of[pairs[i].site]];
		if (!h->threads_count++)
			h->threads_first = i;
		w->threads[i] = pairs[i].t;
	}
	w->threads_count = n;
	free(pairs);
	return 0;
}

static void add_waits(struct wait_list *w, uint32_t recorded, uint32_t site,
		      const struct behaviour_waits *f)
{
	if (site == PROFILE_NONE || !f->frees)
		return;
	uint32_t *at = &w->entry_of[site];
	if (*at == PROFILE_NONE) {
		*at = w->count;
		w->list[w->count++] = (struct profile_handover){
			.site = site, .first_birth_ns = UINT64_MAX, .first_free_ns = UINT64_MAX};
	}
	struct backlog *before = &w->greatest[recorded];
	bool more_waited = f->backlog_blocks > before->blocks;
	const struct profile_handover more = {
		.frees = f->frees,
		.bytes = f->bytes,
		.in_order = f->in_order,
		.backlog_blocks = more_waited ? f->backlog_blocks - before->blocks : 0,
		.backlog_bytes = more_waited && f->backlog_bytes > before->bytes
					 ? f->backlog_bytes - before->bytes
					 : 0,
		.backlog_time_ns = more_waited ? f->backlog_time_ns : 0,
		.first_birth_ns = f->first_birth_ns,
		.last_birth_ns = f->last_birth_ns,
		.first_free_ns = f->first_free_ns,
		.last_free_ns = f->last_free_ns,
		.line = {(double)f->frees, f->birth, f->wait, f->birth_birth, f->birth_wait,
			 f->wait_wait},
	};
	profile_waits_add(&w->list[*at], &more);
	if (more_waited)
		*before = (struct backlog){f->backlog_blocks, f->backlog_bytes};
}

static int load_waits(struct wait_list *w, const struct profile *p, const struct behaviour *b,
		      const uint32_t *sites, const uint32_t *threads)
{
	uint32_t site_count = 0; /* of the recording, as far as there are entries */
	for (uint32_t i = 0; i < b->handover_count; i++)
		site_count = (uint32_t)greater(site_count, b->handovers[i].site + 1ull);
	for (uint32_t i = 0; i < b->stay_count; i++)
		site_count = (uint32_t)greater(site_count, b->stays[i].site + 1ull);
	size_t most = (size_t)b->handover_count + b->stay_count + 1;
	w->list = calloc(most, sizeof *w->list);
	w->entry_of = malloc(((size_t)p->site_count + 1) * sizeof *w->entry_of);
	w->greatest = calloc((size_t)site_count + 1, sizeof *w->greatest);
	int rc = w->list && w->entry_of && w->greatest ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->site_count && rc == 0; i++)
		w->entry_of[i] = PROFILE_NONE;
	for (uint32_t i = 0; i < b->handover_count && rc == 0; i++)
		add_waits(w, b->handovers[i].site, sites[b->handovers[i].site],
			  &b->handovers[i].waits);
	for (uint32_t i = 0; w->stays && i < b->stay_count && rc == 0; i++)
		add_waits(w, b->stays[i].site, sites[b->stays[i].site], &b->stays[i].waits);
	if (rc == 0)
		rc = load_pairs(w, b, sites, threads);
	free(w->entry_of);
	free(w->greatest);
	return rc;
}

/* A profile that cannot be finished is freed with what it has. */
static int load_handovers(struct profile *p, const struct behaviour *b, const uint32_t *sites,
			  const uint32_t *threads)
{
	struct wait_list handed = {.stays = false}, all = {.stays = true};
	int rc = load_waits(&handed, p, b, sites, threads);
	if (rc == 0)
		rc = load_waits(&all, p, b, sites, threads);
	p->behaviour.handovers = handed.list;
	p->behaviour.handover_count = handed.count;
	p->behaviour.handover_threads = handed.threads;
	p->behaviour.handover_threads_count = handed.threads_count;
	p->behaviour.waits = all.list;
	p->behaviour.wait_count = all.count;
	p->behaviour.wait_threads = all.threads;
	p->behaviour.wait_threads_count = all.threads_count;
	return rc;
}

/* ---- who frees */

static int by_site_then_node(const void *a, const void *b)
{
	const struct profile_release *x = a, *y = b;
	return compare_numbers(x->site, y->site) ?: compare_numbers(x->node, y->node);
}

static int by_site_then_samples(const void *a, const void *b)
{
	const struct profile_release *x = a, *y = b;
	if (x->site == y->site && x->samples != y->samples)
		return x->samples > y->samples ? -1 : 1;
	return by_site_then_node(a, b);
}

static int load_releases(struct profile *p, const struct trace_contents *c, const uint32_t *sites,
			 const uint32_t *nodes)
{
	const struct behaviour *b = c->behaviour;
	p->behaviour.releases = malloc(((size_t)b->release_count + 1) *
				       sizeof *p->behaviour.releases);
	if (!p->behaviour.releases)
		return HEFT_ENOMEM;
	uint32_t count = 0;
	for (uint32_t i = 0; i < b->release_count; i++) {
		const struct behaviour_release *r = &b->releases[i];
		uint32_t node = c->sites[r->free_site].node;
		if (sites[r->site] == PROFILE_NONE || node >= c->node_count ||
		    nodes[node] == PROFILE_NONE)
			continue;
		p->behaviour.releases[count++] = (struct profile_release){sites[r->site],
									  nodes[node], r->samples};
	}
	qsort(p->behaviour.releases, count, sizeof *p->behaviour.releases, by_site_then_node);
	uint32_t n = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct profile_release *r = &p->behaviour.releases[i],
				       *last = n ? &p->behaviour.releases[n - 1] : NULL;
		if (last && last->site == r->site && last->node == r->node)
			last->samples += r->samples;
		else
			p->behaviour.releases[n++] = *r;
	}
	p->behaviour.release_count = n;
	qsort(p->behaviour.releases, n, sizeof *p->behaviour.releases, by_site_then_samples);
	return 0;
}

/* ---- growth */

static void add_growth(struct profile_growth *g, const struct behaviour_growth *f)
{
	g->steps += f->steps;
	g->moved_steps += f->moved_steps;
	g->copied_bytes += f->copied_bytes;
	g->blocks += f->blocks;
	g->final_bytes += f->final_bytes;
	if (f->largest_bytes > g->largest_bytes)
		g->largest_bytes = f->largest_bytes;
	g->measured_blocks += f->measured_blocks;
	g->measured_bytes += f->measured_bytes;
	g->unused_bytes += f->unused_bytes;
}

static int load_growths(struct profile *p, const struct behaviour *b, const uint32_t *sites)
{
	p->behaviour.growths = calloc((size_t)b->growth_count + 1, sizeof *p->behaviour.growths);
	if (!p->behaviour.growths)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < b->growth_count; i++) {
		const struct behaviour_growth *f = &b->growths[i];
		uint32_t site = sites[f->site];
		if (site == PROFILE_NONE)
			continue;
		if (p->sites[site].growth == PROFILE_NONE) {
			p->sites[site].growth = p->behaviour.growth_count;
			p->behaviour.growths[p->behaviour.growth_count++].site = site;
		}
		add_growth(&p->behaviour.growths[p->sites[site].growth], f);
	}
	return 0;
}

/* ---- history */

static uint64_t *copy_slots(const uint64_t *values, uint32_t count)
{
	uint64_t *copy = calloc((size_t)count + 1, sizeof *copy);
	for (uint32_t i = 0; copy && i < count; i++)
		copy[i] = values[i];
	return copy;
}

static int load_history(struct profile *p, const struct behaviour *b, const uint32_t *sites)
{
	struct profile_history *h = &p->behaviour.history;
	h->bytes = copy_slots(b->bytes, b->slot_count);
	h->blocks = copy_slots(b->blocks, b->slot_count);
	h->events = copy_slots(b->events, b->slot_count);
	h->rows = calloc((size_t)b->row_count + 1, sizeof *h->rows);
	if (!h->bytes || !h->blocks || !h->events || !h->rows)
		return HEFT_ENOMEM;
	h->slot_ns = b->slot_ns;
	h->slot_count = b->slot_count;
	for (uint32_t i = 0; i < b->row_count; i++) {
		const struct behaviour_row *f = b->rows[i];
		uint32_t site = sites[f->site];
		if (site == PROFILE_NONE)
			continue;
		if (p->sites[site].history == PROFILE_NONE) {
			struct profile_history_row *row = &h->rows[h->row_count];
			row->site = site;
			row->first = f->first;
			row->bytes = copy_slots(f->bytes, b->slot_count);
			row->blocks = copy_slots(f->blocks, b->slot_count);
			p->sites[site].history = h->row_count++;
			if (!row->bytes || !row->blocks)
				return HEFT_ENOMEM;
			continue;
		}
		struct profile_history_row *row = &h->rows[p->sites[site].history];
		for (uint32_t k = 0; k < b->slot_count; k++) {
			row->bytes[k] += f->bytes[k];
			row->blocks[k] += f->blocks[k];
		}
		if (f->first < row->first)
			row->first = f->first;
	}
	return 0;
}

static uint64_t part_of(uint64_t n, uint64_t part, uint64_t whole)
{
	return part >= whole ? n : (uint64_t)((double)n * (double)part / (double)whole + 0.5);
}

/* Divides what only the recorder saw of arrays by the steps in which each process grew them. */
static int share_growths(struct profile *p, const struct behaviour *all, const uint32_t *sites)
{
	struct profile_growth *sums = calloc((size_t)p->behaviour.growth_count + 1, sizeof *sums);
	if (!sums)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < all->growth_count; i++) {
		const struct behaviour_growth *f = &all->growths[i];
		uint32_t site = sites[f->site];
		uint32_t at = site == PROFILE_NONE ? PROFILE_NONE : p->sites[site].growth;
		if (at < p->behaviour.growth_count)
			add_growth(&sums[at], f);
	}
	for (uint32_t i = 0; i < p->behaviour.growth_count; i++) {
		struct profile_growth *g = &p->behaviour.growths[i];
		const struct profile_growth *s = &sums[i];
		g->moved_steps = part_of(s->moved_steps, g->steps, s->steps);
		g->copied_bytes = part_of(s->copied_bytes, g->steps, s->steps);
		g->measured_blocks = part_of(s->measured_blocks, g->steps, s->steps);
		g->measured_bytes = part_of(s->measured_bytes, g->steps, s->steps);
		g->unused_bytes = part_of(s->unused_bytes, g->steps, s->steps);
		g->largest_bytes = s->largest_bytes;
	}
	free(sums);
	return 0;
}

int trace_behaviour_load_own(struct profile *p, const struct trace_contents *c,
			     const struct behaviour *b, const uint32_t *own_sites,
			     const uint32_t *sites, const uint32_t *nodes, const uint32_t *threads)
{
	int rc = load_handovers(p, b, own_sites, threads);
	if (rc == 0 && c->behaviour)
		rc = load_releases(p, c, sites, nodes);
	if (rc == 0)
		rc = load_growths(p, b, own_sites);
	if (rc == 0 && c->behaviour && c->behaviour != b)
		rc = share_growths(p, c->behaviour, sites);
	if (rc == 0)
		rc = load_history(p, b, own_sites);
	if (rc == 0)
		profile_link_behaviour(p);
	return rc;
}

int trace_behaviour_load(struct profile *p, const struct trace_contents *c, const uint32_t *sites,
			 const uint32_t *nodes, const uint32_t *threads)
{
	return c->behaviour
		       ? trace_behaviour_load_own(p, c, c->behaviour, sites, sites, nodes, threads)
		       : 0;
}
