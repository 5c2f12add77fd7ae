/* What will happen if a command is run: found out beforehand, so that what heft cannot record is
 * refused with its reason and a way out instead of producing an empty recording. */
#ifndef HEFT_RECORD_LAUNCH_H
#define HEFT_RECORD_LAUNCH_H

#include "hosted/error.h"
#include "session/own_allocator.h"

#include <limits.h>
#include <stdbool.h>

struct launch_plan {
	char path[PATH_MAX]; /* to be handed to execvpe(), which also runs a script without #! */
	char elf[PATH_MAX];  /* the program that will allocate: path, or a script's interpreter */
	bool script;
	bool unreadable; /* may be run but not read: nothing more is known about it */
	/* An allocator of the program's own, whose calls heft cannot see. Not a refusal: the run
	 * goes on, and summary and recording say it (TRACE_NOTE_OWN_MALLOC). */
	enum elf_own_malloc own_malloc;
	char malloc_name[48];
	char own_malloc_text
		[OWN_ALLOCATOR_TEXT]; /* what it is and what to do, one sentence a line; "" if none */
};

/* Finds cmd as execvp does and looks at it. Returns 0, or fills err and returns HEFT_ENOTFOUND (no
 * such command: exit 127), HEFT_ENOEXEC (cannot be executed: 126) or HEFT_EREFUSED (it would run, but
 * heft could not record it: 125). */
int launch_inspect(const char *cmd, struct launch_plan *plan, struct heft_error *err);

/* A copy of `environment` with `preload` in front of what LD_PRELOAD already names (and only there),
 * and with `settings` ("NAME=VALUE", NULL-terminated) in place of variables of the same name.
 * Everything else is kept, in order. One block for free(); NULL if there is no memory. */
char **launch_environment(char *const *environment, const char *preload,
			  const char *const *settings);

#endif
