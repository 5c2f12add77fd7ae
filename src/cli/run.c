/* `heft run` records a command, then says in a few lines what the command did.
 *
 * The exit status is the command's own (128 + signal). 125 is a failure of heft, 126 a command that cannot
 * be executed, 127 a command that was not found. If the recording goes wrong later, heft says so, but the
 * status stays the command's. */
#include "cli/record_verb.h"

#include "cli/count_command.h"
#include "cli/entry_way.h"
#include "record/launch.h"

#include <limits.h>
#include <stdio.h>
#include <sys/wait.h>

int run_refused(const struct heft_error *err, int rc)
{
	cli_print_error(err);
	switch (rc) {
	case HEFT_ENOTFOUND: return CLI_RUN_NOTFOUND;
	case HEFT_ENOEXEC: return CLI_RUN_NOEXEC;
	default: return CLI_RUN_FAILED;
	}
}

struct running {
	struct record_verb verb;
	struct attach_functions functions;
	bool counts; /* --count */
};

static int set_option(void *ctx, const struct cli_option *option, const char *value)
{
	struct running *r = ctx;
	if (option->id == CLI_OPT_COUNT) {
		r->counts = true;
		return 0;
	}
	if (option->id == CLI_OPT_ALLOC_FN)
		return record_function_set(r->verb.verb, value, &r->functions);
	return record_verb_set(&r->verb, option, value);
}

/* Only heft's library finds the client requests, and only exact recordings have pools. */
static int check_mempools(const struct running *r)
{
	if (!r->verb.o.mempools)
		return 0;
	if (r->verb.o.sample_bytes || r->counts)
		return cli_usage_error(r->verb.verb,
				       "--mempools does not go with --sample or --count");
	if (r->verb.via == LAUNCH_VIA_ENTRY)
		return cli_usage_error(r->verb.verb,
				       "--mempools needs heft's library: it does not go "
				       "with --via=entry or --alloc-fn");
	return 0;
}

/* Functions that the user has named are hooked where they begin, in a program that needs it for nothing else, too. */
static int take_functions(struct running *r)
{
	if (!r->functions.count)
		return 0;
	if (r->verb.via == LAUNCH_VIA_PRELOAD)
		return cli_usage_error(r->verb.verb, "--alloc-fn does not go with --via=preload");
	r->verb.via = LAUNCH_VIA_ENTRY;
	return 0;
}

int cmd_run(int argc, char **argv)
{
	struct running running = {
		.verb = {.verb = cli_verb_find("run"), .o.follow = true, .path_fd = -1}};
	struct record_verb *const r = &running.verb;
	struct launch_plan plan;
	struct entry_way entry;
	struct heft_error err = {0};
	struct recorder_result result = {0};
	char preload[4096];
	int first;
	int rc = cli_parse_options(r->verb, argc, argv, set_option, &running, &first);
	if (rc != CLI_GO_ON)
		return rc;
	if ((rc = record_verb_check(r)) || (rc = take_functions(&running)) ||
	    (rc = check_mempools(&running)))
		return rc;
	if (first >= argc)
		return cli_usage_error(r->verb, "no command given");
	if (running.counts)
		return count_command(r, argc - first, argv + first);
	r->o.argv = argv + first;
	r->o.argc = argc - first;
	r->o.plan = &plan;
	r->o.preload = preload;
	if ((rc = cli_locate_preload(preload, sizeof preload, &err)) ||
	    (rc = launch_inspect(argv[first], r->via, &plan, &err)) ||
	    (rc = entry_way_init(&entry, &r->o, &err)))
		return run_refused(&err, rc);
	entry.functions = &running.functions;
	if (plan.own_malloc_text[0] && plan.way == LAUNCH_PRELOAD && !r->quiet)
		cli_say(plan.own_malloc_text);
	if (r->o.mempools && plan.way != LAUNCH_PRELOAD && !r->quiet)
		cli_say("--mempools has no effect on this program: nothing can be preloaded into "
			"it");
	if (r->o.verbose && !r->quiet) {
		char way[PATH_MAX + 200];
		entry_way_words(&plan, way, sizeof way);
		cli_say(way);
	}
	rc = record_verb_run(r, &result, &err);
	if (entry_way_give_up(&r->o, &plan, rc, r->quiet, &err))
		rc = record_verb_run(r, &result, &err);
	if (rc)
		return run_refused(&err, rc);
	return WIFSIGNALED(result.status) ? 128 + WTERMSIG(result.status)
					  : WEXITSTATUS(result.status);
}
