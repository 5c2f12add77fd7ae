/* Most formats have stacks of frames and no way to say "60,000 times". So the model is folded for them:
 * the frames "[recursion]" and "[frames cut]" stand in the stacks where frames are left out, and sites
 * whose stacks become the same become one, with the sums of their measures. "[recursion]" is the caller
 * of the frames that repeat, so that the innermost frame is always one of the program's.
 *
 * Only frames, nodes and sites are new. Modules, processes, threads and history are those of the
 * profile that was folded, which must live as long. Behaviour belongs to single sites and is left
 * out. An own peak is the sum of those merged: an upper bound, as everywhere where stacks merge.
 *
 * Invariant: sums over the sites are what they were. */
#include "profile/folded_profile.h"

#include "hosted/saturating.h"
#include "profile/measure.h"
#include "profile/stack_fold.h"

#include <stdlib.h>
#include <string.h>

struct building {
	const struct profile *p;
	struct profile *own;
	struct stack_fold fold;
	uint32_t *sites;         /* of `own`, by those of p */
	uint32_t recursion, cut; /* frames */
};

static int copy_frames(struct building *b)
{
	uint32_t count = b->p->stacks.frame_count;
	struct profile_frame *frames = malloc(((size_t)count + 2) * sizeof *frames);
	if (!frames)
		return HEFT_ENOMEM;
	if (count)
		memcpy(frames, b->p->stacks.frames, count * sizeof *frames);
	b->recursion = count;
	b->cut = count + 1;
	frames[b->recursion] = (struct profile_frame){.function = STACK_RECURSION,
						      .module = PROFILE_NONE};
	frames[b->cut] = (struct profile_frame){.function = STACK_CUT, .module = PROFILE_NONE};
	b->own->stacks.frames = frames;
	b->own->stacks.frame_count = count + 2;
	return 0;
}

/* The folded stack of a node, as a node of our own. */
static int add_stack(struct building *b, uint32_t node, uint32_t *id)
{
	struct stack_entry entries[STACK_MOST];
	bool begins[STACK_MOST + 1] = {false}; /* a recursion's outermost entry */
	struct stack_walk w;
	size_t count = 0;
	int rc = 0;
	for (stack_walk_begin(&w, &b->fold, node);
	     count < STACK_MOST && stack_walk_next(&w, &entries[count]); count++)
		if (entries[count].times > 1 && count + entries[count].cycle <= STACK_MOST)
			begins[count + entries[count].cycle - 1] = true;
	*id = PROFILE_NONE;
	while (count-- > 0 && rc == 0) {
		const struct profile_node *n = &b->p->stacks.nodes[entries[count].node];
		if (entries[count].cut)
			rc = profile_add_node(b->own, *id, b->cut, 0, id);
		if (rc == 0 && begins[count])
			rc = profile_add_node(b->own, *id, b->recursion, 0, id);
		if (rc == 0)
			rc = profile_add_node(b->own, *id, n->frame, n->flags, id);
		if (rc == 0 && !b->own->stacks.nodes[*id].address)
			b->own->stacks.nodes[*id].address = n->address;
	}
	return rc;
}

/* How many blocks the mean lifetime of a site is made of. */
static uint64_t ended(const struct profile_site *s)
{
	uint64_t blocks = saturating_add(s->frees, s->live_blocks);
	return blocks ? blocks : s->allocations;
}

static void merge_lifetimes(struct profile_lifetime *a, uint64_t a_count,
			    const struct profile_lifetime *b, uint64_t b_count)
{
	unsigned __int128 all = (unsigned __int128)a->mean_ns * a_count +
				(unsigned __int128)b->mean_ns * b_count;
	uint64_t count = saturating_add(a_count, b_count);
	if (count)
		a->mean_ns = (uint64_t)(all / count);
	/* Quantiles of both together are not known; no format here shows them. */
	a->p50_ns = a->p50_ns > b->p50_ns ? a->p50_ns : b->p50_ns;
	a->p99_ns = a->p99_ns > b->p99_ns ? a->p99_ns : b->p99_ns;
	a->max_ns = a->max_ns > b->max_ns ? a->max_ns : b->max_ns;
}

