/* Objects that the program's own allocators hand out (heft_pool_*), by pool and call site.
 *
 * Pools of one name are one row; their sum has its own peak, and each site what it had live then. Processes end in the
 * order of time: what their pools hold stops being live then, and is what the process left. An object belongs to the
 * thread that took it from the pool, as a block does to the thread that allocated it.
 *
 * One recording has millions of objects. So an object that goes keeps its entry for the next one at its address, and the
 * objects of a pool are a list, so that destroying it takes one step for each. */
#include "profile/trace_remarks.h"

#include "hosted/compare.h"
#include "hosted/hash_index.h"
#include "hosted/vector.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOBODY UINT32_MAX

struct object {
	uint64_t address, bytes;
	uint32_t pool, row;  /* row NOBODY: not live */
	uint32_t prev, next; /* of its pool's live ones */
	uint32_t part;
};

struct pool {
	uint64_t address;
	uint32_t process, name; /* name: index, or NOBODY */
	uint32_t first;         /* object */
	uint32_t next;          /* pool of this process */
	bool is_inherited;      /* by fork: some of its objects are its parent's */
	bool is_destroyed;      /* and not used since */
};

struct sums {
	struct profile_pool shown;
	uint64_t live_objects, live_bytes;
	uint32_t epoch; /* of its peaks */
};

struct row {
	struct profile_pool_site shown; /* its node is set in the end */
	uint64_t live_objects, live_bytes;
	uint32_t name, site; /* of the recording */
	uint32_t epoch;      /* the last peak of the pool that shown has */
};

struct ending {
	uint64_t end_ns;
	uint32_t process;
};

struct trace_pools {
	const struct load *l;
	VECTOR(struct object) objects;
	VECTOR(struct pool) pools;
	VECTOR(struct sums) names;
	VECTOR(struct row) rows;
	struct hash_index objects_at, pools_at, names_at, rows_at;
	uint32_t *first_pool;   /* by process */
	uint32_t *parents;      /* by process: whose memory it had when it began, or NOBODY */
	struct ending *endings; /* of processes, the first one first */
	uint32_t ending_count, next_ending;
};

static int first_ending(const void *a, const void *b)
{
	const struct ending *x = a, *y = b;
	return compare_numbers(x->end_ns, y->end_ns) ?: compare_numbers(x->process, y->process);
}

/* A forked child has its parent's memory. A program that exec started has nobody's. */
static int find_parents(struct trace_pools *s)
{
	const struct trace_contents *c = s->l->c;
	struct hash_index by_pid = {0};
	int rc = 0;
	for (uint32_t i = 0; i < c->process_count && rc == 0; i++) {
		const int32_t pids[] = {c->processes[i].ppid, c->processes[i].pid};
		uint32_t last[] = {NOBODY, NOBODY}; /* image of its parent, of itself */
		for (int k = 0; k < 2; k++) {
			uint32_t hash = hash_number((uint32_t)pids[k]), at = hash, x;
			while ((x = hash_index_step(&by_pid, hash, &at)) != HASH_NONE)
				if (c->processes[x].pid == pids[k])
					last[k] = last[k] == NOBODY || x > last[k] ? x : last[k];
		}
		s->parents[i] = last[1] == NOBODY ? last[0] : NOBODY;
		rc = hash_index_add(&by_pid, hash_number((uint32_t)pids[1]), i);
	}
	hash_index_fini(&by_pid);
	return rc;
}

struct trace_pools *trace_pools_new(const struct load *l)
{
	struct trace_pools *s = calloc(1, sizeof *s);
	const struct trace_contents *c = l->c;
	if (!s)
		return NULL;
	s->l = l;
	s->first_pool = malloc(((size_t)c->process_count + 1) * sizeof *s->first_pool);
	s->endings = malloc(((size_t)c->process_count + 1) * sizeof *s->endings);
	s->parents = malloc(((size_t)c->process_count + 1) * sizeof *s->parents);
	if (!s->first_pool || !s->endings || !s->parents || find_parents(s)) {
		trace_pools_free(s);
		return NULL;
	}
	memset(s->first_pool, 0xff, ((size_t)c->process_count + 1) * sizeof *s->first_pool);
	for (uint32_t i = 0; i < c->process_count; i++)
		if (c->processes[i].end != TRACE_END_RUNNING)
			s->endings[s->ending_count++] = (struct ending){c->processes[i].end_ns, i};
	qsort(s->endings, s->ending_count, sizeof *s->endings, first_ending);
	return s;
}

