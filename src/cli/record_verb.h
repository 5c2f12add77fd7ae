/* What the verbs that record have in common: `heft run` and `heft attach`. */
#ifndef HEFT_CLI_RECORD_VERB_H
#define HEFT_CLI_RECORD_VERB_H

#include "cli/cli.h"
#include "cli/live_server.h"
#include "record/recorder.h"

struct record_verb {
	const struct cli_verb *verb;
	struct recorder_options o;
	struct live_server server;
	struct serve_options serve;
	uint64_t duration_ns; /* --duration; 0: not given */
	int path_fd;          /* gets the recording's path when it is complete; -1: nobody asked */
	bool quiet, ended;    /* ended: the summary was printed */
	enum cli_color color;
	/* Called before the summary is printed; or NULL. */
	void (*left)(struct record_verb *r, const struct recorder_result *result);
};

/* For cli_parse_options; ctx is a struct record_verb with `verb` set. */
int record_verb_set(void *ctx, const struct cli_option *option, const char *value);
/* Whether the options go together: 0, or the status to end with. */
int record_verb_check(const struct record_verb *r);
/* Records what r->o says, and prints the summary. 0, or why nothing was recorded. */
int record_verb_run(struct record_verb *r, struct recorder_result *result, struct heft_error *err);

#endif
