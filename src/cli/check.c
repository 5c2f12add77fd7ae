/* `heft check --budget FILE (RECORDING | -- CMD ...)`: exits with 0 if every rule holds, with 1 if not.
 *
 * It reads the budget first, so that a command never runs for a budget that cannot be checked. It runs a
 * command as `heft run` does and removes the recording afterwards, unless -o names it. The command keeps
 * its own input and output, so heft writes to stderr then. A command that fails has not done its work and
 * its numbers mean nothing: the check fails too, and updates nothing. */
#include "cli/cli.h"

#include "cli/entry_way.h"
#include "cli/record_verb.h"
#include "cli/selection.h"
#include "findings/finding.h"
#include "hosted/end_words.h"
#include "hosted/text_file.h"
#include "profile/budget.h"
#include "record/launch.h"
#include "record/recorder.h"
#include "report/report_budget.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct check {
	const struct cli_verb *verb;
	struct cli_selection selection;
	const char *budget_path, *output, *recording;
	char **argv;
	int argc; /* words of the command; 0: a recording is given */
	bool update, force, verbose;
	bool ignore_unseen; /* check what was recorded, even if it is the smaller part */
	bool first;         /* there is no budget yet */
	uint64_t headroom;  /* percent */

	struct budget *budget;
	struct budget_result *results;
	struct profile *profile;
	struct findings *found;
	struct budget_finding *findings; /* `found`, as budgets see it */
	size_t finding_count;
	struct recorder_result result;
	char folder[PATH_MAX]; /* of the command's recording, to be removed; "": none */
	char path[PATH_MAX];
};

static int parse_percent(const char *text, uint64_t *percent)
{
	char number[16];
	size_t length = strlen(text);
	if (length && text[length - 1] == '%')
		length--;
	if (length >= sizeof number)
		return HEFT_EUSAGE;
	memcpy(number, text, length);
	number[length] = 0;
	return number_parse(number, 1000, percent);
}

static int set_option(void *ctx, const struct cli_option *option, const char *value)
{
	struct check *c = ctx;
	switch (option->id) {
	case CLI_OPT_BUDGET: c->budget_path = value; return 0;
	case CLI_OPT_UPDATE: c->update = true; return 0;
	case CLI_OPT_HEADROOM:
		if (parse_percent(value, &c->headroom) < 0)
			return cli_usage_error(
				c->verb, "--headroom needs a percentage (10%%), not '%s'", value);
		return 0;
	case CLI_OPT_OUTPUT: c->output = value; return 0;
	case CLI_OPT_FORCE: c->force = true; return 0;
	case CLI_OPT_VERBOSE: c->verbose = true; return 0;
	case CLI_OPT_IGNORE_UNSEEN: c->ignore_unseen = true; return 0;
	default: return cli_selection_set(&c->selection, c->verb, option, value);
	}
}

static int take_operands(struct check *c, int argc, char **argv, int first, int command)
{
	int operands = argc - first;
	if (!c->budget_path)
		return cli_usage_error(c->verb, "no budget given: --budget FILE names it");
	if (command < 0) {
		if (operands == 0)
			return cli_usage_error(
				c->verb,
				"nothing to check: give a recording, or a command after --");
		if (operands > 1)
			return cli_usage_error(c->verb,
					       "one recording at a time; a command goes after --");
		if (c->output || c->force)
			return cli_usage_error(c->verb, "-o and --force need a command to record");
		c->recording = argv[first];
		return CLI_GO_ON;
	}
	if (command == 0)
		return cli_usage_error(c->verb, "no command after --");
	if (operands > command)
		return cli_usage_error(c->verb, "give a recording or a command, not both");
	c->argv = argv + first;
	c->argc = operands;
	return CLI_GO_ON;
}

/* ---- the budget */

static int parse_budget(struct budget **b, const char *name, const char *text, size_t size,
			struct heft_error *err)
{
	static struct budget_kind kinds[FINDING_KINDS];
	for (unsigned i = 0; i < FINDING_KINDS; i++)
		kinds[i] = (struct budget_kind){finding_kind_name((enum finding_kind)i),
						finding_kind_needs((enum finding_kind)i)};
	return budget_parse(b, name, text, size, kinds, FINDING_KINDS, err);
}

static int load_budget(struct check *c, struct heft_error *err)
{
	char *text = NULL;
	size_t size = 0;
	int rc = text_file_read(c->budget_path, "a budget", BUDGET_LARGEST, &text, &size, err);
	c->first = rc == HEFT_ENOTFOUND;
	if (c->first && c->update)
		rc = parse_budget(&c->budget, c->budget_path, budget_starter,
				  strlen(budget_starter), err);
	else if (c->first)
		return heft_fail(
			err, rc,
			"%s: there is no such budget\n"
			"heft check --update --budget %s ... writes one from what is measured",
			c->budget_path, c->budget_path);
	else if (rc == 0)
		rc = parse_budget(&c->budget, c->budget_path, text, size, err);
	free(text);
	return rc;
}

