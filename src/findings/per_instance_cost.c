/* per-instance-cost: blocks that are always made together are one object; how much does one cost?
 *
 * Flame graphs and lists of sites show the parts of an object separately, and each part for all objects
 * together. This file puts the parts together again. An activation is a function entered by one call: nodes
 * under one parent, of one function, on any line. Sites under an activation are parts of one object if their
 * counts agree: live at the peak, made, freed, and live over time if that is known. They agree exactly or in
 * whole multiples, because an object may own several blocks of one site: three buffers on one line, or k in
 * a loop.
 *
 * Counts may agree by chance, especially if an activation has many sites (main has all). So the parts must
 * be nearly everything that the activation has live, inner activations are preferred, and objects must be
 * many and not small. Multiples agree by chance more often: with n objects in one of n cases. So it must be
 * seen that they were made in turn (made_together.h). Files of other tools do not have that. There the
 * activation must be the constructor itself, not some function further out that calls it: one of its parts
 * is made directly in it. The same object is found in both, unless the order contradicts. */
#include "findings/diagnosis.h"

#include "findings/look_places.h"
#include "findings/made_together.h"
#include "findings/site_names.h"
#include "hosted/compare.h"
#include "hosted/hash_index.h"
#include "hosted/vector.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Fewer objects are not a population. */
#define INSTANCES_LEAST 10
/* A list node with its string is an object too, but nobody asks what one costs. */
#define INSTANCE_LEAST_BYTES 1024
#define INSTANCES_LEAST_BYTES (256u << 10)
#define INSTANCES_LEAST_PEAK_SHARE SEVERITY_MEDIUM_SHARE
#define INSTANCE_LEAST_PARTS 2
/* Blocks of one site in one object; more are a collection. If the order is not known, an object has no more
 * than this many, or than there are objects. */
#define INSTANCE_MOST_BLOCKS 64
#define INSTANCE_MOST_UNSEEN 16
/* The share of the parts in all bytes that are live under the activation. */
#define INSTANCE_LEAST_COVERAGE 0.8
/* Two objects have about the same bytes. */
#define INSTANCE_SAME_BYTES 0.95
/* An outer activation is the object only if it has this much more. */
#define INSTANCE_OUTER_GAIN 1.02
/* The chunk of a pool is smaller than a power of two by the allocator's header and its own. */
#define CHUNK_LEAST_BYTES 4096
#define CHUNK_HEADER_BYTES 128
/* Looks at the sites with the most bytes, and at so many user frames of each. */
enum { SITES_LOOKED_AT = 20000, FRAMES_LOOKED_AT = 48, COUNTS_TRIED = 8 };

#define GIB ((uint64_t)1 << 30)

static const char instance_rule[] =
	"Sites under one function are parts of one object if their numbers of blocks agree, "
	"exactly or in "
	"whole multiples: at the peak, at the end, made and freed, and over time.";

/* A site under an activation, which `rep`, its first node, stands for */
struct member {
	uint32_t rep, site;
	bool direct; /* the activation is the site's first user frame: no function of the user lies between */
};

struct object {
	uint32_t rep; /* a node of the activation */
	uint32_t depth;
	uint32_t first, count; /* members of the activation */
	uint32_t reference;    /* the site that has one block in each object */
	uint64_t instances, bytes, blocks, slack;
	uint64_t all; /* bytes that are live under the activation */
	uint32_t parts;
	uint32_t agreeing; /* parts that have exactly one block for each instance */
	bool outermost;    /* main, or the function of a thread: everything is under it */
	bool direct;       /* a part that each object has once is made directly in the activation */
	bool taken;
};

/* ---- activations */

struct activations {
	uint32_t *rep;   /* by node: its activation's first node */
	uint32_t *heavy; /* by node: find_heavy */
	uint64_t *bytes; /* by first node */
};

static bool is_enough(const struct profile *p, uint64_t bytes)
{
	return bytes >= INSTANCES_LEAST_BYTES &&
	       share_of(bytes, p->totals.peak_bytes) >= INSTANCES_LEAST_PEAK_SHARE;
}

/* An activation has at most the bytes of its caller. If those are too few, it cannot matter. (A large
 * program has half a million nodes, and a hundred that matter.) */
static bool may_matter(const struct activations *a, const struct profile *p, uint32_t node)
{
	uint32_t parent = p->stacks.nodes[node].parent;
	return parent == PROFILE_NONE || is_enough(p, a->bytes[parent]);
}

