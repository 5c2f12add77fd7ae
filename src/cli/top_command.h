/* Inside src/cli: the command of `heft top -- CMD`, which a `heft run` of its own records. */
#ifndef HEFT_CLI_TOP_COMMAND_H
#define HEFT_CLI_TOP_COMMAND_H

#include "cli/recording_wish.h"
#include "hosted/error.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct top_command {
	char **argv; /* the command; argc of them */
	int argc;
	struct recording_wish wish;

	pid_t recorder; /* the `heft run`; 0: not started */
	bool ended;
	int status;  /* exit status, as `heft run` gave it */
	int path_fd; /* gives the recording's path when it has ended; -1: was read */
	int kills;
	bool detached;
	char kept[PATH_MAX]; /* the file with what it wrote to the terminal; "": there is none */
	int kept_fd;
};

/* Starts the command. With `screen` the terminal belongs to the view: a file keeps what the command writes
 * to it, and the command cannot read from it. */
int top_command_start(struct top_command *c, bool screen, struct heft_error *err);
/* True once the command has ended; with `wait`, waits for that. */
bool top_command_ended(struct top_command *c, bool wait);
/* The recording's path. HEFT_ENOTFOUND: not known yet; HEFT_EREFUSED: there will be none, and `heft run` has
 * said why. */
int top_command_recording(struct top_command *c, char *path, size_t size);
/* The first call sends SIGTERM to the recorder, the next ones send SIGKILL to `program`. */
void top_command_kill(struct top_command *c, pid_t program);
/* The last lines that the command wrote, free() them; NULL: they were not kept. */
char *top_command_tail(const struct top_command *c);
/* Copies a file to its end. 0, or -1 and errno. */
int top_command_copy(int from, int to);
/* Writes what was kept to the terminal, and removes the file unless the command still writes to it. */
void top_command_release(struct top_command *c);

#endif
