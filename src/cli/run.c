/* `heft run` records a command, then says in a few lines what the command did.
 *
 * The exit status is the command's own (128 + signal). 125 is a failure of heft, 126 a command that cannot
 * be executed, 127 a command that was not found. If the recording goes wrong later, heft says so, but the
 * status stays the command's. */
#include "cli/record_verb.h"

#include "cli/entry_way.h"
#include "record/launch.h"

#include <limits.h>
#include <stdio.h>
#include <sys/wait.h>

static int refused(const struct heft_error *err, int rc)
{
	cli_print_error(err);
	switch (rc) {
	case HEFT_ENOTFOUND: return CLI_RUN_NOTFOUND;
	case HEFT_ENOEXEC: return CLI_RUN_NOEXEC;
	default: return CLI_RUN_FAILED;
	}
}

int cmd_run(int argc, char **argv)
{
	struct record_verb r = {.verb = cli_verb_find("run"), .o.follow = true, .path_fd = -1};
	struct launch_plan plan;
	struct entry_way entry;
	struct heft_error err = {0};
	struct recorder_result result = {0};
	char preload[4096];
	int first;
	int rc = cli_parse_options(r.verb, argc, argv, record_verb_set, &r, &first);
	if (rc != CLI_GO_ON)
		return rc;
	if ((rc = record_verb_check(&r)))
		return rc;
	if (first >= argc)
		return cli_usage_error(r.verb, "no command given");
	r.o.argv = argv + first;
	r.o.argc = argc - first;
	r.o.plan = &plan;
	r.o.preload = preload;
	if ((rc = cli_locate_preload(preload, sizeof preload, &err)) ||
	    (rc = launch_inspect(argv[first], r.via, &plan, &err)) ||
	    (rc = entry_way_init(&entry, &r.o, &err)))
		return refused(&err, rc);
	if (plan.own_malloc_text[0] && plan.way == LAUNCH_PRELOAD && !r.quiet)
		cli_say(plan.own_malloc_text);
	if (r.o.verbose && !r.quiet) {
		char way[PATH_MAX + 200];
		entry_way_words(&plan, way, sizeof way);
		cli_say(way);
	}
	rc = record_verb_run(&r, &result, &err);
	if (entry_way_give_up(&r.o, &plan, rc, r.quiet, &err))
		rc = record_verb_run(&r, &result, &err);
	if (rc)
		return refused(&err, rc);
	return WIFSIGNALED(result.status) ? 128 + WTERMSIG(result.status)
					  : WEXITSTATUS(result.status);
}
