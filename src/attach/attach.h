/* Putting heft into a program that already runs, and taking it out again. */
#ifndef HEFT_ATTACH_ATTACH_H
#define HEFT_ATTACH_ATTACH_H

#include "attach/older_blocks.h"
#include "hosted/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct attach_options {
	pid_t pid;
	const char *blob; /* path of the code that goes into the program */
	const char *session_dir;
	uint64_t sample_bytes; /* 0: every allocation */
	bool sample_automatic, follow;
	bool older; /* list the blocks that the program has; it stands still meanwhile */
};

struct attach_report {
	uint64_t pause_ns; /* from the first thread that was stopped to the last that went on */
	uint32_t threads, tries;
	char before
		[200]; /* attaching: what the program had allocated before, in words; "": not known */
	struct older_totals older; /* the same in numbers; no arena: not known */
	/* If they were to be listed: how many there are, each a struct older_block in a file in memory, which is the
	 * caller's to close; and how long the program stood still for that. 0 blocks: there is no file. */
	uint64_t listed, listing_ns;
	int list_fd;
	char left[200]; /* detaching: what had to stay, in words; "": nothing */
};

struct attached;
/* 0, or the reason why the program was not touched, or is again as it was. */
int attach_begin(struct attached **out, const struct attach_options *o,
		 struct attach_report *report, struct heft_error *err);
/* Leaves the program as it was, if it still runs. pids: it and its forked children that have heft in them;
 * their threads do not wait for a recorder any more. Frees a. */
int attach_end(struct attached *a, const pid_t *pids, uint32_t count, struct attach_report *report,
	       struct heft_error *err);
/* Readable when nothing more can come: the guardian has gone. */
int attached_fd(const struct attached *a);

#endif
