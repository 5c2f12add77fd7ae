/* Inside src/export: the sites of a profile as one tree of functions with a number at each. */
#ifndef HEFT_EXPORT_EXPORT_TREE_H
#define HEFT_EXPORT_EXPORT_TREE_H

#include "export/export.h"

struct export_tree_node {
	uint32_t parent;       /* always a smaller index; PROFILE_NONE: a root */
	uint32_t frame;        /* stands for all of its function; PROFILE_NONE: stack unknown */
	uint64_t self, total;  /* of stacks that end here; of those and all below */
	uint32_t first, count; /* its children in export_tree.children */
};

/* What all frames of one function have in common: indexed by the frame that stands for them. */
struct export_tree_function {
	const char *file; /* NULL: not known, or not the same in all */
	uint32_t line;    /* 0: likewise */
	bool inlined;     /* in all */
	bool seen;        /* the rest is filled */
};

struct export_tree {
	const struct profile *p;
	struct export_tree_node *nodes; /* sites that have none of the measure are not in it */
	uint32_t node_count;
	uint32_t *children; /* greatest first; those of the roots are the first root_count */
	uint32_t root_count;
	struct export_tree_function *functions; /* frame_count of them */
	uint64_t total;
};

/* Frames of the same function and module are one, whatever their line. invert: the roots are the
 * innermost frames. 0 or HEFT_ENOMEM (told). */
int export_tree_init(struct export_tree *t, const struct profile *p, enum measure_id measure,
		     bool invert, struct heft_error *err);
void export_tree_fini(struct export_tree *t);
/* Of a node: never NULL. */
const char *export_tree_name(const struct export_tree *t, uint32_t node);

#endif