/* Finds the activation of each node; its first node stands for it. A node that cannot matter is its own. */
static int find_activations(struct activations *a, const struct profile *p)
{
	struct hash_index index = {0}; /* first nodes, by caller and function */
	int rc = 0;
	a->rep = malloc(((size_t)p->stacks.node_count + 1) * sizeof *a->rep);
	a->heavy = malloc(((size_t)p->stacks.node_count + 1) * sizeof *a->heavy);
	if (!a->rep || !a->heavy)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->stacks.node_count && rc == 0; i++) {
		const struct profile_node *n = &p->stacks.nodes[i];
		const struct profile_frame *f = &p->stacks.frames[n->frame];
		a->rep[i] = i;
		if (!may_matter(a, p, i))
			continue;
		uint32_t hash = hash_pair(n->parent, f->module) ^
				hash_bytes(f->function, strlen(f->function));
		uint32_t at = hash, first;
		while ((first = hash_index_step(&index, hash, &at)) != HASH_NONE)
			if (p->stacks.nodes[first].parent == n->parent &&
			    same_function(p, p->stacks.nodes[first].frame, n->frame))
				break;
		if (first == HASH_NONE)
			rc = hash_index_add_at(&index, hash, at, i);
		else
			a->rep[i] = first;
	}
	hash_index_fini(&index);
	return rc;
}

/* Adds up what is live under each node at the peak. */
static int add_up_bytes(struct activations *a, const struct profile *p)
{
	a->bytes = calloc((size_t)p->stacks.node_count + 1, sizeof *a->bytes);
	if (!a->bytes)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->site_count; i++)
		if (p->sites[i].node < p->stacks.node_count)
			a->bytes[p->sites[i].node] += p->sites[i].peak_bytes;
	for (uint32_t i = p->stacks.node_count; i-- > 0;) /* callees have larger indices */
		if (p->stacks.nodes[i].parent != PROFILE_NONE)
			a->bytes[p->stacks.nodes[i].parent] += a->bytes[i];
	return 0;
}

/* Adds up the nodes of each activation, under its first node. */
static void add_up_activations(struct activations *a, const struct profile *p)
{
	for (uint32_t i = 0; i < p->stacks.node_count; i++)
		if (a->rep[i] != i)
			a->bytes[a->rep[i]] += a->bytes[i];
}

/* Finds the nearest user frame of each node, itself or further out, whose activation has enough bytes for a
 * finding. */
static void find_heavy(struct activations *a, const struct profile *p)
{
	for (uint32_t i = 0; i < p->stacks.node_count; i++) {
		uint32_t parent = p->stacks.nodes[i].parent;
		uint64_t bytes = a->bytes[a->rep[i]];
		bool heavy = is_enough(p, bytes) && p->stacks.frames[p->stacks.nodes[i].frame].user;
		a->heavy[i] = heavy ? i : parent == PROFILE_NONE ? PROFILE_NONE : a->heavy[parent];
	}
}

static uint32_t next_heavy(const struct activations *a, const struct profile *p, uint32_t node)
{
	uint32_t parent = p->stacks.nodes[node].parent;
	return parent == PROFILE_NONE ? PROFILE_NONE : a->heavy[parent];
}

/* Blocks of one size just below a power of two are chunks that a pool cuts up. Their number says how full
 * the pool is, not how many objects there are. (perl's pools for scalars and for their bodies grow in step,
 * with equal numbers of chunks.) */
static bool is_pool_chunk(const struct profile_site *s)
{
	uint64_t size = s->peak_bytes / s->peak_blocks, power = CHUNK_LEAST_BYTES;
	if (s->peak_bytes % s->peak_blocks || size >> 40)
		return false;
	while (power < size)
		power *= 2;
	return power > size && power - size <= CHUNK_HEADER_BYTES;
}

static bool may_be_part(const struct diagnosis *d, uint32_t site)
{
	const struct profile_site *s = &d->p->sites[site];
	return s->peak_blocks >= INSTANCES_LEAST && s->node < d->p->stacks.node_count &&
	       d->told[site] != TOLD_EXPLAINED;
}

/* Lists every pair of activation and site, by activation and then by bytes (the order of sites). It counts
 * them first, then puts them in place. */
