/* heft's recording into the model.
 *
 * The recording carries a finished tally, so opening it costs its tables and its
 * symbols, however many events it has. Only a selection by process, thread or time
 * replays the events: into a fresh tally, with the blocks that the selected threads
 * allocated (a free of such a block counts whoever does it), so that the selection
 * has a peak of its own.
 *
 * A window begins with what is live then and counts what happens in it.
 *
 * Of several selections only the first, of everything, reads symbols; the others
 * are parts of it and borrow its stacks (part_of).
 *
 * Invariants: the sums over sites equal the totals; all indices in the recording
 * are checked before they are used, events' included. */
#include "profile/profile_from_trace.h"

#include "profile/estimate.h"
#include "profile/missing_symbols.h"
#include "profile/process_groups.h"
#include "profile/process_images.h"
#include "profile/trace_behaviour.h"
#include "profile/trace_load.h"
#include "profile/trace_notes.h"
#include "profile/trace_resident.h"
#include "profile/trace_stacks.h"
#include "profile/trace_unseen.h"
#include "profile/user_frame.h"
#include "trace/trace_block.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A summary looks at no more than this many of the largest stacks ... */
enum { SUMMARY_STACKS = 64, SUMMARY_NODES = 4096 /* ... unless they are short */ };

static uint64_t sum(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

/* ---- a sampled recording */

static int refuse_selection(struct load *l)
{
	if (!l->c->samples_count || !(l->sel->thread || l->sel->has_window || l->sel->sizes))
		return 0;
	return heft_fail(l->err, HEFT_EREFUSED,
			 "a sampled recording does not tell threads, times and sizes\n"
			 "record without --sample to select by them");
}

static int estimate(struct load *l)
{
	const struct trace_contents *c = l->c;
	bool *processes = calloc((size_t)c->process_count + 1, sizeof *processes);
	if (!processes)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < c->process_count; i++)
		processes[i] = l->processes[i] != PROFILE_NONE;
	int rc = trace_samples_tally(c, processes, l->last_processes, l->split, &l->replayed,
				     &l->spread);
	free(processes);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < c->samples_count; i++)
		if (c->samples[i].rate_bytes > l->p->rate_bytes)
			l->p->rate_bytes = c->samples[i].rate_bytes;
	l->p->has = PROFILE_HAS_PEAK | PROFILE_HAS_LIVE | PROFILE_HAS_ALLOCATED | PROFILE_HAS_TIMES;
	l->tally = &l->replayed;
	return 0;
}

/* ---- tables */

static int compare_modules(const void *a, const void *b)
{
	const struct trace_module *x = *(const struct trace_module *const *)a;
	const struct trace_module *y = *(const struct trace_module *const *)b;
	int order = strcmp(x->path ? x->path : "", y->path ? y->path : "");
	if (order)
		return order;
	if (x->build_id_len != y->build_id_len)
		return x->build_id_len < y->build_id_len ? -1 : 1;
	return x->build_id_len ? memcmp(x->build_id, y->build_id, x->build_id_len) : 0;
}

/* Each process records the modules it loads: the same file is one module of the profile. */
static int load_modules(struct load *l)
{
	const struct trace_contents *c = l->c;
	const struct trace_module **order = malloc(((size_t)c->module_count + 1) * sizeof *order);
	int rc = 0;
	l->modules = calloc((size_t)c->module_count + 1, sizeof *l->modules);
	if (!order || !l->modules) {
		free(order);
		return HEFT_ENOMEM;
	}
	for (uint32_t i = 0; i < c->module_count; i++)
		order[i] = &c->modules[i];
	if (c->module_count)
		qsort(order, c->module_count, sizeof *order, compare_modules);
	uint32_t id = PROFILE_NONE;
	for (uint32_t i = 0; i < c->module_count && rc == 0; i++) {
		if (i == 0 || compare_modules(&order[i - 1], &order[i]) != 0)
			rc = profile_add_module(l->p, order[i]->path, order[i]->build_id,
						order[i]->build_id_len, &id);
		l->modules[order[i] - c->modules] = id;
	}
	free(order);
	return rc;
}