void trace_pools_free(struct trace_pools *s)
{
	if (!s)
		return;
	vector_free(&s->objects);
	vector_free(&s->pools);
	vector_free(&s->names);
	vector_free(&s->rows);
	hash_index_fini(&s->objects_at);
	hash_index_fini(&s->pools_at);
	hash_index_fini(&s->names_at);
	hash_index_fini(&s->rows_at);
	free(s->first_pool);
	free(s->parents);
	free(s->endings);
	free(s);
}

/* ---- finding. Each returns an index, or NOBODY: it is not there and was not to be added, or there is no memory. */

static uint32_t find_name(struct trace_pools *s, const char *name)
{
	uint32_t hash = hash_pointer(name), at = hash, i;
	while ((i = hash_index_step(&s->names_at, hash, &at)) != HASH_NONE)
		if (s->names.items[i].shown.name == name)
			return i;
	i = (uint32_t)s->names.count;
	if (!name || !vector_push(&s->names, (struct sums){.shown = {.name = name}}) ||
	    hash_index_add_at(&s->names_at, hash, at, i))
		return NOBODY;
	return i;
}

static uint32_t find_pool(struct trace_pools *s, uint32_t process, uint64_t address, bool add)
{
	uint32_t hash = hash_number(hash_mix(hash_mix(0, process), address)), at = hash, i;
	while ((i = hash_index_step(&s->pools_at, hash, &at)) != HASH_NONE)
		if (s->pools.items[i].address == address && s->pools.items[i].process == process)
			return i;
	i = (uint32_t)s->pools.count;
	if (!add ||
	    !vector_push(&s->pools, (struct pool){.address = address,
						  .process = process,
						  .name = NOBODY,
						  .first = NOBODY,
						  .next = s->first_pool[process]}) ||
	    hash_index_add_at(&s->pools_at, hash, at, i))
		return NOBODY;
	s->first_pool[process] = i;
	return i;
}

static uint32_t find_object(struct trace_pools *s, uint32_t pool, uint64_t address, bool add)
{
	uint32_t hash = hash_number(hash_mix(hash_mix(0, pool), address)), at = hash, i;
	while ((i = hash_index_step(&s->objects_at, hash, &at)) != HASH_NONE)
		if (s->objects.items[i].address == address && s->objects.items[i].pool == pool)
			return i;
	i = (uint32_t)s->objects.count;
	if (!add || i == NOBODY ||
	    !vector_push(&s->objects,
			 (struct object){.address = address, .pool = pool, .row = NOBODY}) ||
	    hash_index_add_at(&s->objects_at, hash, at, i))
		return NOBODY;
	return i;
}

static uint32_t find_row(struct trace_pools *s, uint32_t name, uint32_t site)
{
	uint32_t hash = hash_pair(name, site), at = hash, i;
	while ((i = hash_index_step(&s->rows_at, hash, &at)) != HASH_NONE)
		if (s->rows.items[i].name == name && s->rows.items[i].site == site)
			return i;
	i = (uint32_t)s->rows.count;
	if (!vector_push(&s->rows, (struct row){.name = name, .site = site}) ||
	    hash_index_add_at(&s->rows_at, hash, at, i))
		return NOBODY;
	return i;
}

/* ---- objects come and go */

/* A site's numbers are about to change: those at the last peak of the pool are kept. */
static void keep_peak(struct row *r, const struct sums *n)
{
	if (r->epoch == n->epoch)
		return;
	r->epoch = n->epoch;
	r->shown.peak_objects = r->live_objects;
	r->shown.peak_bytes = r->live_bytes;
}

