/* A command that `heft check` measures (check_command.h).
 *
 * It runs as under `heft run`. Its recording goes to a folder of its own, so that many of these can run at a time, and is
 * removed afterwards: nobody wants the tree that tests run in to fill with files. A command that fails has not done its work,
 * and its numbers mean nothing. */
#include "cli/check_command.h"

#include "cli/cli.h"
#include "cli/entry_way.h"
#include "cli/record_verb.h"
#include "hosted/end_words.h"
#include "hosted/program_name.h"
#include "record/launch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Makes a folder for the recording. The path is a pattern for the recorder, so % is written twice. */
static int make_folder(struct check_command *c, struct heft_error *err)
{
	const char *base = getenv("TMPDIR");
	if (!base || !*base)
		base = "/tmp";
	if (snprintf(c->folder, sizeof c->folder, "%s/heft-check-XXXXXX", base) >= PATH_MAX - 64 ||
	    !mkdtemp(c->folder)) {
		c->folder[0] = 0;
		return heft_fail_errno(err, "cannot make a folder for the recording in %s", base);
	}
	size_t used = 0;
	for (const char *s = c->folder; *s && used + 32 < sizeof c->path; s++) {
		if (*s == '%')
			c->path[used++] = '%';
		c->path[used++] = *s;
	}
	strcpy(c->path + used, "/recording.heft");
	return 0;
}

static int command_failed(struct check_command *c, struct heft_error *err)
{
	int status = c->result.status;
	c->skipped = WIFEXITED(status) && WEXITSTATUS(status) == CHECK_SKIPPED;
	if (c->skipped)
		return heft_fail(err, HEFT_EREFUSED,
				 "%s was skipped (exit status %d); the budget was not checked",
				 c->argv[0], CHECK_SKIPPED);
	return heft_fail(err, HEFT_EREFUSED, "%s %s %s; the budget was not checked", c->argv[0],
			 WIFSIGNALED(status) ? "was" : "failed with", words_of_status(status).text);
}

int check_command_run(struct check_command *c, uint32_t asked, struct heft_error *err)
{
	const uint32_t looks = PROFILE_HAS_REACHABLE | PROFILE_HAS_TOUCHED | PROFILE_HAS_EQUAL |
			       PROFILE_HAS_PINNED;
	struct launch_plan plan;
	struct recorder_result *result = &c->result;
	char preload[PATH_MAX];
	struct recorder_options o = {
		.argv = c->argv,
		.argc = c->argc,
		.plan = &plan,
		.preload = preload,
		.output = c->output,
		.force = c->force,
		.follow = true,
		.say = c->quiet ? NULL : cli_say,
		.leaks = (asked & looks) != 0,
	};
	struct entry_way entry;
	int rc = cli_locate_preload(preload, sizeof preload, err);
	if (o.leaks || (asked & PROFILE_HAS_LEDGER))
		o.take_ledger = record_take_ledger;
	if (rc == 0)
		rc = launch_inspect(c->argv[0], LAUNCH_VIA_AUTO, &plan, err);
	if (rc == 0)
		rc = entry_way_init(&entry, &o, err);
	if (rc < 0)
		return rc;
	if (plan.own_malloc_text[0] && plan.way == LAUNCH_PRELOAD && !c->quiet)
		cli_say(plan.own_malloc_text);
	if (!c->output) {
		rc = make_folder(c, err);
		o.output = c->path;
	}
	if (rc == 0)
		rc = recorder_run(&o, result, err);
	if (entry_way_give_up(&o, &plan, rc, c->quiet, err))
		rc = recorder_run(&o, result, err);
	recorder_result_fini(result);
	if (rc < 0)
		return rc;
	if (result->problem.code) {
		*err = result->problem;
		return result->problem.code;
	}
	if (!WIFEXITED(result->status) || WEXITSTATUS(result->status) != 0)
		return command_failed(c, err);
	return 0;
}

void check_command_clean(struct check_command *c, bool passed)
{
	if (c->folder[0]) {
		char path[PATH_MAX + 32];
		snprintf(path, sizeof path, "%s/recording.heft", c->folder);
		unlink(path);
		rmdir(c->folder);
	} else if (c->failed_only && passed && c->result.path[0]) {
		unlink(c->result.path);
	}
}

/* "parser-0123456789abcdef" without its hash. */
static int name_length(const char *name)
{
	enum { HASH = 16 };
	size_t length = strlen(name);
	if (length <= HASH + 1 || name[length - HASH - 1] != '-' ||
	    strspn(name + length - HASH, "0123456789abcdef") != HASH)
		return (int)length;
	return (int)(length - HASH - 1);
}

char *check_command_path(const struct check_command *c, const char *pattern)
{
	const char *name = c->argc ? path_file(c->argv[0]) : "";
	char *path = NULL;
	size_t size;
	FILE *out = open_memstream(&path, &size);
	if (!out)
		return NULL;
	for (; *pattern; pattern++) {
		if (c->argc && pattern[0] == '%' && pattern[1] == 'e') {
			fprintf(out, "%.*s", name_length(name), name);
			pattern++;
		} else {
			putc(*pattern, out);
		}
	}
	bool failed = ferror(out);
	if (fclose(out) == 0 && !failed)
		return path;
	free(path);
	return NULL;
}
