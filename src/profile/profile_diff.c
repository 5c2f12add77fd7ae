/* Matching the call stacks of two profiles (profile_diff.h).
 *
 * Two builds of a program agree in the names on a stack and in little else: lines move, files and
 * folders are renamed, addresses change, recursion goes deeper, a function is inlined. So stacks
 * are matched by name (stack_key.h), in three rounds, each over what the one before left over:
 *
 * 1. the same functions and modules. Several sites of one such stack differ by their lines only.
 *    They are put in the order of their lines on either side and aligned like two texts, because
 *    edits keep the order. The allocation function, sizes and counts decide where the gaps are when
 *    one side has more.
 * 2. the same user frames: a runtime library's inner workings, or what is known of them, changed.
 * 3. the same user frames but for functions that one side has nowhere: inlined, and no debug
 *    information tells. One side must be unchanged, so that a function that was removed is never
 *    taken for another that was added.
 *
 * Rounds 2 and 3 ask for evidence beside the names: about the same number of blocks, or blocks of
 * about the same size. What is left is new or vanished.
 *
 * Invariant: every site of both profiles is in exactly one entry, so the changes add up to the
 * difference of the totals. */
#include "profile/profile_diff.h"

#include "hosted/compare.h"
#include "hosted/vector.h"
#include "profile/estimate.h"
#include "profile/stack_key.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Costs of aligning, as shares of "nothing in common". A pair that differs in all but its names
 * still costs less than two gaps: names are the strongest evidence there is. */
#define COST_GAP 0.5f
#define COST_VIA 0.3f
#define COST_SIZE 0.3f
#define COST_COUNT 0.2f
#define COST_LINES 0.02f
#define ALIKE 0.1 /* counts or sizes that differ by less are evidence for rounds 2 and 3 */

enum { LARGEST_ALIGNMENT = 1 << 22 }; /* pairs; beyond it a stack's sites are one entry */

/* Sites of one side that read the same, lines included */
struct piece {
	struct profile_diff_side sum;
	struct stack_key key;
	uint32_t via;
	uint32_t without; /* stack_keys_without */
	uint32_t group;   /* by what this round matches */
	bool done;
};

struct side {
	const struct profile *p;
	struct piece *pieces;
	uint32_t count;
};

struct matcher {
	struct stack_keys *keys;
	struct side old, new;
	struct profile_diff *d;
	uint32_t capacity; /* of d->entries */
	enum profile_matched round;
};

/* ---- sums */

static double blocks_of(const struct profile_diff_side *s)
{
	return (double)s->sums.allocations + (double)s->sums.reallocations;
}

static void add_side(struct profile_diff_side *sum, const struct profile_diff_side *more)
{
	double mine = blocks_of(sum), others = blocks_of(more);
	if (mine + others > 0)
		sum->lifetime_ns = (sum->lifetime_ns * mine + more->lifetime_ns * others) /
				   (mine + others);
	if (sum->site == PROFILE_NONE || (more->site != PROFILE_NONE && more->site < sum->site))
		sum->site = more->site; /* sites are in order of their peaks */
	sum->sites += more->sites;
	measure_add_site(&sum->sums, &more->sums);
	for (enum measure_id i = 0; i < MEASURE_COUNT; i++)
		if (measures[i].spread)
			*profile_diff_variance(sum, i) += measure_variance(&more->variance, i);
}

static void set_errors(struct profile_diff_side *s, const struct profile *p, uint32_t site)
{
	for (enum measure_id i = 0; i < MEASURE_COUNT; i++) {
		double error = (double)measure_error95(p, site, i);
		if (measures[i].spread)
			*profile_diff_variance(s, i) = error * error;
	}
}

static struct profile_diff_side side_of_site(const struct profile *p, uint32_t index)
{
	const struct profile_site *s = &p->sites[index];
	struct profile_diff_side side = {
		.site = index,
		.sites = 1,
		.sums = *s,
		.lifetime_ns = (double)s->lifetime.mean_ns,
	};
	set_errors(&side, p, index);
	return side;
}

static int add_entry(struct matcher *m, struct piece *old, struct piece *new)
{
	static const struct profile_diff_side none = {.site = PROFILE_NONE};
	struct profile_diff *d = m->d;
	if (!array_reserve(d->entries, d->count, m->capacity, 1))
		return HEFT_ENOMEM;
	d->entries[d->count++] = (struct profile_diff_entry){
		.old = old ? old->sum : none,
		.new = new ? new->sum : none,
		.matched = m->round,
	};
	if (old)
		old->done = true;
	if (new)
		new->done = true;
	return 0;
}

/* ---- aligning the pieces of one group */

