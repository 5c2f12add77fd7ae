/* `heft attach` records a program that already runs, until Ctrl-C, --duration, `heft detach` or the end of
 * the program. Whatever ends it, the program is left as it was, and goes on.
 *
 * The recorder reads what the program leaves in the session directory (src/record), src/attach puts heft into
 * the program and takes it out: this file brings the two together.
 *
 * The exit status is 0 if heft left the program cleanly, or the program ended; else 1. */
#include "cli/record_verb.h"

#include "attach/attach.h"
#include "hosted/number_words.h"
#include "session/attach_call.h"
#include "session/owner.h"
#include "session/process_root.h"
#include "symbol/symbol.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct attaching {
	struct record_verb verb; /* first, so that one is the other */
	struct recorder_attach recorder;
	struct attach_options o;
	struct attach_report report;
	struct attached *attached;
	struct attach_calls calls;
	bool program_ended; /* it was not left: it was gone */
	char before[1400];  /* what the recording says about older blocks */
	char unseen[800];   /* and about functions that are not seen */
};

static int program_root =
	-1; /* of a program that sees other files than we do; open until heft ends */

static void say_attached(const struct attaching *a)
{
	const struct attach_report *t = &a->report;
	char until[80] = "";
	if (a->verb.quiet)
		return;
	fprintf(stderr, "heft: attached to process %d; %u thread%s stood still for %.2f ms",
		(int)a->o.pid, t->threads, t->threads == 1 ? "" : "s", (double)t->pause_ns / 1e6);
	if (t->tries > 1)
		fprintf(stderr, ", at try %u", t->tries);
	fputc('\n', stderr);
	if (t->hooked[0] && a->verb.o.verbose)
		cli_putf(stderr, "heft: sees %s\n", t->hooked);
	if (t->places_taken && a->verb.o.verbose)
		fprintf(stderr, "heft: it was mapped at try %u: the program had taken the place\n",
			t->places_taken + 1);
	if (a->unseen[0])
		cli_say(a->unseen);
	if (t->before[0])
		cli_say(a->verb.o.verbose ? a->before : t->before);
	if (t->listed)
		fprintf(stderr,
			"heft: listed %s of them; %.2f ms of the time it stood still were for "
			"that\n",
			words_many(t->listed, "block", "blocks").text, (double)t->listing_ns / 1e6);
	if (a->verb.duration_ns)
		snprintf(until, sizeof until, "it ends after %g s; ",
			 (double)a->verb.duration_ns / 1e9);
	fprintf(stderr,
		"heft: recording; %sCtrl-C or 'heft detach %d' ends it, and the program goes on\n",
		until, (int)a->o.pid);
}

static void describe_before(struct attaching *a)
{
	char details[800];
	older_details(&a->report.older, details, sizeof details);
	snprintf(a->before, sizeof a->before, "%s%s%s", a->report.before, details[0] ? "; " : "",
		 details);
	a->recorder.before = a->before;
	record_verb_unseen(&a->report, a->unseen, sizeof a->unseen);
	a->recorder.unseen = a->unseen;
	a->recorder.older_blocks = a->report.listed;
	a->recorder.older_fd = a->report.list_fd;
}

/* Names come from the program's own files: in a container they are others than ours of the same path. */
static int open_in_root(const char *path)
{
	return process_root_file(program_root, path);
}

static int begin(void *ctx, const char *session_dir, struct heft_error *err)
{
	struct attaching *a = ctx;
	program_root = process_root_open(a->o.pid);
	a->verb.keep_names = program_root >= 0;
	a->o.session_dir = session_dir;
	a->o.sample_bytes = a->verb.o.sample_bytes;
	a->o.sample_automatic = a->verb.o.sample_automatic;
	a->o.follow = a->verb.o.follow;
	int rc = attach_begin(&a->attached, &a->o, &a->report, err);
	if (!rc && program_root >= 0)
		symbol_files_elsewhere(open_in_root);
	if (!rc) {
		describe_before(a);
		say_attached(a);
		if (a->verb.path_fd >= 0) /* who started us waits for this (attach_offer.c) */
			dprintf(a->verb.path_fd, "\n");
	}
	return rc;
}

