/* What programs said into the model: marks, regions and events here, followed blocks in trace_stages.c, pools in
 * trace_pools.c.
 *
 * Remarks are read once, before stacks are named: then it is known which call stacks are shown, and what remains of a
 * million objects of a pool is a few rows. A window takes the marks in it, regions that reach into it, and what the others
 * did in it. What the program said before it counts for the state in which it begins.
 *
 * A region is matched by its process and number. A forked child has its parent's regions: an end without a beginning in
 * that process is of a region that began with the process. */
#include "profile/trace_remarks.h"

#include "hosted/compare.h"
#include "hosted/hash_index.h"
#include "hosted/vector.h"

#include <stdlib.h>
#include <string.h>

struct open_region {
	uint64_t number;
	uint32_t process, region; /* of the recording; index */
};

struct event_row {
	const char *name;
	struct profile_event_site shown; /* its node is set in the end */
	uint32_t site;                   /* of the recording */
};

struct trace_remarks {
	struct load *l;
	uint64_t from_ns, to_ns;
	bool has_begun;             /* the window */
	VECTOR(const char *) names; /* in the profile, by the recording's number */
	VECTOR(struct profile_mark) marks;
	VECTOR(struct profile_region) regions;
	VECTOR(struct open_region) numbers;
	VECTOR(struct event_row) events;
	struct hash_index numbers_at, events_at;
	struct trace_stages *stages;
	struct trace_pools *pools;
};

void trace_remarks_free(struct trace_remarks *r)
{
	if (!r)
		return;
	vector_free(&r->names);
	vector_free(&r->marks);
	vector_free(&r->regions);
	vector_free(&r->numbers);
	vector_free(&r->events);
	hash_index_fini(&r->numbers_at);
	hash_index_fini(&r->events_at);
	trace_stages_free(r->stages);
	trace_pools_free(r->pools);
	free(r);
}

/* ---- reading */

/* NULL: no memory. A name has one text, so that its number finds the profile's copy. */
static const char *name_of(struct trace_remarks *r, const struct trace_remark *m)
{
	while (r->names.count <= m->name)
		if (!vector_push(&r->names, NULL))
			return NULL;
	const char **kept = &r->names.items[m->name];
	if (!*kept)
		*kept = name_pool_add(r->l->p->names, m->text);
	return *kept;
}

static int add_mark(struct trace_remarks *r, const struct remark *x)
{
	const struct profile_mark mark = {x->m->time_ns, x->name, r->l->processes[x->process],
					  r->l->thread_ids[x->m->thread]};
	return !x->counted || vector_push(&r->marks, mark) ? 0 : HEFT_ENOMEM;
}

static int begin_region(struct trace_remarks *r, const struct remark *x, bool inherited)
{
	const struct trace_contents *c = r->l->c;
	const uint64_t begin = inherited ? c->processes[x->process].start_ns : x->m->time_ns;
	const uint64_t end = inherited ? x->m->time_ns : trace_process_end_ns(c, x->process);
	const struct profile_region region = {
		.begin_ns = begin,
		.end_ns = greater(begin, end), /* what is late comes after the end of its process */
		.name = x->name,
		.process = r->l->processes[x->process],
		.thread = r->l->thread_ids[x->m->thread],
		.of_thread = x->m->b & 1,
		.is_open = !inherited,
		.is_inherited = inherited,
	};
	return vector_push(&r->regions, region) ? 0 : HEFT_ENOMEM;
}

static int add_region(struct trace_remarks *r, const struct remark *x)
{
	const uint64_t number = x->m->a;
	uint32_t hash = hash_number(hash_mix(hash_mix(0, x->process), number)), at = hash, i;
	if (!r->l->threads[x->m->thread])
		return 0;
	while ((i = hash_index_step(&r->numbers_at, hash, &at)) != HASH_NONE)
		if (r->numbers.items[i].number == number &&
		    r->numbers.items[i].process == x->process)
			break;
	struct open_region *known = i == HASH_NONE ? NULL : &r->numbers.items[i];
	struct profile_region *region = known ? &r->regions.items[known->region] : NULL;
	bool ends = x->m->kind == TRACE_REMARK_REGION_END;
	if (ends && region) {
		if (region->is_open)
			region->end_ns = greater(x->m->time_ns, region->begin_ns);
		region->is_open = false;
		return 0;
	}
	uint32_t index = (uint32_t)r->regions.count;
	int rc = begin_region(r, x, ends);
	if (rc == 0 && known)
		known->region = index;
	else if (rc == 0)
		rc = vector_push(&r->numbers, (struct open_region){number, x->process, index})
			     ? hash_index_add_at(&r->numbers_at, hash, at,
						 (uint32_t)r->numbers.count - 1)
			     : HEFT_ENOMEM;
	return rc;
}

