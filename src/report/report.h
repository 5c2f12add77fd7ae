/* A profile in words: text for people, JSON (schema 1) for programs. Functions write to the stream
 * and return 0 or HEFT_ENOMEM; write errors latch in the stream, for the caller to check.
 *
 * Text is fitted to `width` columns: names are shortened, nothing is left to the terminal to wrap.
 * Every text ends with the next useful command. */
#ifndef HEFT_REPORT_REPORT_H
#define HEFT_REPORT_REPORT_H

#include "findings/finding.h"
#include "profile/measure.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define REPORT_ALL SIZE_MAX

enum report_span {
	REPORT_WHOLE,
	REPORT_WINDOW,  /* what happened in a part of the run */
	REPORT_INSTANT, /* what was live at one moment */
};

struct report_options {
	const char *path;  /* of the recording, for the next command to try */
	const char *again; /* options that the next command must repeat, or NULL */
	enum measure_id sort;
	size_t limit;     /* sites shown; REPORT_ALL: all */
	size_t processes; /* rows of the table of processes in the text report; 0: no table */
	size_t width;     /* of a line of text; 0: 100 */
	bool color;
	bool utf8;    /* bars of block characters */
	bool full;    /* whole stacks, frames of the runtime included, nothing folded */
	bool compact; /* JSON: a table of frames, and stacks as numbers of it */
	bool invert;  /* the tree from the allocating function up */
	const char *focus, *ignore; /* what the profile was filtered with, or NULL */
	enum report_span span;
	uint64_t from_ns, to_ns; /* of the span */
	const char *moment;      /* words for an instant that has a name, or NULL */
	bool timeless;           /* the moment is the exit of each process, not one instant */
	const char *selection;   /* words for what was selected; NULL: everything */
	/* NULL: nobody looked for them. Findings are of a whole recording: a selection has none. */
	const struct findings *findings;
	bool all_findings; /* not only the first few */
	uint32_t explain;  /* report_explain: the number of the finding, from 1 */
	/* Parts of JSON that are written only when asked for. */
	bool threads, sizes, lifetimes;
};

int report_text(FILE *out, const struct profile *p, const struct report_options *o);
int report_tree(FILE *out, const struct profile *p, const struct report_options *o);
int report_threads(FILE *out, const struct profile *p, const struct report_options *o);
int report_sizes(FILE *out, const struct profile *p, const struct report_options *o);
int report_lifetimes(FILE *out, const struct profile *p, const struct report_options *o);
/* Why one finding is reported: its rule and conditions. */
int report_explain(FILE *out, const struct profile *p, const struct report_options *o);
int report_json(FILE *out, const struct profile *p, const struct report_options *o);
/* The first `count` sites by that measure, a line each: how much, and where. */
int report_top_sites(FILE *out, const struct profile *p, enum measure_id id, size_t count);
/* What `heft run` ends with, in at most 12 lines and the sentence of the first finding. findings may be NULL; width 0: 100. */
int report_run_summary(FILE *out, const struct profile *p, const struct findings *findings,
		       const char *recording_path, size_t width, bool color);

#endif
