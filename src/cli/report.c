/* `heft report FILE` loads what the options select and prints one view of it. It prints to stdout after
 * loading, so a bad recording, option or rule file leaves stdout empty. */
#include "cli/cli.h"

#include "cli/progress.h"
#include "cli/selection.h"
#include "findings/finding.h"
#include "hosted/number_parse.h"
#include "profile/leak_suppressions.h"
#include "report/report.h"
#include "report/report_words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SITES_SHOWN = 20, PROCESSES_SHOWN = 10 };

typedef int report_view(FILE *out, const struct profile *p, const struct report_options *o);

struct report_command {
	const struct cli_verb *verb;
	struct cli_selection selection;
	struct report_options options;
	report_view *view;             /* NULL: the report itself */
	const char *view_name, *clash; /* the option that chose the view; a second such option */
	const char *suppressions;      /* a file; NULL: none */
	char *again, *words;           /* owned: the options to repeat, what is selected in words */
};

static int set_view(struct report_command *c, report_view *view, const char *name)
{
	if (c->view && c->view != view && !c->clash)
		c->clash = name;
	if (!c->view)
		c->view_name = name;
	c->view = view;
	return 0;
}

static int set_explain(struct report_command *c, const char *value)
{
	uint64_t number;
	if (number_parse(value, UINT32_MAX, &number) < 0 || !number)
		return cli_usage_error(c->verb, "--explain takes the number of a finding, not '%s'",
				       value);
	c->options.explain = (uint32_t)number;
	return set_view(c, report_explain, "--explain");
}

static int set_option(void *ctx, const struct cli_option *option, const char *value)
{
	struct report_command *c = ctx;
	switch (option->id) {
	case CLI_OPT_ALL: c->options.all_findings = true; return 0;
	case CLI_OPT_EXPLAIN: return set_explain(c, value);
	case CLI_OPT_FULL: c->options.full = true; return 0;
	case CLI_OPT_SUPPRESSIONS: c->suppressions = value; return 0;
	case CLI_OPT_COMPACT: c->options.compact = true; return 0;
	case CLI_OPT_INVERT: c->options.invert = true; return set_view(c, report_tree, "--invert");
	case CLI_OPT_TREE: return set_view(c, report_tree, "--tree");
	case CLI_OPT_THREADS:
		c->options.threads = true;
		return set_view(c, report_threads, "--threads");
	case CLI_OPT_SIZES: c->options.sizes = true; return set_view(c, report_sizes, "--sizes");
	case CLI_OPT_LIFETIMES:
		c->options.lifetimes = true;
		return set_view(c, report_lifetimes, "--lifetimes");
	default: return cli_selection_set(&c->selection, c->verb, option, value);
	}
}

/* Refuses options that do not go together. Returns CLI_GO_ON or the status to end with. */
static int check_options(struct report_command *c)
{
	const struct cli_selection *s = &c->selection;
	bool window = cli_selection_has_window(s);
	if (c->clash && !s->json)
		return cli_usage_error(c->verb, "%s and %s are two views: choose one", c->view_name,
				       c->clash);
	if (c->options.compact && !s->json)
		return cli_usage_error(c->verb, "--compact needs --json");
	if (s->at_text && s->has_sort && s->sort != MEASURE_LIVE_BYTES && s->moment != CLI_AT_TIME)
		return cli_usage_error(
			c->verb,
			"--at %s selects what is live at that moment, so it needs --sort live",
			s->at_text);
	if (s->at_text && !s->json &&
	    (c->view == report_threads || c->view == report_sizes || c->view == report_lifetimes))
		return cli_usage_error(c->verb,
				       "%s shows what happened over time, not a moment (--at): "
				       "select a part with --from and --to",
				       c->view_name);
	if (s->at_text && window)
		return cli_usage_error(
			c->verb, "choose a moment (--at) or a window (--from, --to), not both");
	if (s->sort == MEASURE_GREW_BYTES && !window)
		return cli_usage_error(c->verb,
				       "--sort grew needs a window: --from TIME --to TIME");
	if (c->options.explain &&
	    (s->at_text || window || s->part.has_pid || s->part.thread || s->focus || s->ignore))
		return cli_usage_error(c->verb, "--explain needs the whole recording: heft looks "
						"for findings in no part of it");
	if (s->has_roots && (c->view != report_tree || s->json))
		return cli_usage_error(c->verb, "--processes needs --tree or --invert");
	if (c->view == report_tree && s->sort == MEASURE_LIFETIME)
		return cli_usage_error(
			c->verb,
			"--sort lifetime does not work with a tree: lifetimes do not add up");
	return CLI_GO_ON;
}