static void merge_site(struct profile_site *a, const struct profile_site *b)
{
	merge_lifetimes(&a->lifetime, ended(a), &b->lifetime, ended(b));
	a->id = !a->id || b->id < a->id ? b->id : a->id;
	measure_add_sums(a, b);
}

static void merge_buckets(uint32_t *a, const uint32_t *b)
{
	for (int i = 0; i < PROFILE_LIFE_BUCKETS; i++)
		a[i] = b[i] > UINT32_MAX - a[i] ? UINT32_MAX : a[i] + b[i];
}

static int add_sites(struct building *b)
{
	const struct profile *p = b->p;
	b->sites = malloc(((size_t)p->site_count + 1) * sizeof *b->sites);
	int rc = b->sites ? 0 : HEFT_ENOMEM;
	if (p->behaviour.lifetimes) {
		b->own->behaviour.lifetimes = calloc((size_t)p->site_count + 1,
						     sizeof *b->own->behaviour.lifetimes);
		if (!b->own->behaviour.lifetimes)
			rc = HEFT_ENOMEM;
	}
	for (uint32_t i = 0; i < p->site_count && rc == 0; i++) {
		const struct profile_site *s = &p->sites[i];
		uint32_t node = PROFILE_NONE, site;
		if (s->node != PROFILE_NONE)
			rc = add_stack(b, s->node, &node);
		if (rc == 0)
			rc = profile_add_labelled_site(b->own, node, s->via, s->labels, &site);
		if (rc == 0) {
			merge_site(&b->own->sites[site], s);
			b->sites[i] = site;
		}
		if (rc == 0 && p->behaviour.lifetimes)
			merge_buckets(b->own->behaviour.lifetimes[site], p->behaviour.lifetimes[i]);
	}
	return rc;
}

static struct profile *make_view(const struct building *b)
{
	struct profile *view = malloc(sizeof *view);
	if (!view)
		return NULL;
	*view = *b->p;
	view->index = NULL;
	view->stacks.frames = b->own->stacks.frames;
	view->stacks.frame_count = b->own->stacks.frame_count;
	view->stacks.nodes = b->own->stacks.nodes;
	view->stacks.node_count = b->own->stacks.node_count;
	view->sites = b->own->sites;
	view->site_count = b->own->site_count;
	view->behaviour.lifetimes = b->own->behaviour.lifetimes;
	view->estimates.errors = NULL;
	view->estimates.spreads = NULL;
	view->estimates.ages = NULL;
	view->recorded.nodes = view->recorded.sites = NULL;
	view->estimates.live_births = view->estimates.peak_births = (struct profile_births){0};
	view->behaviour.handover_count = view->behaviour.handover_threads_count = 0;
	view->behaviour.wait_count = view->behaviour.wait_threads_count = 0;
	view->behaviour.release_count = view->behaviour.growth_count =
		view->behaviour.history.row_count = 0;
	return view;
}

int folded_profile_init(struct folded_profile *f, const struct profile *p, bool from_leaf)
{
	struct building b = {.p = p};
	*f = (struct folded_profile){0};
	int rc = stack_fold_init(&b.fold, p, from_leaf ? STACK_TREE_INVERTED : STACK_TREE, NULL);
	if (rc == 0 && b.fold.form != STACK_WHOLE) {
		b.own = profile_new();
		rc = b.own ? copy_frames(&b) : HEFT_ENOMEM;
		if (rc == 0)
			rc = add_sites(&b);
		if (rc == 0) {
			f->view = make_view(&b);
			rc = f->view ? 0 : HEFT_ENOMEM;
		}
		f->own = b.own;
		f->sites = b.sites;
	}
	stack_fold_fini(&b.fold);
	if (rc < 0)
		folded_profile_fini(f);
	return rc;
}

void folded_profile_fini(struct folded_profile *f)
{
	profile_free(f->own);
	free(f->sites);
	free(f->view);
	*f = (struct folded_profile){0};
}
