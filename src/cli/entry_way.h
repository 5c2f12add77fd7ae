/* Starting a command with hooks at the entries of its allocator's functions (record/launch.h: LAUNCH_ENTRY). */
#ifndef HEFT_CLI_ENTRY_WAY_H
#define HEFT_CLI_ENTRY_WAY_H

#include "attach/attach.h"
#include "record/recorder.h"

#include <stdbool.h>

struct entry_way {
	struct recorder_entry recorder;
	struct recorder_holder holder;
	const struct recorder_options *options;
	struct attached *attached;
	/* Of the command itself, not of what it executes (--alloc-fn); NULL: none */
	const struct attach_functions *functions;
	char blob[4096];
	char unseen[800]; /* a sentence about functions that could not be hooked */
};

/* Makes o->holder ready, and o->entry if the plan wants it; w stays as long as o. */
int entry_way_init(struct entry_way *w, struct recorder_options *o, struct heft_error *err);
/* What the plan does, for the user; "": nothing that would have to be said. */
void entry_way_words(const struct launch_plan *plan, char *text, size_t size);

/* After a refusal with rc and *err: a program with an allocator of its own can be recorded without, unless the user
 * wants hooks. Then says why, makes the plan one that preloads, and returns true. */
bool entry_way_give_up(struct recorder_options *o, struct launch_plan *plan, int rc, bool quiet,
		       const struct heft_error *err);

#endif