static void take_out(struct trace_pools *s, uint32_t number)
{
	struct object *o = &s->objects.items[number];
	struct row *r = &s->rows.items[o->row];
	struct sums *n = &s->names.items[r->name];
	keep_peak(r, n);
	r->live_objects--;
	r->live_bytes -= o->bytes;
	n->live_objects--;
	n->live_bytes -= o->bytes;
	if (o->prev == NOBODY)
		s->pools.items[o->pool].first = o->next;
	else
		s->objects.items[o->prev].next = o->next;
	if (o->next != NOBODY)
		s->objects.items[o->next].prev = o->prev;
	o->row = NOBODY;
}

/* In which part of the life of its process the time is. */
static uint32_t part_of(const struct trace_contents *c, uint32_t process, uint64_t time_ns)
{
	uint64_t start = c->processes[process].start_ns, end = trace_process_end_ns(c, process);
	if (time_ns <= start || end <= start)
		return 0;
	double part = (double)(time_ns - start) / (double)(end - start) * PROFILE_POOL_PARTS;
	return part < PROFILE_POOL_PARTS - 1 ? (uint32_t)part : PROFILE_POOL_PARTS - 1;
}

static void put_in(struct trace_pools *s, uint32_t number, uint32_t row, const struct remark *m)
{
	struct object *o = &s->objects.items[number];
	struct row *r = &s->rows.items[row];
	struct sums *n = &s->names.items[r->name];
	struct pool *pool = &s->pools.items[o->pool];
	keep_peak(r, n);
	o->row = row;
	o->bytes = m->m->c;
	o->part = part_of(s->l->c, m->process, m->m->time_ns);
	o->prev = NOBODY;
	o->next = pool->first;
	if (o->next != NOBODY)
		s->objects.items[o->next].prev = number;
	pool->first = number;
	r->live_objects++;
	r->live_bytes += o->bytes;
	n->live_objects++;
	n->live_bytes += o->bytes;
	if (n->live_bytes > n->shown.peak_bytes ||
	    (n->live_bytes == n->shown.peak_bytes && !n->epoch)) {
		n->shown.peak_objects = n->live_objects;
		n->shown.peak_bytes = n->live_bytes;
		n->shown.peak_time_ns = m->m->time_ns;
		n->epoch++;
	}
}

/* A pool without a name has that of its address. A forked child uses its parent's pools, whose names it inherits. */
static int name_pool_of(struct trace_pools *s, uint32_t pool)
{
	struct pool *p = &s->pools.items[pool];
	uint32_t parent = s->parents[p->process];
	char text[40];
	if (p->name != NOBODY)
		return 0;
	uint32_t inherited = parent == NOBODY ? NOBODY : find_pool(s, parent, p->address, false);
	if (inherited != NOBODY && s->pools.items[inherited].name != NOBODY) {
		p->name = s->pools.items[inherited].name;
		p->is_inherited = true;
		return 0;
	}
	snprintf(text, sizeof text, "pool 0x%" PRIx64, p->address);
	p->name = find_name(s, name_pool_add(s->l->p->names, text));
	return p->name == NOBODY ? HEFT_ENOMEM : 0;
}

static int alloc_object(struct trace_pools *s, const struct remark *r)
{
	if (!s->l->threads[r->m->thread])
		return 0;
	uint32_t pool = find_pool(s, r->process, r->m->a, true);
	if (pool == NOBODY || name_pool_of(s, pool))
		return HEFT_ENOMEM;
	uint32_t row = find_row(s, s->pools.items[pool].name, r->m->site);
	uint32_t object = find_object(s, pool, r->m->b, true);
	if (row == NOBODY || object == NOBODY)
		return HEFT_ENOMEM;
	if (s->objects.items[object].row != NOBODY)
		take_out(s, object); /* nobody said that it was given back */
	put_in(s, object, row, r);
	s->pools.items[pool].is_destroyed = false;
	if (r->counted) {
		struct row *to = &s->rows.items[row];
		to->shown.objects++;
		to->shown.bytes += r->m->c;
	}
	return 0;
}

