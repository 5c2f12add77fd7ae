/* `heft report FILE`: options to a selection, a profile, and one of its views.
 * Everything it prints goes to stdout, all at once at the end of loading: a bad
 * recording, option or rule file leaves stdout empty. */
#include "cli/cli.h"

#include "cli/progress.h"
#include "findings/finding.h"
#include "import/import.h"
#include "report/report.h"
#include "report/report_words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SITES_SHOWN = 20 };

typedef int report_view(FILE *out, const struct profile *p, const struct report_options *o);

struct report_command {
	const struct cli_verb *verb;
	struct profile_selection selection;
	struct report_options options;
	report_view *view;             /* NULL: the report itself */
	const char *view_name, *clash; /* the option that chose it; another one that did too */
	bool json, has_sort, has_limit;
	struct cli_time from, to, at;
	const char *from_text, *to_text, *at_text; /* as given; NULL: not given */
	const char *frames;
	enum cli_color color;
	char *again, *words; /* owned: options to repeat, what was selected */
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

static int set_time(struct report_command *c, const char *name, const char *value,
		    const char **text, struct cli_time *time)
{
	*text = value;
	if (cli_parse_time(value, time) < 0)
		return cli_usage_error(c->verb, "--%s needs a time (1.5s, 20ms, 50%%), not '%s'",
				       name, value);
	return 0;
}

static int set_option(void *ctx, const struct cli_option *option, const char *value)
{
	struct report_command *c = ctx;
	uint64_t number;
	switch (option->id) {
	case CLI_OPT_JSON:
		c->json = true;
		return 0;
	case CLI_OPT_ALL:
		c->options.all_findings = true;
		return 0;
	case CLI_OPT_FULL:
		c->options.full = true;
		return 0;
	case CLI_OPT_INVERT:
		c->options.invert = true;
		return set_view(c, report_tree, "--invert");
	case CLI_OPT_TREE:
		return set_view(c, report_tree, "--tree");
	case CLI_OPT_THREADS:
		c->options.threads = true;
		return set_view(c, report_threads, "--threads");
	case CLI_OPT_SIZES:
		c->options.sizes = true;
		return set_view(c, report_sizes, "--sizes");
	case CLI_OPT_LIFETIMES:
		c->options.lifetimes = true;
		return set_view(c, report_lifetimes, "--lifetimes");
	case CLI_OPT_FOCUS:
		c->options.focus = value;
		return 0;
	case CLI_OPT_IGNORE:
		c->options.ignore = value;
		return 0;
	case CLI_OPT_THREAD:
		c->selection.thread = value;
		return 0;
	case CLI_OPT_FRAMES:
		c->frames = value;
		return 0;
	case CLI_OPT_SORT:
		c->has_sort = true;
		if (profile_sort_parse(value, &c->options.sort) < 0)
			return cli_usage_error(c->verb, "--sort cannot be '%s'", value);
		return 0;
	case CLI_OPT_NUMBER:
		if (cli_parse_number(value, UINT32_MAX, &number) < 0)
			return cli_usage_error(c->verb, "-n needs a number, not '%s'", value);
		c->options.limit = (size_t)number;
		c->has_limit = true;
		return 0;
	case CLI_OPT_PID:
		if (cli_parse_number(value, INT32_MAX, &number) < 0)
			return cli_usage_error(c->verb, "--pid needs a process id, not '%s'",
					       value);
		c->selection.has_pid = true;
		c->selection.pid = (int32_t)number;
		return 0;
	case CLI_OPT_FROM:
		return set_time(c, "from", value, &c->from_text, &c->from);
	case CLI_OPT_TO:
		return set_time(c, "to", value, &c->to_text, &c->to);
	case CLI_OPT_AT:
		return set_time(c, "at", value, &c->at_text, &c->at);
	case CLI_OPT_COLOR:
		if (cli_parse_color(value, &c->color) < 0)
			return cli_usage_error(c->verb, "--color cannot be '%s'", value);
		return 0;
	default:
		return cli_usage_error(c->verb, "--%s does not work here", option->name);
	}
}

/* What does not go together. Returns CLI_GO_ON or the status to end with. */
static int check_options(struct report_command *c)
{
	bool window = c->from_text || c->to_text;
	if (c->clash && !c->json)
		return cli_usage_error(c->verb, "%s and %s are two views: one at a time",
				       c->view_name, c->clash);
	if (c->at_text && window)
		return cli_usage_error(c->verb, "--at is a moment, --from and --to are a window: "
						"one of them");
	if (c->options.sort == PROFILE_BY_GREW && !window)
		return cli_usage_error(c->verb,
				       "--sort grew is for a window: --from TIME --to TIME");
	if (c->view == report_tree && c->options.sort == PROFILE_BY_LIFETIME)
		return cli_usage_error(c->verb, "lifetimes do not add up to a tree");
	return CLI_GO_ON;
}

static void repeat(FILE *out, const char *option, const char *value)
{
	if (!value)
		return;
	fprintf(out, "%s%s ", ftell(out) > 0 ? " " : "", option);
	words_print_shell(out, value);
}

/* The words for what is selected, and the options that select it again. */
static int describe(struct report_command *c)
{
	size_t size;
	char pid[16];
	snprintf(pid, sizeof pid, "%" PRId32, c->selection.pid);
	FILE *out = open_memstream(&c->words, &size);
	if (!out)
		return HEFT_ENOMEM;
	if (c->selection.has_pid)
		fprintf(out, "process %s", pid);
	if (c->selection.thread)
		fprintf(out, "%sthread %s", c->selection.has_pid ? ", " : "", c->selection.thread);
	if (fclose(out) != 0)
		return HEFT_ENOMEM;
	c->options.selection = c->words[0] ? c->words : NULL;
	out = open_memstream(&c->again, &size);
	if (!out)
		return HEFT_ENOMEM;
	repeat(out, "--pid", c->selection.has_pid ? pid : NULL);
	repeat(out, "--thread", c->selection.thread);
	repeat(out, "--focus", c->options.focus);
	repeat(out, "--ignore", c->options.ignore);
	repeat(out, "--frames", c->frames);
	repeat(out, "--at", c->at_text);
	repeat(out, "--from", c->from_text);
	repeat(out, "--to", c->to_text);
	if (fclose(out) != 0)
		return HEFT_ENOMEM;
	c->options.again = c->again[0] ? c->again : NULL;
	return 0;
}

static int choose_span(struct report_command *c, uint64_t duration, struct heft_error *err)
{
	struct profile_selection *s = &c->selection;
	if (!c->from_text && !c->to_text && !c->at_text)
		return 0;
	s->has_window = true;
	s->from_ns = c->from_text ? cli_time_resolve(&c->from, duration) : 0;
	s->to_ns = c->to_text ? cli_time_resolve(&c->to, duration) : UINT64_MAX;
	if (c->at_text)
		s->from_ns = s->to_ns = cli_time_resolve(&c->at, duration);
	if (c->at_text && s->to_ns > duration)
		return heft_fail(err, HEFT_EUSAGE,
				 "--at is after the end of the recording (%.6f s)",
				 (double)duration / 1e9);
	if (s->to_ns > duration)
		s->to_ns = duration;
	if (s->from_ns > s->to_ns)
		return heft_fail(err, HEFT_EUSAGE,
				 "--from is after --to or after the end of the recording (%.6f s)",
				 (double)duration / 1e9);
	c->options.span = s->from_ns == s->to_ns ? REPORT_INSTANT : REPORT_WINDOW;
	c->options.from_ns = s->from_ns;
	c->options.to_ns = s->to_ns;
	/* The last moment is the end, when everything not freed is live, although the program was
	 * gone a little before. */
	if (c->options.span == REPORT_INSTANT && s->to_ns == duration)
		s->from_ns = 0;
	if (!c->has_sort)
		c->options.sort =
			c->options.span == REPORT_INSTANT ? PROFILE_BY_LIVE : PROFILE_BY_GREW;
	return 0;
}

/* The measure that was asked for, or the first that the file tells. */
static int choose_sort(struct report_command *c, const struct profile *p, const char *path,
		       struct heft_error *err)
{
	static const enum profile_sort instead[] = {PROFILE_BY_LIVE, PROFILE_BY_ALLOCATED};
	if (profile_tells(p, c->options.sort))
		return 0;
	if (c->has_sort)
		return heft_fail(err, HEFT_EREFUSED, "%s does not tell what --sort %s needs", path,
				 profile_sort_name(c->options.sort));
	for (size_t i = 0; i < sizeof instead / sizeof *instead; i++)
		if (profile_tells(p, instead[i])) {
			c->options.sort = instead[i];
			break;
		}
	return 0;
}

static int load(struct report_command *c, const char *path, struct profile **p,
		struct heft_error *err)
{
	struct trace_reader *reader = NULL;
	*p = NULL;
	int rc = 0;
	if (c->from_text || c->to_text || c->at_text) {
		rc = trace_reader_open(&reader, path, err);
		if (rc == 0)
			rc = choose_span(c, trace_reader_contents(reader)->duration_ns, err);
		trace_reader_close(reader);
		c->selection.has_window = true;
		if (rc == HEFT_EFORMAT) /* another format has no times: loading it says so */
			rc = 0;
	}
	if (rc == 0)
		rc = import_profile(p, path, &c->selection, err);
	if (rc == 0)
		rc = choose_sort(c, *p, path, err);
	if (rc == 0)
		rc = cli_apply_frame_rules(*p, c->frames, err);
	if (rc == 0 && (c->options.focus || c->options.ignore))
		rc = profile_filter(*p, c->options.focus, c->options.ignore, err);
	return rc;
}

static int write_report(struct report_command *c, const struct profile *p)
{
	struct findings *findings = NULL;
	int rc = 0;
	/* Findings are of whole recordings, and only the report itself shows them. */
	bool whole = c->options.span == REPORT_WHOLE && !c->options.selection &&
		     !c->options.focus && !c->options.ignore;
	if (whole && (c->json || !c->view))
		rc = findings_new(&findings, p);
	c->options.findings = findings;
	if (rc == 0)
		rc = (c->json   ? report_json
		      : c->view ? c->view
				: report_text)(stdout, p, &c->options);
	c->options.findings = NULL;
	findings_free(findings);
	return rc;
}

int cmd_report(int argc, char **argv)
{
	struct report_command c = {.verb = cli_verb_find("report"), .color = CLI_COLOR_AUTO};
	struct heft_error err = {0};
	struct profile *p = NULL;
	int first, status;

	status = cli_parse_options(c.verb, argc, argv, set_option, &c, &first);
	if (status == CLI_GO_ON)
		status = check_options(&c);
	if (status != CLI_GO_ON)
		return status;
	if (first == argc)
		return cli_usage_error(c.verb, "which recording?");
	if (first + 1 < argc)
		return cli_usage_error(c.verb, "one recording at a time; '%s' is one too many",
				       argv[first + 1]);
	c.options.path = argv[first];
	c.options.color = cli_use_color(c.color, stdout);
	c.options.width = cli_width(stdout);
	c.options.utf8 = cli_is_utf8();
	if (!c.has_limit)
		c.options.limit = c.json ? REPORT_ALL : SITES_SHOWN;
	c.selection.process_totals = c.json || c.options.threads;
	c.selection.sizes = c.options.sizes;

	struct cli_progress progress;
	cli_progress_attach(&progress, &c.selection);
	c.selection.ask_servers = true;
	int rc = describe(&c);
	if (rc == 0)
		rc = load(&c, argv[first], &p, &err);
	cli_progress_end(&progress);
	if (rc == 0)
		rc = write_report(&c, p);
	if (rc < 0 && !err.message[0])
		heft_fail(&err, rc, "not enough memory to write the report");
	profile_free(p);
	free(c.again);
	free(c.words);
	if (rc < 0) {
		cli_print_error(&err);
		return rc == HEFT_EUSAGE ? CLI_USAGE : CLI_FAILED;
	}
	return cli_finish_output(CLI_SUCCESS);
}
