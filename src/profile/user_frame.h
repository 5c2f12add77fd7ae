/* Which frames are the user's own, and which belong to the machinery under every program: decided
 * by rules, which are data (user_frame.rules has the built-in ones and explains the format). */
#ifndef HEFT_PROFILE_USER_FRAME_H
#define HEFT_PROFILE_USER_FRAME_H

#include "hosted/error.h"
#include "profile/profile.h"

#include <stdbool.h>
#include <stddef.h>

struct frame_rules;

/* The built-in rules, to add to. 0 or HEFT_ENOMEM. */
int frame_rules_new(struct frame_rules **out);
void frame_rules_free(struct frame_rules *r);
/* Adds rules: later ones win. `name` is how messages call the text, which may hold anything.
 * 0, HEFT_ENOMEM, or HEFT_EFORMAT with "NAME:LINE: what was expected". */
int frame_rules_add_text(struct frame_rules *r, const char *name, const char *text, size_t length,
			 struct heft_error *err);
/* The same from a file; HEFT_ENOTFOUND if there is none. */
int frame_rules_add_file(struct frame_rules *r, const char *path, struct heft_error *err);

/* What the last rule that matches a frame says. */
enum frame_fold {
	FRAME_NOT_SAID, /* no rule matches: it is the user's */
	FRAME_KEPT,     /* the user's */
	FRAME_FOLDED,
	FRAME_PLUMBING, /* folded, but it names a stack that has nothing of the user's */
};
enum frame_fold frame_rules_decide(const struct frame_rules *r, const char *module,
				   const char *function, const char *file);
/* True: folded away. Each of the three may be NULL: not known. */
bool frame_rules_fold(const struct frame_rules *r, const char *module, const char *function,
		      const char *file);
/* Decides again, with these rules, for every frame of a profile that was loaded by the built-in
 * ones, and finds its own wrappers again. */
void frame_rules_apply(const struct frame_rules *r, struct profile *p);

/* By the built-in rules alone: libc, the dynamic linker, an allocator, a C++ or Rust runtime
 * library, heft itself. */
bool user_frame_module_is_runtime(const char *path);
/* The same for runtime code that is compiled into the program (templates, Rust's std, operator
 * new), and well-known wrappers around malloc. */
bool user_frame_is_runtime(const char *function, const char *file);
/* Finds the machinery that only the whole profile shows: the program's own wrappers around malloc
 * (wrapper_frames.h), and an interpreter whose functions have frames of their own. Call it after the
 * rules, when the sites have their numbers. */
void user_frame_find_machinery(struct profile *p);
/* Sets what a frame is by the built-in rules. */
void user_frame_decide(struct profile_frame *f, bool runtime_module);

#endif
