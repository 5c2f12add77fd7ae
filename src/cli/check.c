/* `heft check --budget FILE (RECORDING | -- CMD ...)`: exits with 0 if every rule holds, with 1 if not.
 *
 * It reads budget and baseline first, so that a command never runs for a budget that cannot be checked. The command keeps its
 * own input and output, so heft writes to stderr then.
 *
 * A run is accepted as the next baseline only if it was whole and holds every limit that the budget gives as a number. Limits
 * that are relative to the baseline are no reason to refuse it: they move with it. */
#include "cli/cli.h"

#include "cli/check_command.h"
#include "cli/selection.h"
#include "findings/finding.h"
#include "hosted/text_file.h"
#include "profile/baseline.h"
#include "report/report_budget.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The last accepted run, and the next one. */
struct check_baseline {
	char *path; /* NULL: none was named */
	char *text; /* of the file; NULL: there is no file yet */
	size_t size;
	struct baseline *last; /* what the text says; NULL with it */
	bool update;
	char *new_text; /* of this run, if it is to be accepted */
	size_t new_size;
	struct budget_result *now; /* by the numbers of `last` */
};

struct check {
	const struct cli_verb *verb;
	struct cli_selection selection;
	const char *budget_option, *baseline_option, *junit_option; /* as given, with %e */
	char *budget_path, *junit_path;
	const char *recording;
	struct check_command command;
	bool update, verbose, annotate;
	bool ignore_unseen; /* check what was recorded, even if it is the smaller part */
	bool first;         /* there is no budget yet */
	uint64_t headroom;  /* percent */

