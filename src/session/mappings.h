/* What a process has mapped, as /proc says: whether a file is among it. */
#ifndef HEFT_SESSION_MAPPINGS_H
#define HEFT_SESSION_MAPPINGS_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

enum mappings_answer {
	MAPPINGS_LACK, /* it has something mapped, and not this file */
	MAPPINGS_HAVE,
	MAPPINGS_NONE,   /* nothing is mapped: the process is gone, or about to be */
	MAPPINGS_HIDDEN, /* we may not look */
};
/* Whether the process has this file (its device and inode) mapped and shared. */
enum mappings_answer mappings_look(pid_t pid, const struct stat *file);

/* ---- the text of /proc/PID/maps */
struct mapping {
	unsigned major, minor;
	unsigned long inode;
	int path; /* where it stands in the line */
};
FILE *mappings_open(pid_t pid);
/* The next line, without its end. What does not fit is left out: a path may be anything, and must never be taken for a
 * line. False: there are no more. */
bool mappings_line(FILE *f, char *line, size_t size);
/* Whether this line is a shared mapping. */
bool mappings_parse(const char *line, struct mapping *m);
/* What mappings_look does on kernels that can only tell it as text. */
enum mappings_answer mappings_look_in_text(FILE *f, const struct stat *file);

#endif
