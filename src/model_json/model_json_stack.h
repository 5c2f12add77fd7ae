/* Stacks in JSON, for reports and comparisons: whole, or folded and cut. */
#ifndef HEFT_MODEL_JSON_MODEL_JSON_STACK_H
#define HEFT_MODEL_JSON_MODEL_JSON_STACK_H

#include "hosted/json_writer.h"
#include "profile/stack_fold.h"

struct json_stacks {
	const struct profile *p;
	struct stack_fold fold;
	bool compact;   /* stacks are numbers of frames, which stand in a table */
	char *text;     /* every frame's object up to its flags */
	size_t *starts; /* in it, by frame; one more at the end */
};

/* full: nothing is folded or cut. 0 or HEFT_ENOMEM. */
int json_stacks_init(struct json_stacks *s, const struct profile *p, bool full, bool compact);
void json_stacks_fini(struct json_stacks *s);

/* "key": [frames], innermost first. Where something is left out also, after `prefix`: "depth" (frames
 * that were recorded), "recursion" and "cut", which say what stands for how much. call: the site's, for
 * addresses. Returns where in the list the first user frame stands. */
uint32_t json_stacks_write(const struct json_stacks *s, struct json_writer *w, const char *key,
			   const char *prefix, uint32_t node, uint32_t call);
/* "frames": [objects], if compact: all that stacks number. */
void json_stacks_write_table(const struct json_stacks *s, struct json_writer *w);

#endif