static struct member *find_members(const struct diagnosis *d, struct activations *a,
				   uint32_t *count)
{
	const struct profile *p = d->p;
	uint32_t sites = p->site_count < SITES_LOOKED_AT ? p->site_count : SITES_LOOKED_AT;
	uint32_t *place = calloc((size_t)p->stacks.node_count + 1, sizeof *place), used = 0;
	struct member *list = NULL;
	for (int pass = 0; pass < 2 && place; pass++) {
		for (uint32_t i = 0; i < sites; i++) {
			if (!may_be_part(d, i))
				continue;
			uint32_t n = a->heavy[p->sites[i].node];
			for (int f = 0; n != PROFILE_NONE && f < FRAMES_LOOKED_AT; f++) {
				uint32_t *at = &place[a->rep[n]];
				if (pass == 1)
					list[*at] = (struct member){a->rep[n], i, n == d->named[i]};
				++*at;
				n = next_heavy(a, p, n);
			}
		}
		for (uint32_t i = 0; i < p->stacks.node_count && pass == 0; i++) {
			uint32_t here = place[i];
			place[i] = used;
			used += here;
		}
		if (pass == 0)
			list = malloc(((size_t)used + 1) * sizeof *list);
		if (!list)
			break;
	}
	free(place);
	*count = used;
	return list;
}

/* ---- do two sites belong to one object? */

/* Several blocks for each object must match exactly: many counts are near some multiple. */
static bool is_multiple(uint64_t count, uint64_t k, uint64_t of)
{
	uint64_t expected = k * of, off = count > expected ? count - expected : expected - count;
	uint64_t half_made = of < TOGETHER_EXACT_BELOW || k > 1
				     ? 0
				     : (uint64_t)ceil(TOGETHER_TOLERANCE * (double)of);
	return off <= half_made;
}

/* An object may be half made at the peak. */
static bool agrees_at_peak(uint64_t count, uint64_t k, uint64_t of)
{
	return is_multiple(count, k, of) || (k > 1 && count < k * of && count + k > k * of);
}

/* Whether several blocks in each object may be believed although nobody saw the order. Blocks of one size
 * from one function are the chunks of a pool or the pages of a cache (46 and 414 were seen), unless the
 * constructor itself makes all of them. */
static bool is_plausible(const struct profile *p, const struct object *o, const struct member *m,
			 uint64_t k)
{
	const struct profile_site *r = &p->sites[o->reference], *s = &p->sites[m->site];
	bool same_kind = r->peak_bytes / r->peak_blocks == s->peak_bytes / s->peak_blocks &&
			 same_function(p, p->stacks.nodes[r->node].frame,
				       p->stacks.nodes[s->node].frame);
	return (k <= INSTANCE_MOST_UNSEEN || k <= r->peak_blocks) && !node_is_nameless(p, o->rep) &&
	       (same_kind ? o->direct && m->direct : o->direct || m->direct);
}

/* Whether as many were made and freed for each object. A block that was resized belongs to the site that
 * resized it last: numbers of calls mean nothing there. Formats that do not separate resizing from making
 * tell nothing either. */
static bool calls_agree(const struct profile *p, const struct profile_site *r,
			const struct profile_site *s, uint64_t k)
{
	bool resized = r->reallocations || s->reallocations || !r->allocations || !s->allocations ||
		       !(p->run.has & PROFILE_HAS_FREES);
	return resized || (is_multiple(s->allocations, k, r->allocations) &&
			   is_multiple(s->frees, k, r->frees));
}

/* How many blocks of a member each object has, if it has one of `reference`; 0: the counts do not agree. */
static uint64_t blocks_in_each(const struct profile *p, const struct object *o,
			       const struct member *m)
{
	const struct profile_site *r = &p->sites[o->reference], *s = &p->sites[m->site];
	uint64_t k = (s->peak_blocks + r->peak_blocks / 2) / r->peak_blocks;
	if (k < 1 || k > INSTANCE_MOST_BLOCKS ||
	    !agrees_at_peak(s->peak_blocks, k, r->peak_blocks) ||
	    !is_multiple(s->live_blocks, k, r->live_blocks))
		return 0;
	enum together together = made_together(p, o->reference, m->site, k);
	/* A buffer that is replaced is still part of its object, if it was always there. */
	if (together == TOGETHER_NOT || (together == TOGETHER_UNKNOWN && !calls_agree(p, r, s, k)))
		return 0;
	/* Under main any two sites meet: there, agreement must be seen, not assumed. */
	if (o->outermost && together == TOGETHER_UNKNOWN)
		return 0;
	if (together != TOGETHER_IN_ORDER && is_pool_chunk(s) && !(o->direct && m->direct))
		return 0;
	return k == 1 || together == TOGETHER_IN_ORDER || is_plausible(p, o, m, k) ? k : 0;
}

