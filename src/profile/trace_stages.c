/* Blocks that the program follows (heft_mark_block): how long they were at each stage.
 *
 * A hop is what blocks do after a stage: go to another one, end, or stay until their process or the recording ends. The
 * first hop of a block is from its allocation to its first stage; the recorder knows its age. An address is a block until
 * that is freed or moved. The program can lose sight of an end (its table of followed blocks is full); then the next block
 * at the address is younger than the last stage of the one before, which counts as lost.
 *
 * Quantiles are exact for the first 65,536 blocks of a hop. Beyond, every second value is dropped and only every second
 * block is kept from then on, so that memory is bounded and blocks of the whole time count. */
#include "profile/trace_remarks.h"

#include "hosted/compare.h"
#include "hosted/hash_index.h"
#include "hosted/vector.h"

#include <stdlib.h>

enum { KEPT = 1 << 16 };
enum hop_kind { TO_STAGE, TO_END, TO_NOWHERE };

struct followed {
	uint64_t address, since_ns;
	const char *stage; /* NULL: nobody follows a block of this address now */
	uint32_t process, thread, born_at;
};

struct hop {
	const char *from, *to;
	enum hop_kind kind;
	uint64_t blocks, total_ns, max_ns;
	VECTOR(uint64_t) kept; /* of every stride-th block */
	uint64_t stride;
	uint32_t number; /* before they were put in order */
};

struct hop_site {
	uint32_t hop, site; /* of the recording */
	uint64_t blocks, total_ns;
};

struct trace_stages {
	VECTOR(struct followed) blocks;
	VECTOR(struct hop) hops;
	VECTOR(struct hop_site) sites;
	VECTOR(const char *) stages; /* in the order in which they were reached */
	struct hash_index blocks_at, hops_at, sites_at, stages_at;
	uint64_t lost;
};

struct trace_stages *trace_stages_new(void)
{
	return calloc(1, sizeof(struct trace_stages));
}

void trace_stages_free(struct trace_stages *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->hops.count; i++)
		vector_free(&s->hops.items[i].kept);
	vector_free(&s->blocks);
	vector_free(&s->hops);
	vector_free(&s->sites);
	vector_free(&s->stages);
	hash_index_fini(&s->blocks_at);
	hash_index_fini(&s->hops_at);
	hash_index_fini(&s->sites_at);
	hash_index_fini(&s->stages_at);
	free(s);
}

/* The stage's place in the order; the allocation is the first. HASH_NONE: it was not reached. */
static uint32_t rank_of(const struct trace_stages *s, const char *stage)
{
	uint32_t hash = hash_pointer(stage), at = hash, i;
	if (!stage)
		return 0;
	while ((i = hash_index_step(&s->stages_at, hash, &at)) != HASH_NONE)
		if (s->stages.items[i] == stage)
			return i + 1;
	return HASH_NONE;
}

static int add_stage(struct trace_stages *s, const char *stage)
{
	if (rank_of(s, stage) != HASH_NONE)
		return 0;
	return vector_push(&s->stages, stage) ? hash_index_add(&s->stages_at, hash_pointer(stage),
							       (uint32_t)s->stages.count - 1)
					      : HEFT_ENOMEM;
}

static struct followed *find_block(struct trace_stages *s, uint32_t process, uint64_t address,
				   bool add)
{
	uint32_t hash = hash_number(hash_mix(hash_mix(0, process), address)), at = hash, i;
	while ((i = hash_index_step(&s->blocks_at, hash, &at)) != HASH_NONE)
		if (s->blocks.items[i].address == address && s->blocks.items[i].process == process)
			return &s->blocks.items[i];
	if (!add || s->blocks.count >= HASH_NONE ||
	    !vector_push(&s->blocks, (struct followed){.address = address, .process = process}) ||
	    hash_index_add_at(&s->blocks_at, hash, at, (uint32_t)s->blocks.count - 1))
		return NULL;
	return &s->blocks.items[s->blocks.count - 1];
}

