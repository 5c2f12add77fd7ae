/* Call stacks added up into one tree: for `heft report --tree`, flame graphs, folded stacks, speedscope,
 * and the trees, sandwiches and comparisons of the page.
 *
 * What it offers:
 *   - Any numbers. A stack adds a value, and with CALL_TREE_DETAILS also what a profile that is
 *     compared has, lifetimes and errors. So a tree is of a measure, of a window, of a diff.
 *   - The shapes of enum call_tree_options: from main down or from the allocation up, functions or
 *     places, with or without the runtime's frames and recursion. Deep recursion is folded in the
 *     profile, before (folded_profile.h).
 *   - Whole stacks or parts of them; processes as outermost calls, where sites are apart by process.
 *   - Sums: what a call has by itself, and with everything below it. They saturate.
 *   - An order: siblings stand greatest first. Of equal ones the one that was added first is first; whoever
 *     adds the greatest stacks first (call_rank_sites) gets the same order everywhere.
 *   - A part of it that is shown: the greatest calls (call_tree_keep), read in order by call_walk, which
 *     also says what was left out of each call.
 *
 * To use it: call_tree_init, call_stacks_init for each profile, call_tree_add for each stack,
 * call_tree_finish; or call_tree_of, which does all of it. */
#ifndef HEFT_PROFILE_CALL_TREE_H
#define HEFT_PROFILE_CALL_TREE_H

#include "hosted/vector.h"
#include "profile/call_functions.h"
#include "profile/measure.h"

enum call_tree_options {
	CALL_TREE_INVERTED =
		1, /* from the allocating function up; else from the outermost call down */
	CALL_TREE_PLACES = 2, /* calls from different lines of a function are different ones */
	/* Frames of the runtime are left out. A stack without any other keeps its innermost. */
	CALL_TREE_USER = 4,
	/* A function that is already on the path opens no new level but goes on from where it was first
	 * met: the tree of a parser is as deep as its grammar and not as its input. */
	CALL_TREE_MERGED = 8,
	CALL_TREE_DETAILS = 16, /* with struct call_detail */
};

enum { CALL_TREE_ANY_SIZE = 1 << 30 };

struct call_node {
	uint32_t parent; /* a smaller index; node 0 is the root, above the outermost calls */
	uint32_t
		function; /* of the functions; PROFILE_NONE: of the root, or the stack is not known */
	uint32_t stacks; /* that end here or below */
	bool recursive;  /* it calls itself, and that was merged */
	uint64_t self, total;
};

struct call_detail {
	uint64_t before;          /* of the other profile, with everything below */
	double lifetimes, blocks; /* sum of the lifetimes of so many blocks, likewise */
	double spread; /* squares of 95 % errors, which add up as variances do; likewise */
	uint64_t cut;  /* of total: of stacks that go on, but not in this tree */
	uint32_t cut_stacks;
};

struct call_tree {
	unsigned options;
	struct call_functions functions;
	struct call_node *nodes;
	struct call_detail *details; /* by node; NULL: without */
	uint32_t count, capacity, detail_capacity;
	uint32_t most;           /* no more nodes than that */
	struct hash_index index; /* by parent and function; until it is finished */
	VECTOR(uint32_t) path;   /* nodes of the profile; likewise */
	uint32_t
		outermost; /* function which all stacks begin with that are added; PROFILE_NONE: nothing */
	/* When it is finished: the children of node i are children[first[i]] up to first[i + 1], greatest
	 * first, and children[place[i]] == i. */
	uint32_t *first, *children, *place;
};

/* A profile whose stacks are added to a tree. */
struct call_stacks {
	const struct profile *p;
	uint32_t *ids;       /* functions by frame */
	uint32_t *processes; /* functions by label set; NULL: sites are not apart by process */
	uint32_t *reached;   /* by node: where it is in the tree, + 1; 0: not yet. NULL: not kept */
};