/* 0: the same, 1: nothing in common. */
static double distance(double a, double b)
{
	double larger = a > b ? a : b;
	return larger > 0 ? fabs(a - b) / larger : 0;
}

static double block_size(const struct piece *p)
{
	double blocks = blocks_of(&p->sum);
	return blocks > 0 ? (double)p->sum.sums.allocated_bytes / blocks : 0;
}

static float pair_cost(const struct matcher *m, const struct piece *a, const struct piece *b)
{
	double size = distance(block_size(a), block_size(b));
	double count = distance(blocks_of(&a->sum), blocks_of(&b->sum));
	if (m->round != PROFILE_MATCHED_STACK && size > ALIKE && count > ALIKE)
		return 3 * COST_GAP;
	return COST_SIZE * (float)size + COST_COUNT * (float)count +
	       (a->via == b->via ? 0 : COST_VIA) + (a->key.lines == b->key.lines ? 0 : COST_LINES);
}

/* Too many sites to align: one entry for all. */
static int lump(struct matcher *m, struct piece **old, size_t olds, struct piece **new, size_t news)
{
	for (size_t i = 1; i < olds; i++) {
		add_side(&old[0]->sum, &old[i]->sum);
		old[i]->done = true;
	}
	for (size_t i = 1; i < news; i++) {
		add_side(&new[0]->sum, &new[i]->sum);
		new[i]->done = true;
	}
	return add_entry(m, old[0], new[0]);
}

/* Pairs what belongs together in two lists, both in order; what is left keeps done == false. */
static int align(struct matcher *m, struct piece **old, size_t olds, struct piece **new,
		 size_t news)
{
	if (!olds || !news)
		return 0;
	if (olds == 1 && news == 1)
		return pair_cost(m, old[0], new[0]) < 2 * COST_GAP ? add_entry(m, old[0], new[0])
								   : 0;
	if (olds > LARGEST_ALIGNMENT / news)
		return lump(m, old, olds, new, news);
	/* cost[i][j]: of what is left from old[i] and new[j] on */
	size_t width = news + 1;
	float *cost = malloc((olds + 1) * width * sizeof *cost);
	int rc = 0;
	if (!cost)
		return HEFT_ENOMEM;
	for (size_t i = olds + 1; i-- > 0;)
		for (size_t j = news + 1; j-- > 0;) {
			float best;
			if (i == olds || j == news) {
				best = COST_GAP * (float)(olds - i + news - j);
			} else {
				float gap_old = cost[(i + 1) * width + j] + COST_GAP;
				float gap_new = cost[i * width + j + 1] + COST_GAP;
				best = cost[(i + 1) * width + j + 1] + pair_cost(m, old[i], new[j]);
				best = gap_old < best ? gap_old : best;
				best = gap_new < best ? gap_new : best;
			}
			cost[i * width + j] = best;
		}
	for (size_t i = 0, j = 0; rc == 0 && i < olds && j < news;) {
		float here = cost[i * width + j], pair = pair_cost(m, old[i], new[j]);
		if (here >= cost[(i + 1) * width + j + 1] + pair) {
			rc = add_entry(m, old[i], new[j]);
			i++;
			j++;
		} else if (here >= cost[(i + 1) * width + j] + COST_GAP) {
			i++;
		} else {
			j++;
		}
	}
	free(cost);
	return rc;
}

/* ---- rounds */

static int compare_sizes(const struct piece *a, const struct piece *b)
{
	double x = block_size(a), y = block_size(b);
	if (x == y) {
		x = blocks_of(&a->sum);
		y = blocks_of(&b->sum);
	}
	if (x == y) {
		x = a->sum.site;
		y = b->sum.site;
	}
	return (x > y) - (x < y);
}

static int in_order(const void *a, const void *b, void *ctx)
{
	const struct piece *x = *(struct piece *const *)a, *y = *(struct piece *const *)b;
	const struct matcher *m = ctx;
	int order = 0;
	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	if (m->round == PROFILE_MATCHED_STACK)
		order = stack_keys_compare_lines(m->keys, x->key.lines, y->key.lines);
	if (!order && m->round == PROFILE_MATCHED_STACK && x->via != y->via)
		order = x->via < y->via ? -1 : 1;
	return order ? order : compare_sizes(x, y);
}

/* The pieces of a side that are not matched yet and have a group, in order. */
static struct piece **left_over(struct matcher *m, struct side *s, size_t *count)
{
	struct piece **list = malloc(((size_t)s->count + 1) * sizeof *list);
	size_t n = 0;
	for (uint32_t i = 0; list && i < s->count; i++)
		if (!s->pieces[i].done && (s->pieces[i].group || m->round == PROFILE_MATCHED_STACK))
			list[n++] = &s->pieces[i];
	if (list)
		qsort_r(list, n, sizeof *list, in_order, m);
	*count = n;
	return list;
}

