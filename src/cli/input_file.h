/* A FILE that a verb was given, opened once: heft's own recording, or another tool's. */
#ifndef HEFT_CLI_INPUT_FILE_H
#define HEFT_CLI_INPUT_FILE_H

#include "profile/profile_from_trace.h"

struct input_file {
	const char *path;
	struct trace_reader *reader; /* NULL: another tool's file, or none that can be read */
};

int input_file_open(struct input_file *in, const char *path, struct heft_error *err);
/* May be called several times, with other selections. */
int input_file_load(const struct input_file *in, const struct profile_selection *sel,
		    struct profile **out, struct heft_error *err);
void input_file_close(struct input_file *in);

/* All of these at once, for verbs that have nothing to ask the file before. */
int input_file_profile(const char *path, const struct profile_selection *sel, struct profile **out,
		       struct heft_error *err);

#endif
