/* A program's own wrappers around malloc, found by what they do. */
#ifndef HEFT_PROFILE_WRAPPER_FRAMES_H
#define HEFT_PROFILE_WRAPPER_FRAMES_H

#include "profile/profile.h"

/* Folds the frames of wrappers away (profile_frame.user, .wrapper). Call when the sites have their
 * numbers and the rules have decided; a frame that a rule keeps is left as it is. Without memory
 * for it the wrappers are not found, which is no error. */
void wrapper_frames_find(struct profile *p);

#endif
