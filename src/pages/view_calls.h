/* Call stacks added up into one tree of functions, from main down or from the allocation up, of one
 * profile or of two to compare; and that tree as a document, its small parts put together. */
#ifndef HEFT_PAGES_VIEW_CALLS_H
#define HEFT_PAGES_VIEW_CALLS_H

#include "hosted/hash_index.h"
#include "hosted/json_writer.h"
#include "hosted/vector.h"
#include "profile/profile.h"
#include "pages/view_query.h"

/* ---- functions: frames of the same function and module are one */

struct view_function {
	const char *function, *module;           /* the module without folders */
	const struct profile *p;                 /* of the frame that stands for it */
	uint32_t frame;                          /* PROFILE_NONE: stack unknown, or a process */
	uint64_t weight;                         /* of that frame */
	const struct profile_label_set *process; /* no function, but processes; NULL: it is one */
};

struct view_functions {
	struct view_function *items;
	uint32_t count, capacity;
	struct hash_index index; /* by function and module */
};

void view_functions_fini(struct view_functions *f);
/* Adds the functions of a profile: *ids gets the function of each frame, free() it. values (by site)
 * decide which frame stands for a function: the greatest. 0 or HEFT_ENOMEM. */
int view_functions_add(struct view_functions *f, const struct profile *p, const uint64_t *values,
		       uint32_t **ids);

/* One that stands for processes, at the root of their stacks. 0 or HEFT_ENOMEM. */
int view_functions_add_process(struct view_functions *f, const struct profile_label_set *process,
			       uint32_t *id);

/* ---- the tree */

struct view_call {
	uint32_t parent;   /* a smaller index; node 0 is the root */
	uint32_t function; /* of the functions; PROFILE_NONE: of the root, or not known */
	uint32_t stacks;   /* that end here or below */
	uint32_t cut_stacks;
	uint64_t self, total;
	uint64_t cut;             /* of total: of stacks that go on, but not in this tree */
	uint64_t before;          /* of the other profile, with everything below */
	double lifetimes, blocks; /* sum of the lifetimes of so many blocks */
};

struct view_calls {
	struct view_functions functions;
	struct view_call *items;
	uint32_t count, capacity, most; /* no more nodes than that */
	struct hash_index index;        /* by parent and function */
	VECTOR(uint32_t) path;          /* nodes of the profile */
	uint32_t outermost; /* which all stacks that are added begin with; PROFILE_NONE: nothing */
	const struct profile *reached_of;
	uint32_t *reached; /* by its nodes: where they are in the tree from main down; 0: not yet */
};

/* What a stack adds */
struct view_amount {
	uint64_t value, before;
	double lifetimes, blocks;
};

/* most: nodes that it may have; larger stacks should come first, what comes too late is counted
 * where it leaves the tree. */
int view_calls_init(struct view_calls *c, uint32_t most);
void view_calls_fini(struct view_calls *c);
/* The frames from `node` outwards up to and without `end` (PROFILE_NONE: all). inward: the outermost
 * is next to the root, else the innermost. ids: the function of each frame. */
int view_calls_add(struct view_calls *c, const struct profile *p, const uint32_t *ids,
		   uint32_t node, uint32_t end, bool inward, const struct view_amount *amount);
/* Adds up what is below each node; once, after the last stack. */
void view_calls_settle(struct view_calls *c);

struct view_tree_shape {
	uint32_t limit;   /* nodes that are shown */
	const char *root; /* "3.0.12": which child of which child; NULL: everything */
	const char *unit;
	bool lifetimes; /* `other` is the mean lifetime */
	bool compared;  /* `other` is the change; with `before` */
	bool has_error;
	uint64_t error;
};
/* The Tree as a value; `before`, if compared, follows it as another member. HEFT_ENOTFOUND: no such
 * root. */
int view_calls_write(const struct view_calls *c, struct json_writer *w, const struct view_query *q,
		     const struct view_tree_shape *shape, struct heft_error *err);

#endif