static void free_object(struct trace_pools *s, const struct remark *r)
{
	uint32_t pool = find_pool(s, r->process, r->m->a, false);
	if (pool == NOBODY)
		return; /* a forked child gives back its copy of an object */
	uint32_t object = find_object(s, pool, r->m->b, false);
	if (object == NOBODY || s->objects.items[object].row == NOBODY) {
		const struct pool *p = &s->pools.items[pool];
		if (r->counted && p->name != NOBODY && !p->is_inherited)
			s->names.items[p->name].shown.unknown_frees++;
		return;
	}
	if (r->counted)
		s->rows.items[s->objects.items[object].row].shown.freed++;
	take_out(s, object);
}

static void empty(struct trace_pools *s, uint32_t pool)
{
	while (s->pools.items[pool].first != NOBODY)
		take_out(s, s->pools.items[pool].first);
}

static int create(struct trace_pools *s, const struct remark *r)
{
	uint32_t pool = find_pool(s, r->process, r->m->a, true);
	if (pool == NOBODY)
		return HEFT_ENOMEM;
	empty(s, pool); /* nobody said that it was destroyed */
	struct pool *p = &s->pools.items[pool];
	p->is_destroyed = false;
	p->name = *r->name ? find_name(s, r->name) : NOBODY;
	if (p->name == NOBODY && (*r->name || name_pool_of(s, pool)))
		return HEFT_ENOMEM;
	s->names.items[p->name].shown.pools += r->counted;
	return 0;
}

static void destroy(struct trace_pools *s, const struct remark *r)
{
	uint32_t pool = find_pool(s, r->process, r->m->a, false);
	if (pool == NOBODY || s->pools.items[pool].name == NOBODY ||
	    s->pools.items[pool].is_destroyed)
		return;
	empty(s, pool);
	s->pools.items[pool].is_destroyed = true;
	s->names.items[s->pools.items[pool].name].shown.destroyed += r->counted;
}

int trace_pools_add(struct trace_pools *s, const struct remark *r)
{
	switch (r->m->kind) {
	case TRACE_REMARK_POOL_CREATE: return create(s, r);
	case TRACE_REMARK_POOL_ALLOC: return alloc_object(s, r);
	case TRACE_REMARK_POOL_FREE: free_object(s, r); return 0;
	case TRACE_REMARK_POOL_DESTROY: destroy(s, r); return 0;
	default: return 0;
	}
}

void trace_pools_begin(struct trace_pools *s)
{
	for (size_t i = 0; i < s->names.count; i++) {
		struct sums *n = &s->names.items[i];
		n->shown.peak_objects = n->live_objects;
		n->shown.peak_bytes = n->live_bytes;
		n->shown.peak_time_ns = s->l->sel->from_ns;
		n->epoch++;
	}
}

/* What the process has not given back is left, and live no more. */
static void leave(struct trace_pools *s, uint32_t process, bool counted)
{
	for (uint32_t i = s->first_pool[process]; i != NOBODY; i = s->pools.items[i].next) {
		for (uint32_t k = s->pools.items[i].first; k != NOBODY && counted;
		     k = s->objects.items[k].next) {
			const struct object *o = &s->objects.items[k];
			struct profile_pool_site *row = &s->rows.items[o->row].shown;
			row->left_objects++;
			row->left_bytes += o->bytes;
			row->left_parts[o->part]++;
		}
		empty(s, i);
	}
}

void trace_pools_end_processes(struct trace_pools *s, uint64_t before_ns)
{
	for (; s->next_ending < s->ending_count && s->endings[s->next_ending].end_ns < before_ns;
	     s->next_ending++)
		leave(s, s->endings[s->next_ending].process,
		      s->endings[s->next_ending].end_ns >= trace_counts_from(s->l));
}

