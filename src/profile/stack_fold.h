/* Stacks as files show them: whole up to STACK_MOST frames; above that recursion is folded, and what
 * is still longer is cut in the middle. */
#ifndef HEFT_PROFILE_STACK_FOLD_H
#define HEFT_PROFILE_STACK_FOLD_H

#include "profile/profile.h"

enum {
	STACK_MOST =
		256, /* entries of a stack that is shown, and frames of one that is not folded */
	STACK_LONG_SIDE =
		193, /* of a cut stack at least so many entries on the side that matters, ... */
	STACK_SHORT_SIDE = 31, /* ... and so many on the other */
};

#define STACK_RECURSION "[recursion]"   /* where a tree has folded frames */
#define STACK_CUT "[frames cut]"        /* where a tree has none of the frames */
#define STACK_UNKNOWN "[stack unknown]" /* the one frame of a site without a stack */

/* One line of a stack that is shown. */
struct stack_entry {
	uint32_t node;
	/* > 1: this entry and the `cycle - 1` ones after it (its callers) come so often in turn */
	uint32_t times, cycle;
	uint32_t cut; /* frames left out between this entry and the next */
};

enum stack_form {
	STACK_WHOLE, /* nothing is left out */
	STACK_LIST, /* for a list of stacks: innermost frames matter; only deep stacks are folded */
	STACK_TREE, /* for a tree from the outermost frame: all are folded if one is deep, so that
			   stacks that differ in their depth alone meet */
	STACK_TREE_INVERTED,
};

struct stack_state;

struct stack_fold {
	const struct profile *p;
	enum stack_form form;       /* STACK_WHOLE also if no stack of the profile is deep */
	struct stack_state *states; /* by node; NULL if the form is whole */
};

/* keys[frame]: frames with equal keys are the same to whoever reads the output; NULL: only a frame
 * itself is. It must outlive this call only. 0 or HEFT_ENOMEM. */
int stack_fold_init(struct stack_fold *f, const struct profile *p, enum stack_form form,
		    const uint32_t *keys);
void stack_fold_fini(struct stack_fold *f);
/* Frames of the recorded stack. */
uint32_t stack_fold_depth(const struct stack_fold *f, uint32_t node);
/* Something is left out of this stack. */
bool stack_fold_applies(const struct stack_fold *f, uint32_t node);

/* From the innermost entry out:
 * for (stack_walk_begin(&w, f, site->node); stack_walk_next(&w, &entry);) */
struct stack_walk {
	const struct stack_fold *f;
	uint32_t next; /* node, or PROFILE_NONE */
	bool folded;
	uint32_t listed, open; /* entries so far; the first one after the cycles that are begun */
	bool cut;
};
void stack_walk_begin(struct stack_walk *w, const struct stack_fold *f, uint32_t node);
bool stack_walk_next(struct stack_walk *w, struct stack_entry *entry);

#endif
