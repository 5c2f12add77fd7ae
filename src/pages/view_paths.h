/* The source files that a profile names: the only ones that are ever read. */
#ifndef HEFT_PAGES_VIEW_PATHS_H
#define HEFT_PAGES_VIEW_PATHS_H

#include "profile/profile.h"

struct view_paths {
	const char **items;
	uint32_t count;
	uint32_t *by_frame; /* index of the frame's file, or PROFILE_NONE */
};

int view_paths_of(struct view_paths *paths, const struct profile *p); /* 0 or HEFT_ENOMEM */
void view_paths_fini(struct view_paths *paths);

/* Whether the text of a named file can be shown. */
bool view_path_readable(const char *path);
/* Its text, free() it, and when it was last changed. NULL: there is none, and *words (static) says
 * why. The caller has seen that the recording names it. */
char *view_path_read(const char *path, size_t *length, int64_t *changed_unix_ns,
		     const char **words);

#endif