static struct hop *find_hop(struct trace_stages *s, const char *from, const char *to,
			    enum hop_kind kind)
{
	uint64_t key = hash_mix(hash_mix(hash_mix(0, kind), (uintptr_t)from), (uintptr_t)to);
	uint32_t hash = hash_number(key), at = hash, i;
	while ((i = hash_index_step(&s->hops_at, hash, &at)) != HASH_NONE) {
		struct hop *h = &s->hops.items[i];
		if (h->from == from && h->to == to && h->kind == kind)
			return h;
	}
	i = (uint32_t)s->hops.count;
	struct hop fresh = {.from = from, .to = to, .kind = kind, .stride = 1, .number = i};
	if (!vector_push(&s->hops, fresh) || hash_index_add_at(&s->hops_at, hash, at, i))
		return NULL;
	return &s->hops.items[i];
}

static int add_to_site(struct trace_stages *s, uint32_t hop, uint32_t site, uint64_t ns)
{
	uint32_t hash = hash_pair(hop, site), at = hash, i;
	while ((i = hash_index_step(&s->sites_at, hash, &at)) != HASH_NONE)
		if (s->sites.items[i].hop == hop && s->sites.items[i].site == site)
			break;
	if (i == HASH_NONE) {
		i = (uint32_t)s->sites.count;
		if (!vector_push(&s->sites, (struct hop_site){.hop = hop, .site = site}) ||
		    hash_index_add_at(&s->sites_at, hash, at, i))
			return HEFT_ENOMEM;
	}
	s->sites.items[i].blocks++;
	s->sites.items[i].total_ns += ns;
	return 0;
}

static int add_hop(struct trace_stages *s, const struct followed *b, const char *from,
		   const char *to, enum hop_kind kind, uint64_t ns)
{
	struct hop *h = find_hop(s, from, to, kind);
	if (!h)
		return HEFT_ENOMEM;
	h->total_ns += ns;
	h->max_ns = greater(h->max_ns, ns);
	if (h->blocks++ % h->stride == 0) {
		if (h->kept.count == KEPT) {
			for (size_t i = 0; i < KEPT / 2; i++)
				h->kept.items[i] = h->kept.items[2 * i];
			h->kept.count = KEPT / 2;
			h->stride *= 2;
		}
		if (!vector_push(&h->kept, ns))
			return HEFT_ENOMEM;
	}
	return b->born_at ? add_to_site(s, h->number, b->born_at - 1, ns) : 0;
}

static int reach(struct trace_stages *s, const struct remark *r)
{
	const struct trace_remark *m = r->m;
	const uint64_t now = m->time_ns, birth_ns = m->b && m->b - 1 <= now ? now - (m->b - 1) : 0;
	struct followed *b = find_block(s, r->process, m->a, true);
	if (!b || add_stage(s, r->name))
		return HEFT_ENOMEM;
	if (b->stage && m->b && birth_ns > b->since_ns) {
		b->stage = NULL;
		s->lost += r->counted;
	}
	const struct followed before = *b;
	*b = (struct followed){m->a, now, r->name, r->process, m->thread, m->born_at};
	if (!r->counted || (!before.stage && !m->b))
		return 0; /* of a block whose age is not known, the first hop is not */
	uint64_t since = before.stage ? before.since_ns : birth_ns;
	return add_hop(s, b, before.stage, r->name, TO_STAGE, now > since ? now - since : 0);
}

int trace_stages_add(struct trace_stages *s, const struct remark *r)
{
	if (r->m->kind == TRACE_REMARK_STAGE)
		return reach(s, r);
	struct followed *b = find_block(s, r->process, r->m->a, false);
	if (!b || !b->stage)
		return 0; /* a forked child frees its copy of a block, or its stages are not selected */
	const struct followed ended = *b;
	b->stage = NULL;
	uint64_t ns = r->m->time_ns > ended.since_ns ? r->m->time_ns - ended.since_ns : 0;
	return r->counted ? add_hop(s, &ended, ended.stage, NULL, TO_END, ns) : 0;
}

/* ---- into the model */