static size_t group_end(struct piece **list, size_t from, size_t count)
{
	size_t to = from;
	while (to < count && list[to]->group == list[from]->group)
		to++;
	return to;
}

static int match_groups(struct matcher *m)
{
	size_t olds, news, i = 0, j = 0;
	struct piece **old = left_over(m, &m->old, &olds), **new = left_over(m, &m->new, &news);
	int rc = old && new ? 0 : HEFT_ENOMEM;
	while (rc == 0 && i < olds && j < news) {
		if (old[i]->group != new[j]->group) {
			if (old[i]->group < new[j]->group)
				i = group_end(old, i, olds);
			else
				j = group_end(new, j, news);
			continue;
		}
		size_t i_end = group_end(old, i, olds), j_end = group_end(new, j, news);
		rc = align(m, old + i, i_end - i, new + j, j_end - j);
		i = i_end;
		j = j_end;
	}
	free(old);
	free(new);
	return rc;
}

static void group_by_stack(struct side *s)
{
	for (uint32_t i = 0; i < s->count; i++)
		s->pieces[i].group = s->pieces[i].key.whole;
}

static void group_by_user(struct side *s)
{
	for (uint32_t i = 0; i < s->count; i++)
		s->pieces[i].group = s->pieces[i].key.user;
}

/* Only pieces from which something is left out: the others were tried before. */
static void group_by_what_stays(struct side *s)
{
	for (uint32_t i = 0; i < s->count; i++) {
		struct piece *p = &s->pieces[i];
		p->group = p->without == p->key.user ? 0 : p->without;
	}
}

static int match_all(struct matcher *m)
{
	int rc;
	m->round = PROFILE_MATCHED_STACK;
	group_by_stack(&m->old);
	group_by_stack(&m->new);
	rc = match_groups(m);
	if (rc == 0) {
		m->round = PROFILE_MATCHED_USER;
		group_by_user(&m->old);
		group_by_user(&m->new);
		rc = match_groups(m);
	}
	if (rc == 0) {
		m->round = PROFILE_MATCHED_INLINED;
		group_by_what_stays(&m->old);
		rc = match_groups(m);
	}
	if (rc == 0) {
		group_by_user(&m->old);
		group_by_what_stays(&m->new);
		rc = match_groups(m);
	}
	m->round = PROFILE_MATCHED_STACK;
	for (uint32_t i = 0; rc == 0 && i < m->old.count; i++)
		if (!m->old.pieces[i].done)
			rc = add_entry(m, &m->old.pieces[i], NULL);
	for (uint32_t i = 0; rc == 0 && i < m->new.count; i++)
		if (!m->new.pieces[i].done)
			rc = add_entry(m, NULL, &m->new.pieces[i]);
	return rc;
}

/* ---- pieces */

static int by_key(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;
	return compare_numbers(x->key.whole, y->key.whole) ?: compare_numbers(x->key.lines, y->key.lines) ?: compare_numbers(x->via, y->via) ?: compare_numbers(x->sum.site, y->sum.site);
}

/* Whether every site names its allocation function. Files of other tools may not: then the function
 * does not distinguish stacks, on either side. */
static bool has_via(const struct profile *p)
{
	for (uint32_t i = 0; i < p->site_count; i++)
		if (p->sites[i].via >= PROFILE_VIA_COUNT)
			return false;
	return true;
}

/* To samples, a reallocation is an allocation of the new size. Exact numbers that are compared with
 * them are counted the same way. (If one call makes and resizes, its bytes are the least possible.) */
static void count_as_samples_do(struct profile_diff_side *s, const struct profile_site *site)
{
	struct profile_site *sums = &s->sums;
	sums->allocations += sums->reallocations;
	sums->reallocations = 0;
	if (sums->allocated_bytes < site->reallocated_bytes)
		sums->allocated_bytes = site->reallocated_bytes;
}