static void repeat(FILE *out, const char *option, const char *value)
{
	if (!value)
		return;
	fprintf(out, "%s%s ", ftell(out) > 0 ? " " : "", option);
	words_print_shell(out, value);
}

/* Writes what is selected in words, and the options that select it again. */
static int describe(struct report_command *c)
{
	const struct cli_selection *s = &c->selection;
	size_t size;
	char pid[16];
	snprintf(pid, sizeof pid, "%" PRId32, s->part.pid);
	FILE *out = open_memstream(&c->words, &size);
	if (!out)
		return HEFT_ENOMEM;
	if (s->part.has_pid)
		fprintf(out, "process %s", pid);
	if (s->part.thread)
		fprintf(out, "%sthread %s", s->part.has_pid ? ", " : "", s->part.thread);
	if (fclose(out) != 0)
		return HEFT_ENOMEM;
	c->options.selection = c->words[0] ? c->words : NULL;
	out = open_memstream(&c->again, &size);
	if (!out)
		return HEFT_ENOMEM;
	repeat(out, "--pid", s->part.has_pid ? pid : NULL);
	repeat(out, "--thread", s->part.thread);
	repeat(out, "--focus", s->focus);
	repeat(out, "--ignore", s->ignore);
	repeat(out, "--frames", s->frames);
	repeat(out, "--suppressions", c->suppressions);
	repeat(out, "--at", s->at_text);
	repeat(out, "--from", s->from_text);
	repeat(out, "--to", s->to_text);
	if (fclose(out) != 0)
		return HEFT_ENOMEM;
	c->options.again = c->again[0] ? c->again : NULL;
	return 0;
}

static void choose_span(struct report_command *c)
{
	struct profile_selection *part = &c->selection.part;
	if (!part->has_window)
		return;
	bool instant = part->from_ns == part->to_ns;
	c->options.span = instant ? REPORT_INSTANT : REPORT_WINDOW;
	c->options.from_ns = part->from_ns - c->selection.start_ns;
	c->options.to_ns = part->to_ns - c->selection.start_ns;
	/* At the last moment, what the program did not free is live, although it ended a little
	 * earlier. */
	if (instant && part->to_ns == c->selection.duration_ns)
		part->from_ns = 0;
	if (!c->selection.has_sort)
		c->options.sort = instant ? MEASURE_LIVE_BYTES : MEASURE_GREW_BYTES;
}

/* Sets the time of a moment that has a name; only the recording knows that time. */
static void choose_moment(struct report_command *c, const struct profile *p)
{
	enum cli_moment moment = c->selection.moment;
	if (moment == CLI_AT_UNSAID || moment == CLI_AT_TIME)
		return;
	c->options.span = REPORT_INSTANT;
	c->options.sort = MEASURE_LIVE_BYTES;
	c->options.moment = moment == CLI_AT_END && profile_is_snapshot(p)
				    ? "what was live when it was taken"
				    : cli_moment_words(moment);
	c->options.timeless = moment == CLI_AT_EXIT; /* every process has its own exit */
	c->options.from_ns = c->options.to_ns = moment == CLI_AT_PEAK ? p->totals.peak_time_ns
								      : p->run.duration_ns;
}

/* Takes the measure that was asked for, or the first that the file has. */
static int choose_sort(struct report_command *c, const struct profile *p, const char *path,
		       struct heft_error *err)
{
	static const enum measure_id instead[] = {MEASURE_LIVE_BYTES, MEASURE_ALLOCATED_BYTES};
	if (measure_known(p, c->options.sort))
		return 0;
	if (c->selection.has_sort)
		return heft_fail(err, HEFT_EREFUSED, "%s does not record what --sort %s needs",
				 path, measures[c->options.sort].option);
	for (size_t i = 0; i < sizeof instead / sizeof *instead; i++)
		if (measure_known(p, instead[i])) {
			c->options.sort = instead[i];
			break;
		}
	return 0;
}