static enum profile_end end_of(uint32_t end)
{
	switch ((enum trace_end)end) {
	case TRACE_END_RUNNING:
		return PROFILE_END_RUNNING;
	case TRACE_END_EXIT:
		return PROFILE_END_EXIT;
	case TRACE_END_SIGNAL:
	case TRACE_END_OOM:
		return PROFILE_END_SIGNAL;
	case TRACE_END_EXEC:
		return PROFILE_END_EXEC;
	case TRACE_END_DETACHED:
		return PROFILE_END_DETACHED;
	case TRACE_END_UNKNOWN:
		break;
	}
	return PROFILE_END_UNKNOWN;
}

/* The image that the command ended as: it may have called exec. */
static const struct trace_process *last_image(const struct trace_contents *c)
{
	uint32_t at = 0;
	for (uint32_t i = 1; i < c->process_count; i++)
		if (c->processes[at].end == TRACE_END_EXEC &&
		    c->processes[i].pid == c->processes[at].pid)
			at = i;
	return &c->processes[at];
}

static int load_meta(struct load *l)
{
	const struct trace_contents *c = l->c;
	struct profile *p = l->p;
	p->heft_version = name_pool_add(p->names, c->meta.heft_version ? c->meta.heft_version : "");
	p->argv = profile_copy_strings(p, c->meta.argv, c->meta.argc);
	if (!p->heft_version || !p->argv)
		return HEFT_ENOMEM;
	p->argc = c->meta.argc;
	p->start_unix_ns = c->meta.start_unix_ns;
	p->duration_ns = c->duration_ns;
	p->memory_limit_bytes = c->meta.memory_limit_bytes;
	p->limit_is_cgroup = c->meta.limit_is_cgroup;
	p->complete = c->complete;
	p->cut_offset = c->cut_offset;
	p->file_bytes = c->file_bytes;
	p->events = c->events;
	p->end = PROFILE_END_RUNNING;
	if (c->process_count) {
		const struct trace_process *last = last_image(c);
		p->pid = c->processes[0].pid;
		if (c->complete) {
			p->end = end_of(last->end);
			if (p->end == PROFILE_END_EXEC) /* what it became was not recorded */
				p->end = PROFILE_END_DETACHED;
			p->exit_status = last->exit_status;
			p->signal = last->signal;
			if (last->end == TRACE_END_OOM) {
				p->oom_killed = true;
				p->memory_limit_bytes = last->memory_limit_bytes;
				p->limit_is_cgroup = last->limit_is_cgroup;
			}
		}
	}
	return 0;
}

static int load_processes(struct load *l)
{
	const struct trace_contents *c = l->c;
	struct profile *p = l->p;
	bool *shown = calloc((size_t)c->process_count + 1, sizeof *shown);
	int rc = 0;
	l->processes = calloc((size_t)c->process_count + 1, sizeof *l->processes);
	if (!shown || !l->processes) {
		free(shown);
		return HEFT_ENOMEM;
	}
	for (uint32_t i = 0; i < c->process_count; i++)
		shown[i] =
			!l->sel->thread && trace_process_is_chosen(l, i);
	for (uint32_t i = 0; i < c->thread_count; i++)
		if (l->threads[i] && c->threads[i].process < c->process_count)
			shown[c->threads[i].process] = true;
	for (uint32_t i = 0; i < c->process_count && rc == 0; i++) {
		const struct trace_process *t = &c->processes[i];
		l->processes[i] = PROFILE_NONE;
		if (!shown[i])
			continue;
		struct profile_process pp = {
			.pid = t->pid,
			.ppid = t->ppid,
			.number = i,
			.argc = t->argc,
			.start_ns = t->start_ns,
			.end_ns = t->end_ns,
			.end = end_of(t->end),
			.exit_status = t->exit_status,
			.signal = t->signal,
			.begins_after = trace_process_begins_after(l, i),
			.is_outside = trace_process_is_outside(l, i),
		};
		pp.exe = name_pool_add(p->names, t->exe ? t->exe : "");
		pp.argv = profile_copy_strings(p, t->argv, t->argc);
		if (!pp.exe || !pp.argv) {
			rc = HEFT_ENOMEM;
			break;
		}
		pp.totals.peak_bytes = t->peak_bytes;
		pp.totals.peak_blocks = t->peak_blocks;
		pp.totals.peak_time_ns = t->peak_time_ns;
		pp.totals.dropped = t->dropped;
		pp.totals.unknown_frees = t->unknown_frees;
		rc = profile_add_process(p, &pp, &l->processes[i]);
	}
	free(shown);
	return rc;
}