/* ---- into the model */

void trace_pools_want(const struct trace_pools *s, const struct load *l, bool *nodes)
{
	for (size_t i = 0; i < s->rows.count; i++)
		trace_remark_want(l->c, s->rows.items[i].site, nodes);
}

static int by_name_and_node(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	return compare_numbers(x->name, y->name) ?: compare_numbers(x->shown.node, y->shown.node);
}

static void add_row(struct profile_pool_site *to, const struct profile_pool_site *from)
{
	to->objects += from->objects;
	to->bytes += from->bytes;
	to->freed += from->freed;
	to->left_objects += from->left_objects;
	to->left_bytes += from->left_bytes;
	to->peak_objects += from->peak_objects;
	to->peak_bytes += from->peak_bytes;
	for (int i = 0; i < PROFILE_POOL_PARTS; i++)
		to->left_parts[i] += from->left_parts[i];
}

static int most_left_first(const void *a, const void *b)
{
	const struct profile_pool_site *x = a, *y = b;
	return compare_numbers(y->left_bytes, x->left_bytes)
		       ?: compare_numbers(y->peak_bytes, x->peak_bytes)
		       ?: compare_numbers(y->bytes, x->bytes) ?: compare_numbers(x->node, y->node);
}

static int greatest_peak_first(const void *a, const void *b)
{
	const struct profile_pool *x = a, *y = b;
	return compare_numbers(y->peak_bytes, x->peak_bytes) ?: strcmp(x->name, y->name);
}

/* Rows of one pool whose stacks read the same become one. */
static void fill_rows(struct trace_pools *s, struct profile_remarks *out)
{
	uint32_t count = 0, name = NOBODY;
	for (size_t i = 0; i < s->rows.count; i++) {
		const struct row *r = &s->rows.items[i];
		struct profile_pool *pool = &s->names.items[r->name].shown;
		if (r->name != name)
			pool->first = count;
		name = r->name;
		if (pool->sites && out->pool_sites[count - 1].node == r->shown.node) {
			add_row(&out->pool_sites[count - 1], &r->shown);
		} else {
			out->pool_sites[count++] = r->shown;
			pool->sites++;
		}
		pool->objects += r->shown.objects;
		pool->bytes += r->shown.bytes;
		pool->freed += r->shown.freed;
		pool->left_objects += r->shown.left_objects;
		pool->left_bytes += r->shown.left_bytes;
	}
}

int trace_pools_fill(struct trace_pools *s, const struct load *l, const uint32_t *nodes)
{
	struct profile_remarks *out = &l->p->remarks;
	for (size_t i = 0; i < s->rows.count; i++) {
		struct row *r = &s->rows.items[i];
		keep_peak(r, &s->names.items[r->name]);
	}
	for (uint32_t i = 0; i < l->c->process_count; i++)
		leave(s, i, trace_process_end_ns(l->c, i) >= trace_counts_from(l));
	for (size_t i = 0; i < s->rows.count; i++)
		s->rows.items[i].shown.node = trace_remark_node(l, nodes, s->rows.items[i].site);
	if (s->rows.count)
		qsort(s->rows.items, s->rows.count, sizeof *s->rows.items, by_name_and_node);
	out->pools = malloc((s->names.count + 1) * sizeof *out->pools);
	out->pool_sites = malloc((s->rows.count + 1) * sizeof *out->pool_sites);
	if (!out->pools || !out->pool_sites)
		return HEFT_ENOMEM;
	fill_rows(s, out);
	for (size_t i = 0; i < s->names.count; i++) {
		const struct profile_pool *pool = &s->names.items[i].shown;
		if (pool->sites)
			qsort(out->pool_sites + pool->first, pool->sites, sizeof *out->pool_sites,
			      most_left_first);
		if (pool->sites || pool->pools || pool->destroyed)
			out->pools[out->pool_count++] = *pool;
	}
	qsort(out->pools, out->pool_count, sizeof *out->pools, greatest_peak_first);
	return 0;
}