	struct budget *budget;
	struct budget_result *results;
	struct check_baseline baseline;
	struct report_baseline told_baseline;
	struct profile *profile;
	struct findings *found;
	struct budget_finding *findings; /* `found`, as budgets see it */
	size_t finding_count;
	bool told; /* the JUnit file was written, or could not be */
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

/* A runner of tests starts heft, and who wants new baselines starts the runner. */
static bool asked_to_update(void)
{
	const char *set = getenv("HEFT_UPDATE_BASELINE");
	return set && *set && strcmp(set, "0") != 0;
}

/* GitHub's documentation promises this variable. */
static bool in_github(void)
{
	const char *set = getenv("GITHUB_ACTIONS");
	return set && strcmp(set, "true") == 0;
}

static int set_option(void *ctx, const struct cli_option *option, const char *value)
{
	struct check *c = ctx;
	switch (option->id) {
	case CLI_OPT_BUDGET: c->budget_option = value; return 0;
	case CLI_OPT_BASELINE: c->baseline_option = value; return 0;
	case CLI_OPT_UPDATE_BASELINE: c->baseline.update = true; return 0;
	case CLI_OPT_JUNIT: c->junit_option = value; return 0;
	case CLI_OPT_ANNOTATIONS:
		c->annotate = value[0] == 'g' || (value[0] == 'a' && in_github());
		return 0;
	case CLI_OPT_FAILED_ONLY: c->command.failed_only = true; return 0;
	case CLI_OPT_UPDATE: c->update = true; return 0;
	case CLI_OPT_HEADROOM:
		if (parse_percent(value, &c->headroom) < 0)
			return cli_usage_error(
				c->verb, "--headroom needs a percentage (10%%), not '%s'", value);
		return 0;
	case CLI_OPT_OUTPUT: c->command.output = value; return 0;
	case CLI_OPT_FORCE: c->command.force = true; return 0;
	case CLI_OPT_VERBOSE: c->verbose = true; return 0;
	case CLI_OPT_IGNORE_UNSEEN: c->ignore_unseen = true; return 0;
	default: return cli_selection_set(&c->selection, c->verb, option, value);
	}
}

static int take_operands(struct check *c, int argc, char **argv, int first, int command)
{
	int operands = argc - first;
	if (!c->budget_option)
		return cli_usage_error(c->verb, "no budget given: --budget FILE names it");
	if (c->baseline.update && !c->baseline_option)
		return cli_usage_error(c->verb,
				       "--update-baseline needs --baseline FILE, which names it");
	if (c->baseline_option && asked_to_update())
		c->baseline.update = true;
	if (c->baseline_option && c->selection.at_text)
		return cli_usage_error(c->verb, "--at and --baseline exclude each other: a "
						"baseline is of the whole run");
	if (c->command.failed_only && !c->command.output)
		return cli_usage_error(c->verb, "--failed-only needs -o FILE");
	if (command < 0) {
		if (operands == 0)
			return cli_usage_error(
				c->verb,
				"nothing to check: give a recording, or a command after --");
		if (operands > 1)
			return cli_usage_error(c->verb,
					       "one recording at a time; a command goes after --");
		if (c->command.output || c->command.force)
			return cli_usage_error(c->verb, "-o and --force need a command to record");
		c->recording = argv[first];
		return CLI_GO_ON;
	}
	if (command == 0)
		return cli_usage_error(c->verb, "no command after --");
	if (operands > command)
		return cli_usage_error(c->verb, "give a recording or a command, not both");
	c->command.argv = argv + first;
	c->command.argc = operands;
	c->command.quiet = c->selection.quiet;
	return CLI_GO_ON;
}

/* ---- the budget */

static const struct budget_kind *finding_kinds(void)
{
	static struct budget_kind kinds[FINDING_KINDS];
	for (unsigned i = 0; i < FINDING_KINDS; i++)
		kinds[i] = (struct budget_kind){finding_kind_name((enum finding_kind)i),
						finding_kind_needs((enum finding_kind)i)};
	return kinds;
}

static int parse_budget(struct budget **b, const char *name, const char *text, size_t size,
			struct heft_error *err)
{
	return budget_parse(b, name, text, size, finding_kinds(), FINDING_KINDS, err);
}

/* With a baseline, the first budget allows so much more than that. */
static int parse_starter(struct check *c, struct heft_error *err)
{
	char *text;
	int length = c->baseline_option ? asprintf(&text, BUDGET_RELATIVE_STARTER, c->headroom,
						   c->headroom, c->headroom)
					: asprintf(&text, "%s", budget_starter);
	if (length < 0)
		return heft_fail(err, HEFT_ENOMEM, "not enough memory for a budget");
	int rc = parse_budget(&c->budget, c->budget_path, text, (size_t)length, err);
	free(text);
	return rc;
}

static int load_budget(struct check *c, struct heft_error *err)
{
	char *text = NULL;
	size_t size = 0;
	int rc = text_file_read(c->budget_path, "a budget", BUDGET_LARGEST, &text, &size, err);
	c->first = rc == HEFT_ENOTFOUND;
	if (c->first && c->update)
		rc = parse_starter(c, err);
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

/* ---- the baseline */

static int load_baseline(struct check *c, struct heft_error *err)
{
	struct check_baseline *b = &c->baseline;
	int rc = 0;
	const struct budget_rule *relative = budget_first_relative(c->budget);
	if (!b->path && relative)
		return heft_fail(err, HEFT_EREFUSED,
				 "%s:%u: this rule needs a baseline\n--baseline FILE names it",
				 c->budget_path, relative->line);
	if (b->path)
		rc = text_file_read(b->path, "a baseline", BASELINE_LARGEST, &b->text, &b->size,
				    err);
	if (rc == HEFT_ENOTFOUND && !b->update)
		return heft_fail(err, rc,
				 "%s: there is no such baseline\n--update-baseline makes one from "
				 "what is measured",
				 b->path);
	if (rc == HEFT_ENOTFOUND)
		rc = 0;
	if (rc == 0 && b->text)
		rc = baseline_parse(&b->last, b->path, b->text, b->size, finding_kinds(),
				    FINDING_KINDS, err);
	return rc;
}

/* What this run measures, as a baseline; the limits that are relative follow it. */
static int propose_baseline(struct check *c, struct heft_error *err)
{
	struct check_baseline *b = &c->baseline;
	const struct baseline_source from = {
		.profile = c->profile,
		.rules = c->budget,
		.kinds = finding_kinds(),
		.kind_count = FINDING_KINDS,
		.findings = c->findings,
		.finding_count = c->finding_count,
	};
	struct baseline *next = NULL;
	if (c->profile->run.rate_bytes)
		return heft_fail(err, HEFT_EREFUSED,
				 "%s is sampled: a baseline needs an exact recording",
				 c->recording);
	int rc = baseline_text(&from, &b->new_text, &b->new_size);
	if (rc == 0)
		rc = baseline_parse(&next, b->path, b->new_text, b->new_size, from.kinds,
				    from.kind_count, NULL);
	if (rc == 0)
		budget_resolve(c->budget, next->measured);
	baseline_free(next);
	return rc < 0 ? heft_fail(err, HEFT_ENOMEM, "not enough memory for a baseline") : 0;
}

/* Measures the numbers of the last baseline again. */
static int compare_baseline(struct check *c)
{
	struct check_baseline *b = &c->baseline;
	if (!b->last)
		return 0;
	b->now = calloc(b->last->measured->count, sizeof *b->now);
	c->told_baseline = (struct report_baseline){
		.name = b->path, .measured = b->last->measured, .now = b->now};
	int rc = b->now ? budget_measure(b->last->measured, c->profile, c->findings,
					 c->finding_count, b->now)
			: HEFT_ENOMEM;
	return rc < 0 ? rc : baseline_find_growth(b->last, c->profile, c->budget, c->results);
}

static int accept_baseline(struct check *c, const struct report_budget *r, FILE *out, int status,
			   struct heft_error *err)
{
	struct check_baseline *b = &c->baseline;
	bool same = b->text && b->size == b->new_size && memcmp(b->text, b->new_text, b->size) == 0;
	if (status)
		return heft_fail(err, HEFT_EREFUSED,
				 "%s was not written: rules with limits of their own do not hold",
				 b->path);
	int rc = same ? 0 : text_file_replace(b->path, b->new_text, b->new_size, err);
	if (rc == 0 && !c->selection.json && !c->selection.quiet)
		rc = report_baseline_update(out, r, b->path,
					    !b->text ? REPORT_FIRST
					    : same   ? REPORT_KEPT
						     : REPORT_RENEWED);
	return rc;
}

static void clean_up(struct check *c)
{
	findings_free(c->found);
	profile_free(c->profile);
	free(c->findings);
	free(c->results);
	budget_free(c->budget);
	baseline_free(c->baseline.last);
	free(c->baseline.path);
	free(c->baseline.text);
	free(c->baseline.new_text);
	free(c->baseline.now);
	free(c->budget_path);
	free(c->junit_path);
}

/* ---- all together */

/* What the rules need (enum profile_has). */
static uint32_t needs_of(const struct budget *b)
{
	uint32_t needs = 0;
	for (uint32_t i = 0; i < b->count; i++)
		needs |= budget_rule_needs(&b->rules[i]);
	return needs;
}

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
	s->part.mapped = needs_of(c->budget) & PROFILE_HAS_MAPPED;
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

static int measure(struct check *c, struct heft_error *err)
{
	int rc = c->baseline.update ? propose_baseline(c, err) : 0;
	if (rc < 0)
		return rc;
	if (!c->baseline.update)
		budget_resolve(c->budget, c->baseline.last ? c->baseline.last->measured : NULL);
	c->results = calloc(c->budget->count, sizeof *c->results);
	rc = c->results ? budget_measure(c->budget, c->profile, c->findings, c->finding_count,
					 c->results)
			: HEFT_ENOMEM;
	for (uint32_t i = 0; rc == 0 && c->baseline.update && i < c->budget->count; i++)
		if (c->budget->rules[i].relative.is && !c->results[i].unknown)
			c->results[i].holds = true; /* this run is what it will be compared with */
	if (rc == 0)
		rc = compare_baseline(c);
	return rc < 0 ? heft_fail(err, rc, "not enough memory to check the budget") : 0;
}

/* ---- what test suites read */

static int write_junit(const struct check *c, const struct report_budget *r,
		       const struct heft_error *failed, struct heft_error *err)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	if (out && r)
		report_budget_junit(out, r);
	else if (out)
		report_budget_junit_failed(
			out, c->budget_path, (const char *const *)c->command.argv,
			(uint32_t)c->command.argc,
			c->command.skipped ? REPORT_SKIPPED : REPORT_FAILED, failed->message);
	bool whole = out && !ferror(out);
	int rc = out && fclose(out) == 0 && whole
			 ? text_file_replace(c->junit_path, text, size, err)
			 : heft_fail(err, HEFT_ENOMEM, "not enough memory for %s", c->junit_path);
	free(text);
	return rc;
}

/* The folder that GitHub's runner has the repository in. */
static const char *repository(char *here, size_t size)
{
	const char *root = getenv("GITHUB_WORKSPACE");
	return root && *root ? root : getcwd(here, size);
}

/* What the rules came to, for other programs. */
static void tell(const struct check *c, const struct report_budget *r, FILE *out)
{
	char here[PATH_MAX];
	if (c->selection.json)
		report_budget_json(stdout, r);
	if (c->annotate)
		report_budget_github(c->selection.json ? stderr : out, r,
				     repository(here, sizeof here));
}

static int load_all(struct check *c, struct heft_error *err)
{
	int rc = load_budget(c, err);
	if (rc == 0)
		rc = load_baseline(c, err);
	if (rc == 0 && c->command.argc) {
		rc = check_command_run(&c->command, needs_of(c->budget), err);
		c->recording = c->command.result.path;
	}
	if (rc == 0)
		rc = load_profile(c, err);
	/* What is live at one moment is well defined for several processes too. */
	if (rc == 0 && (!c->selection.at_text || c->selection.moment == CLI_AT_END))
		rc = budget_refuse(c->budget, c->profile, err);
	return rc;
}

static int check(struct check *c, int *status, struct heft_error *err)
{
	bool writes = c->update || c->baseline.update;
	int rc = load_all(c, err);
	if (rc < 0)
		return rc;
	if (c->ignore_unseen)
		c->profile->unseen = NULL; /* a note of the profile still warns */
	if (writes && c->profile->unseen)
		return refuse_blind_update(c, err);
	rc = measure(c, err);
	if (rc < 0)
		return rc;
	FILE *out = c->command.argc ? stderr : stdout;
	const struct report_budget r = {
		.budget = c->budget,
		.results = c->results,
		.baseline = c->baseline.last ? &c->told_baseline : NULL,
		.findings = c->findings,
		.profile = c->profile,
		.recording = c->command.folder[0] ? NULL : c->recording,
		.at = c->selection.at_text,
		.width = cli_width(out),
		.color = cli_use_color(c->selection.color, out),
		.verbose = c->verbose,
	};
	uint32_t broken = report_budget_broken(&r);
	tell(c, &r, out);
	/* A rule that is broken stays broken; a rule that holds so far may be broken later. */
	if (!c->profile->run.complete && (writes || !broken))
		return heft_fail(err, HEFT_EREFUSED,
				 "%s is incomplete (cut off, or still being written)\n%s",
				 c->recording,
				 writes ? "a budget needs the whole run"
					: "every rule holds so far, but this is not the whole run");
	*status = broken ? CLI_FAILED : CLI_SUCCESS;
	if (c->update) {
		*status = CLI_SUCCESS;
		rc = update_budget(c, &r, out, status, err);
	} else if (!c->selection.json && (broken || (!c->selection.quiet && !c->baseline.update))) {
		report_budget_text(out, &r);
	}
	if (rc == 0 && c->baseline.update)
		rc = accept_baseline(c, &r, out, *status, err);
	if (rc == 0 && c->junit_path) {
		c->told = true;
		rc = write_junit(c, &r, NULL, err);
	}
	return rc;
}

/* Names may depend on the command's. */
static int make_paths(struct check *c, struct heft_error *err)
{
	c->budget_path = check_command_path(&c->command, c->budget_option);
	if (c->baseline_option)
		c->baseline.path = check_command_path(&c->command, c->baseline_option);
	if (c->junit_option)
		c->junit_path = check_command_path(&c->command, c->junit_option);
	if (!c->budget_path || (c->baseline_option && !c->baseline.path) ||
	    (c->junit_option && !c->junit_path))
		return heft_fail(err, HEFT_ENOMEM, "not enough memory for a name");
	return 0;
}

int cmd_check(int argc, char **argv)
{
	struct check c = {.verb = cli_verb_find("check"), .headroom = 10};
	struct heft_error err = {0}, unwritten = {0};
	int first, command = cli_words_after_dashes(argc, argv);
	int status = cli_parse_options(c.verb, argc, argv, set_option, &c, &first);
	if (status != CLI_GO_ON)
		return status;
	status = take_operands(&c, argc, argv, first, command);
	if (status != CLI_GO_ON)
		return status;
	status = CLI_SUCCESS;
	int rc = make_paths(&c, &err);
	if (rc == 0)
		rc = check(&c, &status, &err);
	if (rc < 0) {
		status = c.command.skipped ? CHECK_SKIPPED : CLI_FAILED;
		cli_print_error(&err);
		if (c.junit_path && !c.told && write_junit(&c, NULL, &err, &unwritten) < 0)
			cli_print_error(&unwritten);
	}
	check_command_clean(&c.command, status != CLI_FAILED);
	clean_up(&c);
	return rc < 0 ? status : cli_finish_output(status);
}