static int load_threads(struct load *l)
{
	const struct trace_contents *c = l->c;
	l->thread_ids = malloc(((size_t)c->thread_count + 1) * sizeof *l->thread_ids);
	if (!l->thread_ids)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < c->thread_count; i++) {
		const struct trace_thread *t = &c->threads[i];
		l->thread_ids[i] = PROFILE_NONE;
		if (!l->threads[i] || t->process >= c->process_count)
			continue;
		struct profile_thread pt = {
			.pid = c->processes[t->process].pid,
			.tid = t->tid,
			.process = l->processes[t->process],
			.name = name_pool_add(l->p->names, t->name ? t->name : ""),
		};
		if (!pt.name)
			return HEFT_ENOMEM;
		if (i < l->tally->thread_count) {
			pt.allocations = l->tally->threads[i].allocations;
			pt.allocated_bytes = l->tally->threads[i].allocated_bytes;
			pt.reallocations = l->tally->threads[i].reallocations;
			pt.frees = l->tally->threads[i].frees;
		}
		l->thread_ids[i] = l->p->thread_count;
		if (profile_add_thread(l->p, &pt) < 0)
			return HEFT_ENOMEM;
		struct profile_totals *total = &l->p->processes[pt.process].totals;
		total->threads++;
		total->allocations += pt.allocations;
		total->allocated_bytes += pt.allocated_bytes;
		total->reallocations += pt.reallocations;
		total->frees += pt.frees;
	}
	return 0;
}

/* ---- sites */

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
	return profile_add_labelled_site(l->p, node, lost ? PROFILE_VIA_UNKNOWN : s->via, labels, id);
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
			l->p->sites_left_out = candidates - i;
			break;
		}
		sites[order[i].site] = true;
		used_nodes += want_stack(c, recorded_site(l, order[i].site)->node, nodes);
	}
	free(order);
	return 0;
}

struct site_sums { /* of the recording's sites that are one of the profile's */
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
	p->lifetimes = malloc(((size_t)p->site_count + 1) * sizeof *p->lifetimes);
	if (!p->lifetimes)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->site_count; i++)
		memcpy(p->lifetimes[i], unsorted[p->sites[i].release_first],
		       sizeof *p->lifetimes);
	return 0;
}

/* Of a sampled recording: how certain its numbers are, and when what is live was made. */
static int load_errors(struct load *l, const uint32_t *final)
{
	struct profile *p = l->p;
	p->errors = calloc((size_t)p->site_count + 1, sizeof *p->errors);
	p->spreads = calloc((size_t)p->site_count + 1, sizeof *p->spreads);
	if (!p->errors || !p->spreads)
		return HEFT_ENOMEM;
	uint32_t count = l->split ? l->split->count : l->c->site_count;
	for (uint32_t i = 0; i < count; i++) {
		if (final[i] != PROFILE_NONE)
			estimate_add_spread(&p->spreads[final[i]], &l->spread[i]);
		estimate_add_spread(&p->total_spread, &l->spread[i]); /* also what a summary leaves out */
	}
	return l->sel->top_only || l->sel->no_ages || l->split ? 0 : trace_load_births(l, final);
}