/* ---- the object of an activation */

/* Whether o is more of an object than the best so far. A part that is half made at the peak has another count than
 * the rest: with about the same bytes, the count that most parts have is right. With the same bytes, more instances
 * are better: a pair of objects is not an object. */
static bool is_better(const struct object *o, const struct object *best)
{
	if ((double)o->bytes < INSTANCE_SAME_BYTES * (double)best->bytes)
		return false;
	if ((double)best->bytes < INSTANCE_SAME_BYTES * (double)o->bytes)
		return true;
	if (o->agreeing != best->agreeing)
		return o->agreeing > best->agreeing;
	return o->bytes > best->bytes ||
	       (o->bytes == best->bytes && o->instances > best->instances);
}

static void try_reference(const struct profile *p, const struct member *members, uint32_t reference,
			  struct object *best)
{
	struct object o = *best;
	o.reference = reference;
	o.instances = p->sites[reference].peak_blocks;
	o.bytes = o.blocks = o.slack = o.parts = o.agreeing = 0;
	o.direct = false;
	for (uint32_t i = o.first; i < o.first + o.count && !o.direct; i++)
		o.direct = members[i].direct && !is_pool_chunk(&p->sites[members[i].site]) &&
			   blocks_in_each(p, &o, &members[i]) == 1;
	for (uint32_t i = o.first; i < o.first + o.count; i++) {
		const struct profile_site *s = &p->sites[members[i].site];
		if (!blocks_in_each(p, &o, &members[i]))
			continue;
		o.bytes += s->peak_bytes;
		o.blocks += s->peak_blocks;
		o.slack += s->peak_slack_bytes;
		o.parts++;
		o.agreeing += s->peak_blocks == o.instances;
	}
	if (is_better(&o, best))
		*best = o;
}

static bool is_worth_telling(struct rule *r, const struct profile *p, const struct object *o)
{
	return rule_at_least(r, "sites whose counts agree", UNIT_COUNT, o->parts,
			     INSTANCE_LEAST_PARTS) &&
	       rule_at_least(r, "objects", UNIT_COUNT, (double)o->instances, INSTANCES_LEAST) &&
	       rule_at_least(r, "bytes of all objects", UNIT_BYTES, (double)o->bytes,
			     INSTANCES_LEAST_BYTES) &&
	       rule_at_least(r, "bytes of one object", UNIT_BYTES,
			     (double)(o->bytes / o->instances), INSTANCE_LEAST_BYTES) &&
	       rule_at_least(
		       r, "share of the objects in what is live under the function that makes them",
		       UNIT_SHARE, share_of(o->bytes, o->all), INSTANCE_LEAST_COVERAGE) &&
	       rule_at_least(r, "share of the objects in the peak heap", UNIT_SHARE,
			     share_of(o->bytes, p->totals.peak_bytes), INSTANCES_LEAST_PEAK_SHARE);
}

/* Finds the best object of an activation; `all` is the bytes live under it. */
static bool find_object(const struct profile *p, const struct member *members, uint64_t all,
			struct object *o)
{
	uint64_t tried[COUNTS_TRIED];
	uint32_t counts = 0;
	if (o->count < INSTANCE_LEAST_PARTS)
		return false;
	for (uint32_t i = o->first; i < o->first + o->count && counts < COUNTS_TRIED; i++) {
		uint64_t blocks = p->sites[members[i].site].peak_blocks;
		bool known = false;
		for (uint32_t k = 0; k < counts && !known; k++)
			known = tried[k] == blocks;
		if (known)
			continue;
		tried[counts++] = blocks;
		try_reference(p, members, members[i].site, o);
	}
	o->all = all;
	struct rule r = rule_begin("");
	return is_worth_telling(&r, p, o);
}

static uint32_t depth_of(const struct profile *p, uint32_t node)
{
	uint32_t depth = 0;
	for (; node != PROFILE_NONE; node = p->stacks.nodes[node].parent)
		depth++;
	return depth;
}

static int innermost_first(const void *a, const void *b)
{
	const struct object *x = a, *y = b;
	return compare_numbers(y->depth, x->depth) ?: compare_numbers(x->rep, y->rep);
}

/* Whether the activation of `inner` is under that of `outer`. */
static bool is_under(const struct profile *p, const struct activations *a,
		     const struct object *inner, const struct object *outer)
{
	uint32_t n = inner->rep;
	for (uint32_t k = inner->depth; k > outer->depth; k--)
		n = p->stacks.nodes[n].parent;
	return n != PROFILE_NONE && a->rep[n] == outer->rep;
}

