/* What will happen if a command is run: found out beforehand, so that what heft cannot record is
 * refused with its reason and a way out instead of producing an empty recording. */
#ifndef HEFT_RECORD_LAUNCH_H
#define HEFT_RECORD_LAUNCH_H

#include "hosted/error.h"
#include "session/own_allocator.h"

#include <limits.h>
#include <stdbool.h>

/* How heft gets into a program that it starts. */
enum launch_way {
	LAUNCH_PRELOAD, /* the dynamic loader loads heft's library first */
	LAUNCH_ENTRY, /* hooks at the entries of malloc and its siblings, set before its code runs */
};
/* What the user wants; AUTO: preload, and entry where nothing can be preloaded. */
enum launch_via {
	LAUNCH_VIA_AUTO,
	LAUNCH_VIA_PRELOAD,
	LAUNCH_VIA_ENTRY,
	LAUNCH_VIA_COUNT /* as PRELOAD: hooks at entries do not count */
};

struct launch_plan {
	enum launch_via via;
	enum launch_way way;
	const char *why; /* ENTRY: the program ..., in words; NULL: the user wants it */
	/* ENTRY: it or what it executes can stand LD_PRELOAD. */
	bool may_preload;
	unsigned
		execs; /* so many until the program that allocates is there: 1, or 2 if env starts it */
	char path[PATH_MAX]; /* to be handed to execvpe(), which also runs a script without #! */
	char elf[PATH_MAX];  /* the program that will allocate: path, or a script's interpreter */
	bool script;
	bool unreadable; /* may be run but not read: nothing more is known about it */
	/* An allocator of the program's own, whose calls heft cannot see. Not a refusal: the run
	 * goes on, and summary and recording say it (TRACE_NOTE_OWN_MALLOC). */
	enum elf_own_malloc own_malloc;
	char malloc_name[48];
	const char *allocator; /* its name if known ("jemalloc"), else NULL */
	char own_malloc_text
		[OWN_ALLOCATOR_TEXT]; /* what it is and what to do, one sentence a line; "" if none */
};

/* Finds cmd as execvp does and looks at it. Returns 0, or fills err and returns HEFT_ENOTFOUND (no
 * such command: exit 127), HEFT_ENOEXEC (cannot be executed: 126) or HEFT_EREFUSED (it would run, but
 * heft could not record it: 125). */
int launch_inspect(const char *cmd, enum launch_via via, struct launch_plan *plan,
		   struct heft_error *err);

/* A copy of `environment` with `preload` in front of what LD_PRELOAD already names (and only there; NULL: LD_PRELOAD
 * stays as it is), and with `settings` ("NAME=VALUE", NULL-terminated) in place of variables of the same name.
 * Everything else is kept, in order. One block for free(); NULL if there is no memory. */
char **launch_environment(char *const *environment, const char *preload,
			  const char *const *settings);

/* What kind of program a process of the command is about to execute: enum wire_program_kind. fd: its file; root: the root
 * of that process, "/proc/PID/root". */
enum wire_program_kind launch_kind_of(int fd, const char *root);

#endif
