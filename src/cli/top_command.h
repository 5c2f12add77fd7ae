/* Inside src/cli: the command of `heft top -- CMD`, recorded by a `heft run` of its own. */
#ifndef HEFT_CLI_TOP_COMMAND_H
#define HEFT_CLI_TOP_COMMAND_H

#include "hosted/error.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct top_command {
	char **argv; /* the command; argc of them */
	int argc;
	const char *output, *sample; /* options for `heft run`; NULL: not given */
	bool has_sample, force;

	pid_t recorder; /* the `heft run`; 0: not started */
	bool ended;
	int status;  /* exit status, as `heft run` gave it */
	int path_fd; /* where it tells the recording's path at its end; -1: read to its end */
	int kills;
	bool detached;
	char kept[PATH_MAX]; /* file with what it wrote to the terminal; "": it goes elsewhere */
	int kept_fd;
};

/* Starts it. With `screen` the terminal belongs to the view: what the command writes there is kept
 * in a file, and it cannot read from there. */
int top_command_start(struct top_command *c, bool screen, struct heft_error *err);
/* True once it has ended; `wait` for that. */
bool top_command_ended(struct top_command *c, bool wait);
/* The recording's path. HEFT_ENOTFOUND: not known yet; HEFT_EREFUSED: there is none and never will
 * be, and why has been said by `heft run`. */
int top_command_recording(struct top_command *c, char *path, size_t size);
/* The first time by SIGTERM, then `program` by SIGKILL. */
void top_command_kill(struct top_command *c, pid_t program);
/* The last lines it wrote, for free(); NULL: they were not kept. */
char *top_command_tail(const struct top_command *c);
/* Writes all that was kept where it belongs, and removes the file unless the command still writes
 * to it. */
void top_command_release(struct top_command *c);

#endif
