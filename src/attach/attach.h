/* Putting heft into a program that already runs, and taking it out again. */
#ifndef HEFT_ATTACH_ATTACH_H
#define HEFT_ATTACH_ATTACH_H

#include "attach/older_blocks.h"
#include "hosted/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Functions that the user names as ones of an allocator (--alloc-fn) */
enum { ATTACH_FUNCTIONS = 32 };
struct attach_functions {
	struct attach_function {
		char name[64];
		unsigned kind;
	} items[ATTACH_FUNCTIONS];
	unsigned count;
};
/* Adds "my_alloc:malloc"; the message of a failure names the kinds. */
int attach_functions_add(struct attach_functions *f, const char *text, struct heft_error *err);

struct attach_options {
	pid_t pid;
	const char *blob; /* path of the code that goes into the program */
	const char *session_dir;
	const char *
		preload; /* heft's library, for programs that it executes; NULL: they are not followed */
	uint64_t sample_bytes; /* 0: every allocation */
	bool sample_automatic, follow;
	struct attach_functions functions;
	bool older; /* list the blocks that the program has; it stands still meanwhile */
	/* Not 0: the process has not executed the program yet, and will have with so many calls of exec.
	 * attach_begin only traces it, and attach_started puts heft into the program before any of its code runs. */
	unsigned start_execs;
	/* With start_execs: if anything fails, the process goes on without heft, and is not killed. It executes the
	 * program after attach_go. */
	bool start_lets_go;
	/* With both: pid is a thread, and the next process that it makes executes the program. */
	bool start_spawns;
};

struct attach_report {
	pid_t guardian;    /* the process that traces */
	pid_t pid;         /* of attach_started: the program's process */
	uint64_t pause_ns; /* from the first thread that was stopped to the last that went on */
	uint32_t threads, tries;
	uint32_t
		places_taken; /* so often had the program mapped something where heft wanted to be */
	char before
		[400]; /* attaching: what the program had allocated before, in words; "": not known */
	struct older_totals older; /* the same in numbers; no arena: not known */
	/* If they were to be listed: how many there are, each a struct older_block in a file in memory, which is the
	 * caller's to close; and how long the program stood still for that. 0 blocks: there is no file. */
	uint64_t listed, listing_ns;
	int list_fd;
	/* Attaching: the allocators that are seen and by how many functions, and which functions are not seen and why;
	 * in words, "": there are none */
	char hooked[400], unseen[600];
	char left[200]; /* detaching: what had to stay, in words; "": nothing */
};

struct attached;
/* 0, or the reason why the program was not touched, or is again as it was. */
int attach_begin(struct attached **out, const struct attach_options *o,
		 struct attach_report *report, struct heft_error *err);
/* With start_execs, once the process goes on to execute the program. If it fails, a stays: attach_end frees it. */
int attach_started(struct attached *a, struct attach_report *report, struct heft_error *err);
/* With start_lets_go: the process executes the program now, and attach_started may be called when attached_fd is
 * readable. */
void attach_go(struct attached *a);
/* With start_lets_go: it does not execute it. The process is not traced any more. guardian: of attach_begin's report;
 * frees a. */
void attach_cancel(struct attached *a, pid_t guardian);
/* The process has ended. The guardian ends too, unless forked children of it have heft in them; attached_fd says so. */
void attach_process_ended(struct attached *a);
/* The guardian has ended, or ends when it sees this: frees a. */
void attach_forget(struct attached *a);
/* Leaves the program as it was, if it still runs. pids: it and its forked children that have heft in them;
 * their threads do not wait for a recorder any more. Frees a. */
int attach_end(struct attached *a, const pid_t *pids, uint32_t count, struct attach_report *report,
	       struct heft_error *err);
/* Readable when nothing more can come: the guardian has gone. */
int attached_fd(const struct attached *a);

/* Whether heft knows the functions of an allocator, as session/allocator_names.h calls it. */
bool attach_knows_allocator(const char *allocator);

#endif