static int make_pieces(struct side *s, const struct stack_key *keys, bool via, bool beside_samples)
{
	const struct profile *p = s->p;
	s->pieces = calloc((size_t)p->site_count + 1, sizeof *s->pieces);
	if (!s->pieces)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->site_count; i++) {
		s->pieces[i].sum = side_of_site(p, i);
		if (beside_samples && !p->estimates.errors)
			count_as_samples_do(&s->pieces[i].sum, &p->sites[i]);
		s->pieces[i].via = via ? p->sites[i].via : PROFILE_VIA_UNKNOWN;
		if (p->sites[i].node != PROFILE_NONE)
			s->pieces[i].key = keys[p->sites[i].node];
	}
	qsort(s->pieces, p->site_count, sizeof *s->pieces, by_key);
	for (uint32_t i = 0; i < p->site_count; i++) {
		const struct piece *from = &s->pieces[i];
		struct piece *last = s->count ? &s->pieces[s->count - 1] : NULL;
		if (last && last->key.whole == from->key.whole &&
		    last->key.lines == from->key.lines && last->via == from->via)
			add_side(&last->sum, &from->sum);
		else
			s->pieces[s->count++] = *from;
	}
	return 0;
}

/* What would be left of each piece's stack (stack_keys_without). */
static int note_what_stays(struct matcher *m, struct side *s, unsigned which)
{
	const struct profile *p = s->p;
	uint32_t *paths = malloc(((size_t)p->stacks.node_count + 1) * sizeof *paths);
	int rc = paths ? stack_keys_without(m->keys, p, which, paths) : HEFT_ENOMEM;
	for (uint32_t i = 0; rc == 0 && i < s->count; i++) {
		uint32_t node = p->sites[s->pieces[i].sum.site].node;
		s->pieces[i].without = node == PROFILE_NONE ? 0 : paths[node];
	}
	free(paths);
	return rc;
}

static int load_sides(struct matcher *m)
{
	struct side *const sides[] = {&m->old, &m->new};
	bool via = has_via(m->old.p) && has_via(m->new.p);
	bool samples = m->old.p->estimates.errors || m->new.p->estimates.errors;
	int rc = 0;
	for (unsigned i = 0; rc == 0 && i < 2; i++) {
		const struct profile *p = sides[i]->p;
		struct stack_key *keys = malloc(((size_t)p->stacks.node_count + 1) * sizeof *keys);
		rc = keys ? stack_keys_add(m->keys, p, i, keys) : HEFT_ENOMEM;
		if (rc == 0)
			rc = make_pieces(sides[i], keys, via, samples);
		free(keys);
	}
	for (unsigned i = 0; rc == 0 && i < 2; i++)
		rc = note_what_stays(m, sides[i], i);
	return rc;
}

static struct profile_diff_side totals_of(const struct side *s)
{
	struct profile_diff_side sum = {.site = PROFILE_NONE};
	for (uint32_t i = 0; i < s->count; i++)
		add_side(&sum, &s->pieces[i].sum);
	set_errors(&sum, s->p, PROFILE_NONE); /* the total's own: less than the sum over sites */
	return sum;
}

static int set_per(struct profile_diff *d, const struct profile_per *per, struct heft_error *err)
{
	d->per = per ? *per : (struct profile_per){.unit = PROFILE_PER_RUN, .old = 1, .new = 1};
	if (d->per.unit == PROFILE_PER_SECOND) {
		d->per.old = (double)d->old->run.duration_ns / 1e9;
		d->per.new = (double)d->new->run.duration_ns / 1e9;
	}
	if (d->per.old > 0 && d->per.new > 0)
		return 0;
	return heft_fail(err, HEFT_EUSAGE, "%s",
			 d->per.unit == PROFILE_PER_SECOND
				 ? "a recording without a duration has no numbers per second"
				 : "there is nothing to divide by");
}

int profile_diff_new(struct profile_diff **out, const struct profile *old,
		     const struct profile *new, const struct profile_per *per,
		     struct heft_error *err)
{
	struct matcher m = {.old.p = old, .new.p = new};
	int rc = HEFT_ENOMEM;
	*out = NULL;
	m.keys = stack_keys_new();
	m.d = calloc(1, sizeof *m.d);
	if (!m.keys || !m.d)
		goto out;
	m.d->old = old;
	m.d->new = new;
	rc = set_per(m.d, per, err);
	if (rc < 0)
		goto out;
	rc = load_sides(&m);
	if (rc < 0)
		goto out;
	m.d->old_total = totals_of(&m.old);
	m.d->new_total = totals_of(&m.new);
	rc = match_all(&m);
out:
	stack_keys_free(m.keys);
	free(m.old.pieces);
	free(m.new.pieces);
	if (rc == HEFT_ENOMEM)
		heft_fail(err, rc, "not enough memory to compare %u with %u sites", old->site_count,
			  new->site_count);
	if (rc < 0) {
		profile_diff_free(m.d);
		return rc;
	}
	*out = m.d;
	return 0;
}

void profile_diff_free(struct profile_diff *d)
{
	if (!d)
		return;
	free(d->entries);
	free(d);
}