static int add_event(struct trace_remarks *r, const struct remark *x)
{
	uint64_t key = hash_mix(hash_mix(0, (uintptr_t)x->name), x->m->site);
	uint32_t hash = hash_number(key), at = hash, i;
	if (!x->counted)
		return 0;
	while ((i = hash_index_step(&r->events_at, hash, &at)) != HASH_NONE)
		if (r->events.items[i].name == x->name && r->events.items[i].site == x->m->site)
			break;
	if (i == HASH_NONE) {
		i = (uint32_t)r->events.count;
		if (!vector_push(&r->events,
				 (struct event_row){.name = x->name, .site = x->m->site}) ||
		    hash_index_add_at(&r->events_at, hash, at, i))
			return HEFT_ENOMEM;
	}
	r->events.items[i].shown.count++;
	r->events.items[i].shown.weight += x->m->a;
	return 0;
}

static int add_remark(void *ctx, const struct trace_remark *m)
{
	struct trace_remarks *r = ctx;
	const struct load *l = r->l;
	struct remark x = {.m = m, .process = l->c->threads[m->thread].process};
	if (x.process >= l->c->process_count || l->processes[x.process] == PROFILE_NONE)
		return 0;
	x.name = name_of(r, m);
	if (!x.name)
		return HEFT_ENOMEM;
	const bool in_time = m->time_ns >= r->from_ns && m->time_ns <= r->to_ns;
	x.counted = in_time && l->threads[m->thread];
	if (m->kind == TRACE_REMARK_REGION_BEGIN || m->kind == TRACE_REMARK_REGION_END)
		return add_region(r, &x); /* one that ends after the window has its own end */
	if (m->time_ns > r->to_ns)
		return 0;
	trace_pools_end_processes(r->pools, m->time_ns);
	if (in_time && !r->has_begun && r->from_ns)
		trace_pools_begin(r->pools);
	r->has_begun |= in_time;
	switch (m->kind) {
	case TRACE_REMARK_MARK: return add_mark(r, &x);
	case TRACE_REMARK_STAGE:
	case TRACE_REMARK_STAGE_END: return trace_stages_add(r->stages, &x);
	case TRACE_REMARK_EVENT: return add_event(r, &x);
	default: return trace_pools_add(r->pools, &x);
	}
}

int trace_remarks_read(struct load *l)
{
	if (!l->c->remarks || !l->reader || l->sel->top_only || l->sel->numbers_only)
		return 0;
	struct trace_remarks *r = calloc(1, sizeof *r);
	if (!r)
		return HEFT_ENOMEM;
	l->remarks = r;
	r->l = l;
	r->from_ns = trace_counts_from(l);
	r->to_ns = l->sel->has_window ? l->sel->to_ns : UINT64_MAX;
	r->stages = trace_stages_new();
	r->pools = trace_pools_new(l);
	return r->stages && r->pools ? trace_reader_remarks(l->reader, add_remark, r, l->err)
				     : HEFT_ENOMEM;
}

/* ---- into the model */

void trace_remark_want(const struct trace_contents *c, uint32_t site, bool *nodes)
{
	uint32_t node = c->sites[site].node;
	while (node < c->node_count && !nodes[node]) {
		nodes[node] = true;
		node = c->nodes[node].parent < node ? c->nodes[node].parent : TRACE_NONE;
	}
}

void trace_remarks_want(const struct load *l, bool *nodes)
{
	if (!l->remarks)
		return;
	for (size_t i = 0; i < l->remarks->events.count; i++)
		trace_remark_want(l->c, l->remarks->events.items[i].site, nodes);
	trace_pools_want(l->remarks->pools, l, nodes);
}

