/* What the verbs that record have in common: `heft run` and `heft attach`. */
#ifndef HEFT_CLI_RECORD_VERB_H
#define HEFT_CLI_RECORD_VERB_H

#include "attach/attach.h"
#include "cli/cli.h"
#include "cli/live_server.h"
#include "record/launch.h"
#include "record/recorder.h"

struct record_verb {
	/* The program's files may be out of reach later: all names are looked up at the end, for the cache. */
	bool keep_names;
	bool no_ledger; /* --no-ledger */
	const struct cli_verb *verb;
	struct recorder_options o;
	struct live_server server;
	struct serve_options serve;
	uint64_t duration_ns; /* --duration; 0: not given */
	enum launch_via via;  /* of `heft run` */
	int path_fd;          /* gets the recording's path when it is complete; -1: nobody asked */
	bool quiet, ended;    /* ended: the summary was printed */
	enum cli_color color;
	/* Called before the summary is printed; or NULL. */
	void (*left)(struct record_verb *r, const struct recorder_result *result);
};

/* For cli_parse_options; ctx is a struct record_verb with `verb` set. */
int record_verb_set(void *ctx, const struct cli_option *option, const char *value);
/* A sentence about functions that heft cannot hook; "": there are none. */
void record_verb_unseen(const struct attach_report *report, char *text, size_t size);
/* Whether the options go together: 0, or the status to end with. */
int record_verb_check(const struct record_verb *r);
/* Records what r->o says, and prints the summary. 0, or why nothing was recorded. */
int record_verb_run(struct record_verb *r, struct recorder_result *result, struct heft_error *err);
/* For recorder_options.take_ledger. */
int record_take_ledger(struct ledger *l, const struct ledger_request *request,
		       struct heft_error *err);
/* Whether nobody records the process: 0, or HEFT_EREFUSED. A program has one recording at a time. */
int attach_check_free(pid_t pid, struct heft_error *err);
/* The value of --sample (NULL: none was given), for a verb. 0, or the status to end with. */
int record_sample_set(const struct cli_verb *verb, const char *value, uint64_t *bytes,
		      bool *automatic);
/* The value of --alloc-fn, added to the list. 0, or the status to end with. */
int record_function_set(const struct cli_verb *verb, const char *value,
			struct attach_functions *functions);

#endif
