/* A stack counts once for a group, however often it passes through: what is below the outermost node
 * of a group is all that the group has there. So the tree of nodes is walked once, depth first, with a
 * count of how many nodes of each group stand on the way down, and the cost is that of the nodes. (Stack
 * by stack it would be that of all frames: 90 million for 3,000 stacks of a deep recursion.) */
#include "pages/view_sums.h"

#include <stdlib.h>

struct walk {
	uint64_t *below;           /* by node: values of stacks through it */
	uint32_t *child, *sibling; /* by node: the first one, the next one */
	uint32_t *open;            /* by group: its nodes on the way down */
};

static int walk_init(struct walk *x, const struct profile *p, uint32_t groups)
{
	size_t nodes = (size_t)p->stacks.node_count + 1;
	x->below = calloc(nodes, sizeof *x->below);
	x->child = malloc(nodes * sizeof *x->child);
	x->sibling = malloc(nodes * sizeof *x->sibling);
	x->open = calloc((size_t)groups + 1, sizeof *x->open);
	return x->below && x->child && x->sibling && x->open ? 0 : HEFT_ENOMEM;
}

static void walk_fini(struct walk *x)
{
	free(x->below);
	free(x->child);
	free(x->sibling);
	free(x->open);
}

/* Links children and adds up; returns the first root. Callees have greater numbers. */
static uint32_t link_nodes(struct walk *x, const struct profile *p)
{
	uint32_t root = PROFILE_NONE;
	for (uint32_t i = 0; i < p->stacks.node_count; i++)
		x->child[i] = PROFILE_NONE;
	for (uint32_t i = p->stacks.node_count; i-- > 0;) {
		if (!x->below[i]) /* adds nothing, nor does anything below it */
			continue;
		uint32_t parent = p->stacks.nodes[i].parent;
		uint32_t *list = parent == PROFILE_NONE ? &root : &x->child[parent];
		x->sibling[i] = *list;
		*list = i;
		if (parent != PROFILE_NONE)
			x->below[parent] += x->below[i];
	}
	return root;
}

int view_add_up(struct view_sums *sums, uint32_t count, const struct profile *p,
		const uint64_t *values, const uint32_t *groups)
{
	struct walk x;
	int rc = walk_init(&x, p, count);
	for (uint32_t i = 0; i < p->site_count && rc == 0; i++) {
		uint32_t node = p->sites[i].node;
		if (node == PROFILE_NONE)
			continue;
		x.below[node] += values[i];
		uint32_t group = groups[p->stacks.nodes[node].frame];
		if (group < count)
			sums[group].self += values[i];
	}
	uint32_t node = rc == 0 ? link_nodes(&x, p) : PROFILE_NONE;
	while (node != PROFILE_NONE) {
		uint32_t group = groups[p->stacks.nodes[node].frame];
		if (group < count && x.open[group]++ == 0)
			sums[group].total += x.below[node];
		if (x.child[node] != PROFILE_NONE) {
			node = x.child[node];
			continue;
		}
		for (;;) { /* out of all that end here, to what is beside */
			group = groups[p->stacks.nodes[node].frame];
			if (group < count)
				x.open[group]--;
			if (x.sibling[node] != PROFILE_NONE) {
				node = x.sibling[node];
				break;
			}
			node = p->stacks.nodes[node].parent;
			if (node == PROFILE_NONE)
				break;
		}
	}
	walk_fini(&x);
	return rc;
}