/* Keeps inner objects unless an outer one has more. An outer one that only adds up different callers of one
 * constructor does not have more. */
static void choose(const struct profile *p, const struct activations *a, struct object *list,
		   uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		uint64_t inner_bytes = 0;
		uint32_t first = PROFILE_NONE;
		bool one_constructor = false;
		for (uint32_t k = 0; k < i; k++) {
			if (!list[k].taken || !is_under(p, a, &list[k], &list[i]))
				continue;
			inner_bytes += list[k].bytes;
			one_constructor |= first != PROFILE_NONE &&
					   same_function(p, p->stacks.nodes[list[first].rep].frame,
							 p->stacks.nodes[list[k].rep].frame);
			first = k;
		}
		/* A function without a name tells nobody what the object is. */
		if (one_constructor || (inner_bytes && node_is_nameless(p, list[i].rep)) ||
		    (double)list[i].bytes <= INSTANCE_OUTER_GAIN * (double)inner_bytes)
			continue;
		for (uint32_t k = 0; k < i; k++)
			if (list[k].taken && is_under(p, a, &list[k], &list[i]))
				list[k].taken = false;
		list[i].taken = true;
	}
}

/* ---- words */

static int largest_first(const void *a, const void *b)
{
	const struct evidence_part *x = a, *y = b;
	return compare_numbers(y->bytes, x->bytes) ?: compare_numbers(x->site, y->site);
}

/* The frame of an activation with the smallest line, which is nearest to the function's head. */
static uint32_t head_of(const struct profile *p, const struct activations *a,
			const struct member *members, const struct object *o)
{
	uint32_t best = o->rep;
	for (uint32_t i = o->first; i < o->first + o->count; i++)
		for (uint32_t n = p->sites[members[i].site].node; n != PROFILE_NONE;
		     n = p->stacks.nodes[n].parent)
			if (a->rep[n] == o->rep) {
				if (p->stacks.frames[p->stacks.nodes[n].frame].line <
				    p->stacks.frames[p->stacks.nodes[best].frame].line)
					best = n;
				break;
			}
	return best;
}

static int list_parts(struct diagnosis *d, const struct member *members, const struct object *o,
		      struct evidence_part **out)
{
	const struct profile *p = d->p;
	struct evidence_part *parts = name_pool_alloc(d->pool, o->parts * sizeof *parts);
	uint32_t used = 0;
	*out = parts;
	for (uint32_t i = o->first; parts && i < o->first + o->count && used < o->parts; i++) {
		uint32_t site = members[i].site, name = d->named[site];
		if (!blocks_in_each(p, o, &members[i]))
			continue;
		/* The caller of a wrapper may be outside the object. */
		if (depth_of(p, name) < o->depth)
			name = profile_first_user_node(p, p->sites[site].node);
		uint32_t frame = p->stacks.nodes[name].frame;
		parts[used].function = p->stacks.frames[frame].function;
		parts[used].where = diagnosis_keep(d, phrase_where(p, frame));
		parts[used].bytes = (p->sites[site].peak_bytes + o->instances / 2) / o->instances;
		parts[used].share = share_of(p->sites[site].peak_bytes, o->bytes);
		parts[used].site = site;
		if (!parts[used].where)
			return HEFT_ENOMEM;
		used++;
	}
	if (!parts)
		return HEFT_ENOMEM;
	qsort(parts, used, sizeof *parts, largest_first);
	return 0;
}

