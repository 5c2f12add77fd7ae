/* A profile in words: text for people, JSON (schema 1) for programs. Functions write to the stream
 * and return 0 or HEFT_ENOMEM; write errors latch in the stream, for the caller to check. */
#ifndef HEFT_REPORT_REPORT_H
#define HEFT_REPORT_REPORT_H

#include "profile/profile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define REPORT_ALL SIZE_MAX

struct report_options {
	const char *path; /* of the recording, for the next command to try */
	enum profile_sort sort;
	size_t limit; /* sites shown; REPORT_ALL: all */
	bool color;
	bool invert;                /* the tree from the allocating function up */
	const char *focus, *ignore; /* what the profile was filtered with, or NULL */
};

int report_text(FILE *out, const struct profile *p, const struct report_options *o);
int report_tree(FILE *out, const struct profile *p, const struct report_options *o);
int report_json(FILE *out, const struct profile *p, const struct report_options *o);
/* What `heft run` ends with, in at most 12 lines. */
int report_run_summary(FILE *out, const struct profile *p, const char *recording_path, bool color);

#endif
