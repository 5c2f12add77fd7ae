/* A program's own wrappers around malloc, found by what they do. */
#ifndef HEFT_PROFILE_WRAPPER_FRAMES_H
#define HEFT_PROFILE_WRAPPER_FRAMES_H

#include "profile/profile.h"

/* Folds the frames of wrappers away (profile_frame.user, .wrapper). Call when the sites have their
 * numbers and the rules have decided; a frame that a rule keeps is left as it is. Without memory
 * for it the wrappers are not found, which is no error. */
void wrapper_frames_find(struct profile *p);

/* What a function's name says about it. Here for the tests. */
enum wrapper_name {
	WRAPPER_NAME_PLAIN,    /* nothing */
	WRAPPER_NAME_OBJECT,   /* that it makes something of its own: node_new, list_append */
	WRAPPER_NAME_NONE,     /* it has none: "module+0x12" */
	WRAPPER_NAME_HINT,     /* alloc_row, buffer_grow: perhaps for others, perhaps its own */
	WRAPPER_NAME_LIKELY,   /* pool_alloc */
	WRAPPER_NAME_MALLOC,   /* Arena::alloc, my_malloc, safe_strdup */
	WRAPPER_NAME_OPERATOR, /* Node::operator new: always */
};
enum wrapper_name wrapper_name_of(const char *function, bool has_file);

#endif