static int report_object(struct diagnosis *d, const struct activations *a,
			 const struct member *members, struct object *list, uint32_t count,
			 uint32_t index)
{
	const struct profile *p = d->p;
	struct object *o = &list[index];
	uint64_t instances = o->instances, bytes = o->bytes, slack = o->slack;
	/* Add the same constructor, entered by other calls. */
	for (uint32_t k = index + 1; k < count; k++) {
		struct object *other = &list[k];
		double each = (double)other->bytes / (double)other->instances;
		if (!other->taken || other->parts != o->parts ||
		    !same_function(p, p->stacks.nodes[other->rep].frame,
				   p->stacks.nodes[o->rep].frame) ||
		    fabs(each * (double)o->instances / (double)o->bytes - 1) > TOGETHER_TOLERANCE)
			continue;
		instances += other->instances;
		bytes += other->bytes;
		slack += other->slack;
		other->taken = false;
	}
	struct evidence_part *parts;
	if (list_parts(d, members, o, &parts) < 0)
		return HEFT_ENOMEM;
	uint32_t head = head_of(p, a, members, o);
	uint64_t each = (bytes + instances / 2) / instances;
	uint64_t usable = (bytes + slack + instances / 2) / instances;
	double share = share_of(bytes, p->totals.peak_bytes);
	/* Untouched pages of a buffer take no memory. How many there are is known if heft looked near the peak. */
	bool touched_known = look_knows_touched(p);
	uint64_t touched = 0;
	for (uint32_t i = 0; i < o->parts; i++)
		touched += look_touched_bytes(&p->sites[parts[i].site], parts[i].bytes);
	bool sizes_known = p->run.has & PROFILE_HAS_USABLE;
	bool grows = d->told[parts[0].site] == TOLD_TO_GROW;
	struct draft f = draft_begin(FINDING_PER_INSTANCE_COST, parts[0].site, bytes);
	struct rule r = rule_begin(instance_rule);
	is_worth_telling(&r, p, o);
	draft_rule(&f, &r);
	f.finding.severity = severity_of(d, bytes);
	f.finding.summary = diagnosis_text(
		d,
		"%s objects of %s each, made at %s, are %s of the peak heap%s; the largest of %u "
		"parts is "
		"%s (%s) from %s, and %s in 1 GiB,%s if all of their memory is touched",
		words_count(instances).text, words_exact_size(each).text,
		phrase_place(p, head).text, words_percent(share).text,
		grows ? " (part of what growing-site reports)" : "", o->parts,
		words_exact_size(parts[0].bytes).text, words_percent(parts[0].share).text,
		phrase_function(parts[0].function).text,
		words_many(GIB / (usable ? usable : 1), "object fits", "objects fit").text,
		sizes_known ? "" : " without the allocator's overhead,");
	f.finding.advice =
		grows ? "If the program needs all of these objects, begin with the largest part: "
			"make it smaller, make it when it is first needed, or share it between "
			"the objects."
		      : "Begin with the largest part: make it smaller, make it when it is first "
			"needed, or share it between the objects.";
	draft_text(&f, "function", p->stacks.frames[p->stacks.nodes[head].frame].function);
	draft_count(&f, "instances", instances);
	draft_bytes(&f, "bytes_each", each);
	draft_bytes(&f, "usable_bytes_each", usable);
	if (touched_known)
		draft_bytes(&f, "touched_bytes_each", touched);
	draft_count(&f, "blocks_each", (o->blocks + o->instances / 2) / o->instances);
	draft_count(&f, "fit_in_1gib", GIB / (usable ? usable : 1));
	draft_text(&f, "fit_assumes",
		   sizes_known ? "usable bytes, all of them touched"
			       : "requested bytes, all of them touched");
	draft_parts(&f, "parts", parts, o->parts);
	return draft_add(d, &f);
}

int diagnose_per_instance_cost(struct diagnosis *d)
{
	const struct profile *p = d->p;
	struct activations a = {0};
	struct member *members = NULL;
	struct object *list = NULL;
	uint32_t member_count = 0, count = 0, capacity = 0;
	int rc = add_up_bytes(&a, p);
	if (rc == 0)
		rc = find_activations(&a, p);
	if (rc == 0) {
		add_up_activations(&a, p);
		find_heavy(&a, p);
		members = find_members(d, &a, &member_count);
		rc = members ? 0 : HEFT_ENOMEM;
	}
	for (uint32_t i = 0, next; i < member_count && rc == 0; i = next) {
		for (next = i; next < member_count && members[next].rep == members[i].rep; next++)
			;
		struct object o = {.rep = members[i].rep, .first = i, .count = next - i};
		o.outermost = user_caller(p, o.rep) == PROFILE_NONE;
		if (!find_object(p, members, a.bytes[o.rep], &o))
			continue;
		o.depth = depth_of(p, o.rep);
		if (array_reserve(list, count, capacity, 1))
			list[count++] = o;
		else
			rc = HEFT_ENOMEM;
	}
	if (count)
		qsort(list, count, sizeof *list, innermost_first);
	choose(p, &a, list, count);
	for (uint32_t i = 0; i < count && rc == 0; i++)
		if (list[i].taken)
			rc = report_object(d, &a, members, list, count, i);
	free(a.rep);
	free(a.heavy);
	free(a.bytes);
	free(members);
	free(list);
	return rc;
}