static int update_budget(struct check *c, const struct report_budget *r, FILE *out, int *status,
			 struct heft_error *err)
{
	enum budget_update *updates = calloc(c->budget->count, sizeof *updates);
	struct budget *renewed = NULL;
	char *text = NULL;
	size_t size;
	bool changed = c->first;
	int rc = updates ? budget_renew(c->budget, c->results, (uint32_t)c->headroom * 10000,
					updates, &text, &size)
			 : HEFT_ENOMEM;
	if (rc == HEFT_ENOMEM)
		heft_fail(err, rc, "not enough memory to renew the budget");
	if (rc == 0)
		rc = parse_budget(&renewed, c->budget_path, text, size, err);
	for (uint32_t i = 0; rc == 0 && i < c->budget->count; i++) {
		changed = changed || updates[i] == BUDGET_CHANGED;
		if (updates[i] == BUDGET_KEPT_BROKEN)
			*status = CLI_FAILED;
	}
	if (rc == 0 && changed)
		rc = text_file_replace(c->budget_path, text, size, err);
	if (rc == 0 && !c->selection.json && (!c->selection.quiet || *status))
		rc = report_budget_update(out, r, renewed, updates, (double)c->headroom, c->first);
	budget_free(renewed);
	free(updates);
	free(text);
	return rc;
}

/* ---- the command */

/* Makes a folder for the recording. The path is a pattern for the recorder, so % is written twice. */
static int make_folder(struct check *c, struct heft_error *err)
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

static int command_failed(const struct check *c, int status, struct heft_error *err)
{
	return heft_fail(err, HEFT_EREFUSED, "%s %s %s; the budget was not checked", c->argv[0],
			 WIFSIGNALED(status) ? "was" : "failed with", words_of_status(status).text);
}

/* Whether a rule needs one of these (enum profile_has). */
static bool asks_for(const struct budget *b, uint32_t has)
{
	bool asked = false;
	for (uint32_t i = 0; i < b->count; i++)
		asked = asked || budget_rule_needs(&b->rules[i]) & has;
	return asked;
}

static int run_command(struct check *c, struct heft_error *err)
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
		.say = c->selection.quiet ? NULL : cli_say,
		.leaks = asks_for(c->budget, looks),
	};
	struct entry_way entry;
	int rc = cli_locate_preload(preload, sizeof preload, err);
	if (o.leaks || asks_for(c->budget, PROFILE_HAS_LEDGER))
		o.take_ledger = record_take_ledger;
	if (rc == 0)
		rc = launch_inspect(c->argv[0], LAUNCH_VIA_AUTO, &plan, err);
	if (rc == 0)
		rc = entry_way_init(&entry, &o, err);
	if (rc < 0)
		return rc;
	if (plan.own_malloc_text[0] && plan.way == LAUNCH_PRELOAD && !c->selection.quiet)
		cli_say(plan.own_malloc_text);
	if (!c->output) {
		rc = make_folder(c, err);
		o.output = c->path;
	}
	if (rc == 0)
		rc = recorder_run(&o, result, err);
	if (entry_way_give_up(&o, &plan, rc, c->selection.quiet, err))
		rc = recorder_run(&o, result, err);
	recorder_result_fini(result);
	if (rc < 0)
		return rc;
	c->recording = result->path;
	if (result->problem.code) {
		*err = result->problem;
		return result->problem.code;
	}
	if (!WIFEXITED(result->status) || WEXITSTATUS(result->status) != 0)
		return command_failed(c, result->status, err);
	return 0;
}

static void clean_up(struct check *c)
{
	if (c->folder[0]) {
		char path[PATH_MAX + 32];
		snprintf(path, sizeof path, "%s/recording.heft", c->folder);
		unlink(path);
		rmdir(c->folder);
	}
	findings_free(c->found);
	profile_free(c->profile);
	free(c->findings);
	free(c->results);
	budget_free(c->budget);
}

/* ---- all together */

static bool asks_for_findings(const struct budget *b)
{
	bool asked = false;
	for (uint32_t i = 0; i < b->count; i++)
		asked = asked || !b->rules[i].measure;
	return asked;
}

/* Finds what the report would find, if a rule asks for findings. */
static int diagnose(struct check *c)
{
	if (!asks_for_findings(c->budget))
		return 0;
	int rc = findings_new(&c->found, c->profile);
	if (rc < 0)
		return rc;
	uint32_t count = findings_count(c->found);
	c->findings = calloc((size_t)count + 1, sizeof *c->findings);
	if (!c->findings)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		const struct finding *f = findings_get(c->found, i);
		c->findings[i] = (struct budget_finding){finding_kind_name(f->kind), f->summary};
	}
	c->finding_count = count;
	return 0;
}

