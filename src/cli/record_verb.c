/* What `heft run` and `heft attach` share: the options of a recording, the server that answers meanwhile,
 * and the few lines that say what the program did.
 *
 * Invariant: the summary is printed once, before lingering if heft lingers. */
#include "cli/record_verb.h"

#include "cli/exact_answers.h"

#include "agent/sampled.h"
#include "ledger/heap_look_take.h"
#include "ledger/ledger_take.h"
#include "profile/profile_from_trace.h"
#include "report/report.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int record_sample_set(const struct cli_verb *verb, const char *value, uint64_t *bytes,
		      bool *automatic)
{
	*automatic = value && !strcmp(value, "auto");
	*bytes = SAMPLED_RATE_DEFAULT;
	if (value && !*automatic &&
	    (size_parse(value, bytes) < 0 || *bytes < SAMPLED_RATE_LEAST ||
	     *bytes > SAMPLED_RATE_MOST))
		return cli_usage_error(
			verb, "--sample needs a size from 1k to 1G or auto, not '%s'", value);
	return 0;
}

int record_function_set(const struct cli_verb *verb, const char *value,
			struct attach_functions *functions)
{
	struct heft_error err = {0};
	return attach_functions_add(functions, value, &err)
		       ? cli_usage_error(verb, "%s", err.message)
		       : 0;
}

/* A time that is not a part of the run. */
static int set_time(const struct record_verb *r, const char *name, const char *value, uint64_t *ns)
{
	struct cli_time time;
	if (cli_parse_time(value, &time) < 0 || time.relative)
		return cli_usage_error(r->verb, "--%s needs a time such as 30s or 10m, not '%s'",
				       name, value);
	*ns = time.time_ns;
	return 0;
}

static int set_duration(struct record_verb *r, const char *value)
{
	int status = set_time(r, "duration", value, &r->duration_ns);
	if (!status && !r->duration_ns)
		return cli_usage_error(r->verb, "--duration needs more than 0");
	return status;
}

enum { SMALLEST_LIMIT = 16 << 10 }; /* --limit-size: tables, and some events */

static int set_limit(struct record_verb *r, const char *value)
{
	if (size_parse(value, &r->o.limit_bytes) < 0 || !r->o.limit_bytes)
		return cli_usage_error(r->verb, "--limit-size needs a size such as 500M, not '%s'",
				       value);
	return 0;
}

static int set_path_fd(struct record_verb *r, const char *value)
{
	uint64_t fd;
	if (number_parse(value, INT_MAX, &fd) < 0 || fcntl((int)fd, F_SETFD, FD_CLOEXEC) != 0)
		return cli_usage_error(r->verb, "--path-fd needs an open descriptor");
	r->path_fd = (int)fd;
	return 0;
}

void record_verb_unseen(const struct attach_report *report, char *text, size_t size)
{
	text[0] = 0;
	if (report->unseen[0])
		snprintf(text, size,
			 "heft cannot hook these functions; their calls are recorded only where "
			 "they lead to others of the allocator: %s",
			 report->unseen);
}

int record_verb_set(void *ctx, const struct cli_option *option, const char *value)
{
	struct record_verb *r = ctx;
	switch (option->id) {
	case CLI_OPT_PATH_FD: return set_path_fd(r, value);
	case CLI_OPT_SAMPLE:
		return record_sample_set(r->verb, value, &r->o.sample_bytes,
					 &r->o.sample_automatic);
	case CLI_OPT_LINGER: return set_time(r, option->name, value, &r->o.linger_ns);
	case CLI_OPT_DURATION: return set_duration(r, value);
	case CLI_OPT_LIMIT_SIZE: return set_limit(r, value);
	case CLI_OPT_VIA:
		r->via = value[0] == 'a'   ? LAUNCH_VIA_AUTO
			 : value[0] == 'p' ? LAUNCH_VIA_PRELOAD
					   : LAUNCH_VIA_ENTRY;
		break;
	case CLI_OPT_OUTPUT: r->o.output = value; break;
	case CLI_OPT_FORCE: r->o.force = true; break;
	case CLI_OPT_QUIET: r->quiet = true; break;
	case CLI_OPT_LEDGER:
		r->o.all_ledgers = true;
		r->no_ledger = false;
		break;
	case CLI_OPT_NO_LEDGER:
		r->no_ledger = true;
		r->o.all_ledgers = false;
		break;
	case CLI_OPT_LEDGER_EVERY: return set_time(r, option->name, value, &r->o.ledger_every_ns);
	case CLI_OPT_LEAKS: r->o.leaks = true; break;
	case CLI_OPT_MEMPOOLS: r->o.mempools = true; break;
	case CLI_OPT_VERBOSE: r->o.verbose = true; break;
	case CLI_OPT_FOLLOW: r->o.follow = strcmp(value, "none") != 0; break;
	case CLI_OPT_COLOR: return cli_parse_color(value, &r->color) ? r->verb->usage_status : 0;
	default: serve_options_set(&r->serve, option, value); break;
	}
	return 0;
}

/* Findings need the whole profile: among the largest sites alone, a queue looks like objects that are
 * merely large. For this many stack frames that takes well under 0.1 s. A larger profile gets a summary
 * without findings, so that it appears at once. */
enum { WHOLE_PROFILE_NODES = 20000 };
/* For this many events, findings for each of several processes take another 0.1 s. */
enum { JUDGED_EVENTS = 2000000 };