/* What a stack adds */
struct call_amount {
	uint64_t value, before;
	double lifetimes, blocks, spread;
};

/* most: nodes that it may have. Larger stacks should come first; what comes too late is counted where it
 * leaves the tree. All that return int: 0 or HEFT_ENOMEM. */
int call_tree_init(struct call_tree *t, unsigned options, uint32_t most);
void call_tree_fini(struct call_tree *t);

/* values: of the sites; they decide which frame stands for a function. */
int call_stacks_init(struct call_stacks *s, struct call_tree *t, const struct profile *p,
		     const uint64_t *values);
void call_stacks_fini(struct call_stacks *s);

/* Adds the frames from `node` outwards up to and without `end` (PROFILE_NONE: all). */
int call_tree_add(struct call_tree *t, struct call_stacks *s, uint32_t node, uint32_t end,
		  const struct call_amount *amount);
/* Adds the stack of a site; below its process, where sites are apart by process (chosen.by_process). */
int call_tree_add_site(struct call_tree *t, struct call_stacks *s, uint32_t site,
		       const struct call_amount *amount);
/* Adds the stacks of sites to an inverted tree, but nothing above a call that has less than `least`: there the stacks
 * are cut. amounts: by place in the list of sites. */
int call_tree_add_upwards(struct call_tree *t, struct call_stacks *s, const uint32_t *sites,
			  const struct call_amount *amounts, uint32_t count, uint64_t least);
/* Adds up what is below each node, and orders children. Once, after the last stack. */
int call_tree_finish(struct call_tree *t);

/* The sites that have a value, greatest first; free() it. NULL: no memory. */
uint32_t *call_rank_sites(const struct profile *p, const uint64_t *values, uint32_t *count);
/* A finished tree of all sites by what stacks have of a measure (measure_of_stack). On failure there is
 * nothing to free. */
int call_tree_of(struct call_tree *t, const struct profile *p, enum measure_id measure,
		 unsigned options);

/* ---- reading a finished tree */

/* Compares two numbers of nodes, for qsort_r. */
int call_tree_greatest_first(const void *a, const void *b, void *tree);
/* What a node is called; never NULL, never empty. */
const char *call_tree_name(const struct call_tree *t, uint32_t node);

/* Marks of the greatest nodes below `root`: at most `most`, each of at least `least`; by node, free()
 * it. *left_out: how many others are of that size. A node is never greater than its parent, so what is marked is a tree, and of a node's children
 * the first ones are marked. NULL: no memory. */
bool *call_tree_keep(const struct call_tree *t, uint32_t root, uint32_t most, uint64_t least,
		     uint32_t *left_out);

/* From the root down: a call, then what is below it, siblings in order; without recursion, since stacks
 * are as deep as programs make them.
 *
 *	struct call_walk w = {.t = &t, .root = 0, .kept = kept};
 *	while (call_walk_step(&w))
 */
struct call_walk {
	const struct call_tree *t;
	uint32_t root;
	const bool *kept; /* only these and the root; NULL: all */
	bool begun;
	bool left;            /* the step leaves the node; else it enters it */
	uint32_t node, depth; /* of the root: 0 */
	uint32_t rest; /* if left: the node's children from children[rest] on were not entered */
};
bool call_walk_step(struct call_walk *w);

/* ---- for call_tree_up.c */

/* From `at` by one call. *to: where it leads, PROFILE_NONE if the tree may have no more nodes; not above `at` if it was
 * merged. */
int call_tree_enter(struct call_tree *t, uint32_t at, uint32_t function, bool merge, uint32_t *to);
/* Adds what so many stacks have that end here (cut: that go on, but not in this tree). */
void call_tree_add_at(struct call_tree *t, uint32_t at, bool cut, uint32_t stacks,
		      const struct call_amount *amount);
/* The function which the stack of a site begins with: its process; PROFILE_NONE: none. */
uint32_t call_stacks_outermost(const struct call_stacks *s, uint32_t site);

#endif