/* Limits on the recorded part would hold whatever the program does with the memory heft does not see. */
static int refuse_blind_update(const struct check *c, struct heft_error *err)
{
	return heft_fail(err, HEFT_EREFUSED,
			 "heft cannot make a budget of this recording: %.*s\n--ignore-unseen makes "
			 "one of what was recorded",
			 (int)strcspn(c->profile->unseen, "\n"), c->profile->unseen);
}

/* Loads the whole run. With --at, what is live is what was live at that moment; everything else that rules
 * measure, and the findings, are of the whole run. */
static int load_moment(struct check *c, const struct input_file *in, struct heft_error *err)
{
	struct cli_selection *s = &c->selection;
	struct profile *instant = NULL;
	struct profile_selection at = s->part;
	bool timed = s->part.has_window &&
		     s->duration_ns != UINT64_MAX; /* without times, loading refuses --at */
	s->part.judge_events = asks_for_findings(c->budget) ? UINT64_MAX : 0;
	if (timed)
		s->part.has_window = false;
	s->part.keep = timed;
	s->part.mapped = asks_for(c->budget, PROFILE_HAS_MAPPED);
	int rc = input_file_load(in, &s->part, &c->profile, err);
	if (rc == 0)
		rc = cli_apply_frame_rules(c->profile, s->frames, err);
	if (rc == 0 && diagnose(c) < 0)
		rc = heft_fail(err, HEFT_ENOMEM, "not enough memory to look for findings");
	if (rc < 0 || !timed || cli_selection_at_end(s))
		return rc < 0 ? rc : cli_selection_apply_moment(s, c->profile, err);
	at.part_of = c->profile;
	rc = input_file_load(in, &at, &instant, err);
	if (rc == 0)
		profile_take_live(c->profile, instant);
	profile_free(instant);
	return rc;
}

static int load_profile(struct check *c, struct heft_error *err)
{
	struct cli_selection *s = &c->selection;
	struct input_file in;
	int rc = input_file_open(&in, c->recording, err);
	if (rc == 0)
		rc = cli_selection_resolve(s, &in, err);
	if (rc == 0)
		rc = load_moment(c, &in, err);
	input_file_close(&in);
	return rc;
}
static int check(struct check *c, int *status, struct heft_error *err)
{
	int rc = load_budget(c, err);
	if (rc == 0 && c->argc)
		rc = run_command(c, err);
	if (rc == 0)
		rc = load_profile(c, err);
	/* What is live at one moment is well defined for several processes too. */
	if (rc == 0 && (!c->selection.at_text || c->selection.moment == CLI_AT_END))
		rc = budget_refuse(c->budget, c->profile, err);
	if (rc < 0)
		return rc;
	if (c->ignore_unseen)
		c->profile->unseen = NULL; /* a note of the profile still warns */
	if (c->update && c->profile->unseen)
		return refuse_blind_update(c, err);
	c->results = calloc(c->budget->count, sizeof *c->results);
	rc = c->results ? budget_measure(c->budget, c->profile, c->findings, c->finding_count,
					 c->results)
			: HEFT_ENOMEM;
	if (rc < 0)
		return heft_fail(err, rc, "not enough memory to check the budget");
	FILE *out = c->argc ? stderr : stdout;
	const struct report_budget r = {
		.budget = c->budget,
		.results = c->results,
		.findings = c->findings,
		.profile = c->profile,
		.recording = c->folder[0] ? NULL : c->recording,
		.at = c->selection.at_text,
		.width = cli_width(out),
		.color = cli_use_color(c->selection.color, out),
		.verbose = c->verbose,
	};
	uint32_t broken = report_budget_broken(&r);
	if (c->selection.json)
		report_budget_json(stdout, &r);
	/* A rule that is broken stays broken; a rule that holds so far may be broken later. */
	if (!c->profile->run.complete && (c->update || !broken))
		return heft_fail(
			err, HEFT_EREFUSED,
			"%s is incomplete (cut off, or still being written)\n%s", c->recording,
			c->update ? "a budget needs the whole run"
				  : "every rule holds so far, but this is not the whole run");
	if (c->update)
		return update_budget(c, &r, out, status, err);
	*status = broken ? CLI_FAILED : CLI_SUCCESS;
	if (!c->selection.json && (broken || !c->selection.quiet))
		report_budget_text(out, &r);
	return 0;
}

int cmd_check(int argc, char **argv)
{
	struct check c = {.verb = cli_verb_find("check"), .headroom = 10};
	struct heft_error err = {0};
	int first, command = cli_words_after_dashes(argc, argv);
	int status = cli_parse_options(c.verb, argc, argv, set_option, &c, &first);
	if (status != CLI_GO_ON)
		return status;
	status = take_operands(&c, argc, argv, first, command);
	if (status != CLI_GO_ON)
		return status;
	status = CLI_SUCCESS;
	int rc = check(&c, &status, &err);
	clean_up(&c);
	if (rc < 0) {
		cli_print_error(&err);
		return CLI_FAILED;
	}
	return cli_finish_output(status);
}