static enum recorder_wish wish(void *ctx)
{
	struct attaching *a = ctx;
	struct pollfd guardian = {.fd = attached_fd(a->attached), .events = POLLIN};
	if (attach_calls_look(&a->calls))
		return RECORDER_TO_END;
	return poll(&guardian, 1, 0) > 0 ? RECORDER_ALONE : RECORDER_GO_ON;
}

static int end(void *ctx, const pid_t *pids, uint32_t count, struct heft_error *err)
{
	struct attaching *a = ctx;
	memset(&a->report, 0, sizeof a->report);
	a->program_ended = true;
	for (uint32_t i = 0; i < count; i++)
		a->program_ended &= pids[i] != a->o.pid;
	int rc = attach_end(a->attached, pids, count, &a->report, err);
	a->attached = NULL;
	attach_calls_close(&a->calls, rc ? err->message : NULL);
	return rc;
}

static void say_left(struct record_verb *verb, const struct recorder_result *result)
{
	const struct attaching *a = (const struct attaching *)verb;
	if (result->left.code) {
		cli_print_error(&result->left);
		return;
	}
	if (a->report.left[0]) /* also if quiet: something stays in the program */
		cli_putf(stderr, "heft: %s\n", a->report.left);
	if (!verb->quiet && !a->program_ended)
		fprintf(stderr, "heft: detached from process %d; it stood still for %.2f ms\n",
			(int)a->o.pid, (double)a->report.pause_ns / 1e6);
}

int attach_check_free(pid_t pid, struct heft_error *err)
{
	char path[4200];
	int rc = owner_file(pid, path, sizeof path, err);
	if (rc == 0 || (rc == HEFT_EREFUSED && owner_is_readable(pid)))
		return heft_fail(err, HEFT_EREFUSED,
				 "process %d is profiled by heft already\n'heft top %d' shows it",
				 (int)pid, (int)pid);
	return 0;
}

static int set_option(void *ctx, const struct cli_option *option, const char *value)
{
	struct attaching *a = ctx;
	if (option->id == CLI_OPT_ALLOC_FN)
		return record_function_set(a->verb.verb, value, &a->o.functions);
	if (option->id != CLI_OPT_OLDER)
		return record_verb_set(&a->verb, option, value);
	a->o.older = true;
	return 0;
}

int cmd_attach(int argc, char **argv)
{
	struct attaching a = {.verb = {.verb = cli_verb_find("attach"),
				       .o.follow = true,
				       .path_fd = -1,
				       .left = say_left}};
	struct heft_error err = {0};
	struct recorder_result result = {0};
	const char *warning = NULL;
	char blob[4096];
	int first;
	int rc = cli_parse_options(a.verb.verb, argc, argv, set_option, &a, &first);
	if (rc != CLI_GO_ON)
		return rc;
	if ((rc = record_verb_check(&a.verb)))
		return rc;
	if (a.o.older && a.verb.o.sample_bytes)
		return cli_usage_error(a.verb.verb,
				       "--older needs every allocation: it does not go "
				       "with --sample");
	if (first >= argc)
		return cli_usage_error(a.verb.verb, "no process given");
	if (argc - first > 1)
		return cli_usage_error(a.verb.verb, "one process at a time");
	if (cli_parse_pid(argv[first], &a.o.pid) < 0)
		return cli_usage_error(a.verb.verb, "'%s' is not a process id", argv[first]);
	if (a.o.pid == getpid())
		return cli_usage_error(a.verb.verb, "%d is heft itself", (int)a.o.pid);
	a.recorder = (struct recorder_attach){.pid = a.o.pid,
					      .duration_ns = a.verb.duration_ns,
					      .ctx = &a,
					      .begin = begin,
					      .wish = wish,
					      .end = end};
	a.verb.o.attach = &a.recorder;
	a.calls.listener = -1;
	a.o.blob = blob;
	rc = cli_locate_blob(blob, sizeof blob, &err);
	if (!rc)
		rc = attach_calls_open(&a.calls, a.o.pid, &warning, &err);
	if (!rc)
		rc = attach_check_free(a.o.pid, &err);
	if (warning && !a.verb.quiet)
		cli_say(warning);
	if (!rc)
		rc = record_verb_run(&a.verb, &result, &err);
	attach_calls_close(&a.calls, err.message);
	if (rc) {
		cli_print_error(&err);
		return CLI_FAILED;
	}
	return result.left.code || result.problem.code ? CLI_FAILED : CLI_SUCCESS;
}
