/* The command of `heft check`: it is run and recorded, and its recording is removed unless it is to be kept. */
#ifndef HEFT_CLI_CHECK_COMMAND_H
#define HEFT_CLI_CHECK_COMMAND_H

#include "record/recorder.h"

#include <limits.h>

enum {
	CHECK_SKIPPED = 77
}; /* with this status a test says that it did not run: CTest, Meson and Automake know it */

struct check_command {
	char **argv;
	int argc; /* 0: there is none, a recording is given */
	const char *output;
	bool force, quiet;
	bool failed_only; /* keep the recording only if the check fails */
	bool skipped;
	struct recorder_result result;
	char folder[PATH_MAX]; /* of a recording that nobody asked for; "": none */
	char path[PATH_MAX];
};

/* Runs it; `asked` (enum profile_has) is what its recording must have. HEFT_EREFUSED: it failed, or was skipped. */
int check_command_run(struct check_command *c, uint32_t asked, struct heft_error *err);
/* Removes the recording, if nobody wants it. */
void check_command_clean(struct check_command *c, bool passed);
/* The path with the command's file name in place of "%e", for free(), as several programs that a test suite runs need files of
 * their own. The hash that cargo puts behind a name is left out: it changes. NULL: no memory. */
char *check_command_path(const struct check_command *c, const char *pattern);

#endif