static int by_time(const void *a, const void *b)
{
	const struct profile_mark *x = a, *y = b;
	return compare_numbers(x->time_ns, y->time_ns) ?: compare_numbers(x->thread, y->thread);
}

static int by_beginning(const void *a, const void *b)
{
	const struct profile_region *x = a, *y = b;
	return compare_numbers(x->begin_ns, y->begin_ns) ?: compare_numbers(y->end_ns, x->end_ns);
}

static void fill_marks(struct trace_remarks *r, struct profile_remarks *out)
{
	out->marks = r->marks.items;
	out->mark_count = (uint32_t)r->marks.count;
	r->marks.items = NULL;
	if (out->mark_count)
		qsort(out->marks, out->mark_count, sizeof *out->marks, by_time);
	out->regions = r->regions.items;
	r->regions.items = NULL;
	for (size_t i = 0; i < r->regions.count; i++)
		if (out->regions[i].end_ns >= r->from_ns && out->regions[i].begin_ns <= r->to_ns)
			out->regions[out->region_count++] = out->regions[i];
	if (out->region_count)
		qsort(out->regions, out->region_count, sizeof *out->regions, by_beginning);
}

static int by_name_and_node(const void *a, const void *b)
{
	const struct event_row *x = a, *y = b;
	return strcmp(x->name, y->name) ?: compare_numbers(x->shown.node, y->shown.node);
}

static int heaviest_site_first(const void *a, const void *b)
{
	const struct profile_event_site *x = a, *y = b;
	return compare_numbers(y->weight, x->weight)
		       ?: compare_numbers(y->count, x->count) ?: compare_numbers(x->node, y->node);
}

static int heaviest_first(const void *a, const void *b)
{
	const struct profile_event *x = a, *y = b;
	return compare_numbers(y->weight, x->weight)
		       ?: compare_numbers(y->count, x->count) ?: strcmp(x->name, y->name);
}

static int fill_events(struct trace_remarks *r, struct profile_remarks *out, const uint32_t *nodes)
{
	size_t count = r->events.count;
	uint32_t sites = 0;
	out->events = malloc((count + 1) * sizeof *out->events);
	out->event_sites = malloc((count + 1) * sizeof *out->event_sites);
	if (!out->events || !out->event_sites)
		return HEFT_ENOMEM;
	for (size_t i = 0; i < count; i++)
		r->events.items[i].shown.node = trace_remark_node(r->l, nodes,
								  r->events.items[i].site);
	if (count)
		qsort(r->events.items, count, sizeof *r->events.items, by_name_and_node);
	for (size_t i = 0; i < count; i++) {
		const struct event_row *x = &r->events.items[i];
		struct profile_event *e = &out->events[out->event_count];
		if (i && r->events.items[i - 1].name == x->name) {
			e--;
		} else {
			*e = (struct profile_event){.name = x->name, .first = sites};
			out->event_count++;
		}
		e->count += x->shown.count;
		e->weight += x->shown.weight;
		struct profile_event_site *last = e->sites ? &out->event_sites[sites - 1] : NULL;
		if (last && last->node == x->shown.node) {
			last->count += x->shown.count;
			last->weight += x->shown.weight;
		} else {
			out->event_sites[sites++] = x->shown;
			e->sites++;
		}
	}
	for (uint32_t i = 0; i < out->event_count; i++)
		qsort(out->event_sites + out->events[i].first, out->events[i].sites,
		      sizeof *out->event_sites, heaviest_site_first);
	qsort(out->events, out->event_count, sizeof *out->events, heaviest_first);
	return 0;
}

int trace_remarks_fill(const struct load *l, const uint32_t *nodes, const uint32_t *sites)
{
	struct trace_remarks *r = l->remarks;
	if (!r)
		return 0;
	fill_marks(r, &l->p->remarks);
	int rc = fill_events(r, &l->p->remarks, nodes);
	if (rc == 0)
		rc = trace_stages_fill(r->stages, l, r->to_ns, sites);
	return rc ? rc : trace_pools_fill(r->pools, l, nodes);
}