static int suppress_leaks(const char *path, struct profile *p, struct heft_error *err)
{
	struct leak_suppressions *s = NULL;
	int rc = path ? leak_suppressions_read(&s, path, err) : 0;
	if (s)
		rc = leak_suppressions_apply(s, p, err);
	leak_suppressions_free(s);
	return rc;
}

static int load(struct report_command *c, const char *path, struct profile **p,
		struct heft_error *err)
{
	struct input_file in;
	int rc = input_file_open(&in, path, err);
	if (rc == 0)
		rc = cli_selection_resolve(&c->selection, &in, err);
	if (rc == 0)
		choose_span(c);
	/* Blocks that live shortly are not in the peak: sort by the number of allocations. */
	if (c->view == report_lifetimes && !c->selection.json && !c->selection.has_sort)
		c->options.sort = MEASURE_ALLOCATIONS;
	if (rc == 0)
		rc = input_file_load(&in, &c->selection.part, p, err);
	input_file_close(&in);
	if (rc == 0)
		choose_moment(c, *p);
	if (rc == 0 && !c->options.moment) /* applying a moment checks what it needs */
		rc = choose_sort(c, *p, path, err);
	if (rc == 0)
		rc = suppress_leaks(c->suppressions, *p, err);
	if (rc == 0)
		rc = cli_selection_apply(&c->selection, *p, err);
	return rc;
}

static bool shows_findings(const struct report_command *c)
{
	return c->selection.json || !c->view || c->view == report_explain;
}

static int write_report(struct report_command *c, const struct profile *p, struct heft_error *err)
{
	struct findings *findings = NULL;
	int rc = 0;
	/* Findings need the whole recording, and only the report itself shows them. */
	bool whole = c->options.span == REPORT_WHOLE && !c->options.selection &&
		     !c->options.focus && !c->options.ignore;
	if (whole && shows_findings(c))
		rc = findings_new(&findings, p);
	uint32_t count = findings ? findings_count(findings) : 0;
	if (rc == 0 && c->options.explain > count)
		rc = heft_fail(err, HEFT_ENOTFOUND, "there is no finding %" PRIu32 " in '%s': %s",
			       c->options.explain, c->options.path,
			       count ? words_many(count, "finding", "findings").text
				     : "it has none");
	c->options.findings = findings;
	if (rc == 0)
		rc = (c->selection.json ? report_json
		      : c->view         ? c->view
					: report_text)(stdout, p, &c->options);
	c->options.findings = NULL;
	findings_free(findings);
	return rc;
}

int cmd_report(int argc, char **argv)
{
	struct report_command c = {.verb = cli_verb_find("report")};
	struct cli_selection *s = &c.selection;
	struct heft_error err = {0};
	struct profile *p = NULL;
	int first, status;

	status = cli_parse_options(c.verb, argc, argv, set_option, &c, &first);
	if (status == CLI_GO_ON)
		status = check_options(&c);
	if (status == CLI_GO_ON)
		status = cli_one_recording(c.verb, argc, argv, first);
	if (status != CLI_GO_ON)
		return status;
	c.options.path = argv[first];
	c.options.color = cli_use_color(s->color, stdout);
	c.options.width = cli_width(stdout);
	c.options.utf8 = cli_is_utf8();
	c.options.focus = s->focus;
	c.options.ignore = s->ignore;
	c.options.sort = s->sort;
	c.options.limit = s->has_limit ? s->limit : s->json ? REPORT_ALL : SITES_SHOWN;
	c.options.processes = s->part.thread ? 0 : s->has_limit ? s->limit : PROCESSES_SHOWN;
	s->part.process_totals = s->json || c.options.threads;
	s->part.judge_events = shows_findings(&c) ? UINT64_MAX : 0;
	s->part.calls = s->json;
	s->part.sizes = c.options.sizes;
	s->part.by_process = c.view == report_tree && !s->json && !s->no_roots;

	struct cli_progress progress;
	cli_progress_attach(&progress, &s->part);
	s->part.ask_servers = true;
	int rc = describe(&c);
	if (rc == 0)
		rc = load(&c, argv[first], &p, &err);
	cli_progress_end(&progress);
	if (rc == 0)
		rc = write_report(&c, p, &err);
	if (rc < 0 && !err.message[0])
		heft_fail(&err, rc, "not enough memory to write the report");
	profile_free(p);
	free(c.again);
	free(c.words);
	if (rc < 0)
		return cli_failed(&err, rc);
	return cli_finish_output(CLI_SUCCESS);
}