static int load_for_summary(struct recorder_result *result, bool all_names, struct profile **p,
			    bool *whole, struct heft_error *err)
{
	struct trace_reader *reader;
	*p = NULL;
	int rc = trace_reader_open_written(&reader, result->path, &result->tally, err);
	if (rc < 0)
		return rc;
	*whole = all_names || trace_reader_contents(reader)->node_count <= WHOLE_PROFILE_NODES;
	const struct profile_selection selection = {.top_only = !*whole,
						    .judge_events = JUDGED_EVENTS};
	rc = profile_from_trace(p, reader, &selection, err);
	trace_reader_close(reader);
	return rc;
}

/* Nobody wants a summary, but the names. */
static void keep_names(struct recorder_result *result)
{
	struct profile *p;
	struct heft_error ignored = {0};
	bool whole;
	if (!load_for_summary(result, true, &p, &whole, &ignored))
		profile_free(p);
}

static void summarise(const struct record_verb *r, struct recorder_result *result)
{
	struct profile *p;
	struct findings *findings = NULL;
	struct heft_error err = {0};
	bool whole;
	if (load_for_summary(result, r->keep_names, &p, &whole, &err) < 0) {
		cli_print_error(&err);
		return;
	}
	/* A bad rule file does not change the command's status; `heft report` refuses it. */
	if (cli_apply_frame_rules(p, NULL, &err) < 0)
		cli_print_error(&err);
	if (whole)
		findings_new(&findings, p); /* if memory runs out, there are none */
	/* Write it in one piece: stderr has no buffer. */
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	report_run_summary(out ? out : stderr, p, findings, result->path, cli_width(stderr),
			   cli_use_color(r->color, stderr));
	if (out && fclose(out) == 0)
		fwrite(text, 1, size, stderr);
	free(text);
	findings_free(findings);
	profile_free(p);
}

/* Says how the command ended and where the recording is; only the first call does. */
static void report_end(struct record_verb *r, struct recorder_result *result)
{
	if (r->ended)
		return;
	r->ended = true;
	if (r->left)
		r->left(r, result);
	if (r->path_fd >= 0)
		dprintf(r->path_fd, "%s", result->path);
	if (result->problem.code)
		cli_print_error(&result->problem);
	if (r->quiet && r->keep_names && result->path[0])
		keep_names(result);
	if (r->quiet || !result->path[0])
		return;
	if (result->budget[0])
		cli_say(result->budget);
	summarise(r, result);
}

static void report_and_linger(void *ctx, struct recorder_result *result)
{
	struct record_verb *r = ctx;
	char place[600];
	cli_say_kept();
	report_end(r, result);
	if (r->quiet)
		return;
	live_server_place(&r->server, place, sizeof place);
	cli_putf(stderr, "heft: still serving %s for %.0f s; Ctrl-C ends it\n", place,
		 (double)r->o.linger_ns / 1e9);
}

static int begin_to_serve(void *ctx, struct heft_error *err)
{
	struct record_verb *r = ctx;
	char place[600];
	int rc = live_server_start(&r->server, err);
	if (rc || r->quiet || !serve_options_wanted(&r->serve))
		return rc;
	live_server_place(&r->server, place, sizeof place);
	cli_putf(stderr, "heft: serving %s\n", place);
	return 0;
}

int record_verb_check(const struct record_verb *r)
{
	if (!serve_options_wanted(&r->serve) && r->o.linger_ns)
		return cli_usage_error(r->verb, "--linger needs --listen or --socket");
	if (r->o.sample_bytes && (r->o.all_ledgers || r->o.ledger_every_ns))
		return cli_usage_error(
			r->verb, "a sampled program is not stopped for ledgers: 'heft map PID' "
				 "takes one, without --ledger");
	return serve_options_check(&r->serve, r->verb);
}

int record_take_ledger(struct ledger *l, const struct ledger_request *request,
		       struct heft_error *err)
{
	struct heap_look_order order = {.look = request->look, .always = request->leaks};
	const struct ledger_look look = {.ctx = &order, .while_stopped = heap_look_take};
	return ledger_take_recorded(l, request, request->look ? &look : NULL, err);
}

int record_verb_run(struct record_verb *r, struct recorder_result *result, struct heft_error *err)
{
	int rc = live_server_init(&r->server, &r->serve, err);
	r->server.source.recording = result->path;
	if (!r->quiet)
		r->o.say = cli_say_soon;
	if (r->o.limit_bytes && r->o.limit_bytes < SMALLEST_LIMIT) {
		r->o.limit_bytes = SMALLEST_LIMIT;
		if (!r->quiet)
			cli_say("--limit-size is too small for a useful recording: heft uses 16 "
				"KiB");
	}
	r->o.set = &r->server.set;
	r->o.keep_ended = serve_options_wanted(&r->serve);
	r->o.take_ledger = record_take_ledger;
	r->o.no_ledgers = r->no_ledger && !r->o.leaks && !r->o.ledger_every_ns;
	r->o.ready = begin_to_serve;
	r->o.ended = report_and_linger;
	r->o.ready_ctx = r;
	r->o.in_child = http_restore_file_limit;
	r->o.answer = live_source_answer;
	r->o.answer_exact = exact_answer;
	r->o.answer_ctx = &r->server.source;
	if (!rc)
		rc = recorder_run(&r->o, result, err);
	cli_say_kept();
	if (!rc)
		report_end(r, result);
	recorder_result_fini(result);
	live_server_fini(&r->server);
	return rc;
}
