/* The functions of a profile, or of two to compare: what the calls of a tree (call_tree.h) and the rows
 * of a table of functions are. Frames of one function and module are one. */
#ifndef HEFT_PROFILE_CALL_FUNCTIONS_H
#define HEFT_PROFILE_CALL_FUNCTIONS_H

#include "hosted/hash_index.h"
#include "profile/profile.h"

struct call_function {
	const char *function, *module;           /* the module without folders */
	const struct profile *p;                 /* of the frame that stands for it */
	uint32_t frame;                          /* the heaviest; PROFILE_NONE: a process */
	uint64_t weight;                         /* of that frame */
	const struct profile_label_set *process; /* no function, but processes; NULL: it is one */
	/* What all its frames have in common that are on a stack with a value */
	const char *file; /* NULL: nothing */
	uint32_t line;    /* 0: nothing */
	bool inlined, seen;
};

struct call_functions {
	struct call_function *items;
	uint32_t count, capacity;
	struct hash_index index; /* by function and module */
};

void call_functions_fini(struct call_functions *f);
/* Adds the functions of a profile: *ids gets the function of each frame, free() it. values (by site)
 * decide which frame stands for a function: the heaviest. 0 or HEFT_ENOMEM. */
int call_functions_add(struct call_functions *f, const struct profile *p, const uint64_t *values,
		       uint32_t **ids);
/* The same, but each frame is by itself: calls from different lines stay apart. */
int call_functions_add_places(struct call_functions *f, const struct profile *p, uint32_t **ids);
/* One that stands for processes, at the root of their stacks. 0 or HEFT_ENOMEM. */
int call_functions_add_process(struct call_functions *f, const struct profile_label_set *process,
			       uint32_t *id);

#endif