static int add_those_still_there(struct trace_stages *s, const struct load *l, uint64_t to_ns)
{
	int rc = 0;
	for (size_t i = 0; i < s->blocks.count && rc == 0; i++) {
		const struct followed *b = &s->blocks.items[i];
		uint64_t end = lesser(trace_process_end_ns(l->c, b->process), to_ns);
		if (b->stage && l->threads[b->thread] && end >= trace_counts_from(l))
			rc = add_hop(s, b, b->stage, NULL, TO_NOWHERE,
				     end > b->since_ns ? end - b->since_ns : 0);
	}
	return rc;
}

static int shortest_first(const void *a, const void *b)
{
	return compare_numbers(*(const uint64_t *)a, *(const uint64_t *)b);
}

/* The value that so many hundredths of the sorted values do not exceed. */
static uint64_t quantile(const uint64_t *sorted, size_t count, unsigned hundredths)
{
	size_t rank = (count * hundredths + 99) / 100;
	return count ? sorted[rank ? rank - 1 : 0] : 0;
}

static int in_order(const void *a, const void *b, void *ctx)
{
	const struct hop *x = a, *y = b;
	const struct trace_stages *s = ctx;
	return compare_numbers(rank_of(s, x->from), rank_of(s, y->from))
		       ?: compare_numbers(x->kind, y->kind)
		       ?: compare_numbers(rank_of(s, x->to), rank_of(s, y->to));
}

static int by_hop_and_site(const void *a, const void *b)
{
	const struct profile_hop_site *x = a, *y = b;
	return compare_numbers(x->hop, y->hop) ?: compare_numbers(x->site, y->site);
}

/* moved: the new index of each hop. */
static int fill_sites(const struct trace_stages *s, struct profile_remarks *out,
		      const uint32_t *moved, const uint32_t *sites)
{
	struct profile_hop_site *list = malloc((s->sites.count + 1) * sizeof *list);
	uint32_t count = 0, kept = 0;
	if (!list)
		return HEFT_ENOMEM;
	for (size_t i = 0; i < s->sites.count && sites; i++) {
		const struct hop_site *x = &s->sites.items[i];
		if (sites[x->site] != PROFILE_NONE)
			list[count++] = (struct profile_hop_site){sites[x->site], moved[x->hop],
								  x->blocks, x->total_ns};
	}
	qsort(list, count, sizeof *list, by_hop_and_site);
	for (uint32_t i = 0; i < count; i++) {
		struct profile_hop_site *last = kept ? &list[kept - 1] : NULL;
		if (!last || by_hop_and_site(last, &list[i]) != 0) {
			list[kept++] = list[i];
			continue;
		}
		last->blocks += list[i].blocks;
		last->total_ns += list[i].total_ns;
	}
	out->hop_sites = list;
	out->hop_site_count = kept;
	return 0;
}

int trace_stages_fill(struct trace_stages *s, const struct load *l, uint64_t to_ns,
		      const uint32_t *sites)
{
	struct profile_remarks *out = &l->p->remarks;
	int rc = add_those_still_there(s, l, to_ns);
	uint32_t *moved = malloc((s->hops.count + 1) * sizeof *moved);
	out->hops = malloc((s->hops.count + 1) * sizeof *out->hops);
	if (rc < 0 || !moved || !out->hops) {
		free(moved);
		return HEFT_ENOMEM;
	}
	if (s->hops.count)
		qsort_r(s->hops.items, s->hops.count, sizeof *s->hops.items, in_order, s);
	for (size_t i = 0; i < s->hops.count; i++) {
		struct hop *h = &s->hops.items[i];
		if (h->kept.count)
			qsort(h->kept.items, h->kept.count, sizeof *h->kept.items, shortest_first);
		moved[h->number] = (uint32_t)i;
		out->hops[i] = (struct profile_hop){
			.from = h->from,
			.to = h->to,
			.still_there = h->kind == TO_NOWHERE,
			.blocks = h->blocks,
			.total_ns = h->total_ns,
			.max_ns = h->max_ns,
			.p50_ns = quantile(h->kept.items, h->kept.count, 50),
			.p99_ns = quantile(h->kept.items, h->kept.count, 99),
		};
	}
	out->hop_count = (uint32_t)s->hops.count;
	out->lost_blocks = s->lost;
	rc = fill_sites(s, out, moved, sites);
	free(moved);
	return rc;
}