/* The stacks of the wanted nodes; nodes[] and calls[] become the profile's by the recording's. */
static int load_stacks(struct load *l, const bool *wanted, uint32_t *nodes, uint32_t *calls)
{
	const struct profile *whole = l->sel->part_of;
	if (!whole)
		return trace_stacks_load(l->p, l->c, l->modules, wanted, l->sel, nodes, calls);
	if (!whole->recorded_nodes || whole->recorded_site_count != l->c->site_count)
		return heft_fail(l->err, HEFT_EUSAGE, "a part of another recording");
	memcpy(nodes, whole->recorded_nodes, l->c->node_count * sizeof *nodes);
	l->p->lender = whole;
	l->p->modules = whole->modules;
	l->p->module_count = whole->module_count;
	l->p->frames = whole->frames;
	l->p->frame_count = whole->frame_count;
	l->p->nodes = whole->nodes;
	l->p->node_count = whole->node_count;
	return 0;
}

/* Sites of a part are named as in the whole. */
static void take_ids(struct load *l, const uint32_t *final)
{
	const struct profile *whole = l->p->lender;
	uint32_t count = l->split ? l->split->count : whole->recorded_site_count;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t site = whole->recorded_sites[l->split ? l->split->sites[i].site : i];
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

static int load_sites(struct load *l)
{
	const struct trace_contents *c = l->c;
	struct profile *p = l->p;
	uint32_t site_count = l->split ? l->split->count : c->site_count;
	bool behaves = !l->sel->top_only && !l->sel->part_of && !l->split;
	bool *sites = calloc((size_t)site_count + 1, sizeof *sites);
	bool *wanted = calloc((size_t)c->node_count + 1, sizeof *wanted);
	uint32_t *nodes = malloc(((size_t)c->node_count + 1) * sizeof *nodes);
	uint32_t *calls = malloc(((size_t)c->node_count + 1) * sizeof *calls);
	/* Recording sites of one profile site, chained: head by profile site, next by recording
	 * site. So one merged histogram at a time is in memory. */
	uint32_t *next = malloc(((size_t)site_count + 1) * sizeof *next);
	uint32_t *head = malloc(((size_t)site_count + 1) * sizeof *head);
	uint32_t *final = malloc(((size_t)site_count + 1) * sizeof *final);
	uint32_t(*unsorted)[PROFILE_LIFE_BUCKETS] = NULL;
	int rc = HEFT_ENOMEM;
	if (!sites || !wanted || !nodes || !calls || !next || !head || !final)
		goto out;
	rc = want_sites(l, sites, wanted);
	if (rc == 0 && behaves)
		trace_behaviour_want(c, c->tally, sites, wanted);
	if (rc == 0)
		rc = load_stacks(l, wanted, nodes, calls);
	for (uint32_t i = 0; i < site_count && rc == 0; i++) {
		if (!sites[i])
			continue;
		uint32_t recorded = recorded_site(l, i)->node;
		uint32_t node = recorded < c->node_count ? nodes[recorded] : PROFILE_NONE;
		uint32_t id, before = p->site_count;
		rc = add_site(l, i, node, &id);
		if (rc < 0)
			break;
		next[i] = id == before ? PROFILE_NONE : head[id];
		head[id] = i;
	}
	if (rc == 0) {
		unsorted = malloc(((size_t)p->site_count + 1) * sizeof *unsorted);
		if (!unsorted)
			rc = HEFT_ENOMEM;
	}
	for (uint32_t id = 0; id < p->site_count && rc == 0; id++) {
		struct site_sums all;
		const struct tally_site *largest = NULL;
		memset(&all, 0, sizeof all);
		for (uint32_t i = head[id]; i != PROFILE_NONE; i = next[i]) {
			const struct tally_site *one = &l->tally->sites[i];
			add_measures(l, &all, i);
			p->sites[id].merged++;
			uint32_t node = recorded_site(l, i)->node;
			if (p->call_count && node < c->node_count &&
			    (!largest || is_larger(one, largest))) {
				largest = one;
				p->sites[id].call = calls[node];
			}
			if (l->start) {
				p->sites[id].start_bytes += l->start[i].bytes;
				p->sites[id].start_blocks += l->start[i].blocks;
			}
		}
		uint64_t *own = &all.tally.own_peak_bytes, peak = l->tally->peak_bytes;
		if (p->sites[id].merged > 1 && peak && *own > peak)
			*own = peak;
		take_measures(&p->sites[id], &all);
		memcpy(unsorted[id], all.tally.lifetime, sizeof *unsorted);
		p->sites[id].release_first = id; /* to find it again when they are in order */
	}
	if (rc == 0) {
		profile_finish_sites(p);
		rc = load_lifetimes(p, (const uint32_t(*)[PROFILE_LIFE_BUCKETS])unsorted);
	}
	if (rc == 0) {
		/* The recording's sites now go to sites in order. */
		for (uint32_t i = 0; i < site_count; i++)
			final[i] = PROFILE_NONE;
		for (uint32_t id = 0; id < p->site_count; id++) {
			for (uint32_t i = head[p->sites[id].release_first]; i != PROFILE_NONE;
			     i = next[i])
				final[i] = id;
			p->sites[id].release_first = 0;
		}
		if (l->spread)
			rc = load_errors(l, final);
		/* Behaviour is of the whole recording: a part need not repeat it. */
		if (rc == 0 && behaves)
			rc = trace_behaviour_load(p, c, final, nodes, l->thread_ids);
		if (rc == 0 && l->behaviour)
			rc = load_own_behaviour(l, final, nodes);
	}
	if (rc == 0 && p->lender)
		take_ids(l, final);
	if (rc == 0 && (l->sel->keep || p->lender || trace_judges(l)) && !l->split) {
		p->recorded_site_count = c->site_count;
		p->recorded_nodes = nodes;
		p->recorded_sites = final;
		nodes = final = NULL;
	}
out:
	free(unsorted);
	free(final);
	free(sites);
	free(wanted);
	free(nodes);
	free(calls);
	free(next);
	free(head);
	return rc;
}

/* ---- totals */

static int load_totals(struct load *l)
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
	p->window_from_ns = l->sel->has_window ? l->sel->from_ns : 0;
	p->window_to_ns = l->sel->has_window ? l->sel->to_ns : p->duration_ns;
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

static int load_process_totals(struct load *l)
{
	const struct profile *p = l->p;
	uint64_t left = 0;
	if (l->sel->process_totals)
		return trace_load_process_totals(l);
	if (p->process_count < 2 || l->sel->top_only || l->sel->has_window || l->sel->by_process ||
	    l->sel->thread)
		return 0;
	int rc = trace_ends_left(l);
	for (uint32_t i = 0; i < p->process_count; i++)
		left += p->processes[i].totals.left_bytes;
	/* What one that still runs has now is in no event at its end, and in early recordings blocks
	 * end later than their process. */
	return rc == 0 && left != p->totals.left_bytes ? trace_load_process_totals(l) : rc;
}

int trace_load_part(struct load *l)
{
	int rc = trace_select_threads(l);
	if (rc == 0)
		rc = load_meta(l);
	if (rc == 0)
		rc = load_processes(l);
	if (rc == 0)
		rc = load_threads(l);
	if (rc == 0)
		rc = load_sites(l);
	return rc == 0 ? load_totals(l) : rc;
}

int profile_from_trace(struct profile **out, struct trace_reader *r,
		       const struct profile_selection *sel, struct heft_error *err)
{
	static const struct profile_selection everything;
	struct load l = {.reader = r, .sel = sel ? sel : &everything, .err = err};
	*out = NULL;
	if (err)
		err->message[0] = 0;
	l.c = trace_reader_contents(r);
	l.tally = l.c->tally;
	tally_init(&l.replayed);
	l.p = profile_new();
	int rc = l.p ? 0 : HEFT_ENOMEM;
	if (l.p) {
		l.p->apart = l.sel->apart;
		l.p->keep_calls = l.sel->calls && !l.sel->part_of;
	}

	if (rc == 0)
		rc = refuse_selection(&l);
	if (rc == 0)
		rc = trace_select_threads(&l);
	if (rc == 0)
		rc = trace_describe_selection(&l);
	if (rc == 0)
		rc = load_meta(&l);
	if (rc == 0)
		rc = load_processes(&l);
	if (rc == 0 && l.sel->by_process && l.p->process_count > 1)
		rc = trace_split_new(&l.split, l.p, l.processes, l.c->process_count,
				     l.sel->merging);
	if (rc == 0)
		rc = trace_ends_load(&l);
	if (rc == 0 && l.c->samples_count)
		rc = estimate(&l);
	else if (rc == 0 && (!l.all_threads || l.sel->has_window || l.split))
		rc = trace_load_replay(&l);
	if (rc == 0)
		rc = load_threads(&l);
	if (rc == 0 && !l.c->samples_count && !l.sel->thread)
		rc = profile_add_silent_threads(l.p);
	if (rc == 0)
		rc = trace_notes_load(l.p, l.c, l.processes);
	if (rc == 0 && !l.sel->part_of)
		rc = load_modules(&l);
	if (rc == 0)
		rc = load_sites(&l);
	if (rc == 0)
		rc = load_totals(&l);
	if (rc == 0 && l.spread) {
		profile_settle_errors(l.p);
		rc = trace_load_sampled_parts(&l);
	}
	if (rc == 0)
		rc = trace_load_unseen(&l);
	if (rc == 0) {
		user_frame_settle(l.p);
		rc = missing_symbols_note(l.p);
	}
	if (rc == 0 && !l.spread && l.p->process_count)
		rc = load_process_totals(&l);
	if (rc == 0 && l.sel->history && l.p->lender && !l.spread && !l.split)
		rc = trace_load_history(&l);
	if (rc == 0 && l.sel->sizes)
		rc = trace_load_sizes(&l);
	if (rc == 0)
		rc = trace_judge(&l);
	if (rc == 0 && !l.sel->keep && !l.p->lender) {
		free(l.p->recorded_nodes);
		free(l.p->recorded_sites);
		l.p->recorded_nodes = l.p->recorded_sites = NULL;
	}
	if (rc == 0 && l.sel->own_time)
		rc = profile_take_own_time(l.p);

	free(l.threads);
	free(l.processes);
	free(l.modules);
	free(l.replayed_processes);
	free(l.thread_ids);
	free(l.start);
	free(l.last);
	free(l.last_processes);
	free(l.spread);
	trace_split_free(l.split);
	free(l.sizes);
	tally_fini(&l.replayed);
	if (rc < 0) {
		profile_free(l.p);
		if (err && !err->message[0])
			heft_fail(err, rc, "%s",
				  rc == HEFT_ENOMEM
					  ? "not enough memory to load the recording"
					  : "an event names a thread or site that does not exist");
		return rc;
	}
	*out = l.p;
	return 0;
}

int profile_from_recording(struct profile **out, const char *path,
			   const struct profile_selection *sel, struct heft_error *err)
{
	struct trace_reader *r = NULL;
	*out = NULL;
	int rc = trace_reader_open(&r, path, err);
	if (rc < 0)
		return rc;
	rc = profile_from_trace(out, r, sel, err);
	trace_reader_close(r);
	return rc;
}

bool profile_is_recording(const uint8_t *head, size_t length)
{
	size_t magic = sizeof TRACE_FILE_MAGIC - 1;
	return length >= magic && memcmp(head, TRACE_FILE_MAGIC, magic) == 0;
}
