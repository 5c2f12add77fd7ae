/* `heft report FILE`: options to a selection, a profile, and one of its forms.
 * Everything it prints goes to stdout, all at once at the end of loading: a bad
 * recording or option leaves stdout empty. */
#include "cli/cli.h"

#include "cli/progress.h"
#include "profile/profile_from_trace.h"
#include "report/report.h"

#include <stdlib.h>
#include <string.h>

enum { SITES_SHOWN = 20 };

struct report_command {
	const struct cli_verb *verb;
	struct profile_selection selection;
	struct report_options options;
	bool json, tree, has_limit, has_from, has_to;
	struct cli_time from, to;
	enum cli_color color;
};

static int set_option(void *ctx, const struct cli_option *option, const char *value)
{
	struct report_command *c = ctx;
	uint64_t number;
	switch (option->id) {
	case CLI_OPT_JSON:
		c->json = true;
		return 0;
	case CLI_OPT_TREE:
		c->tree = true;
		return 0;
	case CLI_OPT_INVERT:
		c->options.invert = true;
		return 0;
	case CLI_OPT_FOCUS:
		c->options.focus = value;
		return 0;
	case CLI_OPT_IGNORE:
		c->options.ignore = value;
		return 0;
	case CLI_OPT_THREAD:
		c->selection.thread = value;
		return 0;
	case CLI_OPT_SORT:
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
		c->has_from = true;
		if (cli_parse_time(value, &c->from) < 0)
			return cli_usage_error(
				c->verb, "--from needs a time (1.5s, 20ms, 50%%), not '%s'", value);
		return 0;
	case CLI_OPT_TO:
		c->has_to = true;
		if (cli_parse_time(value, &c->to) < 0)
			return cli_usage_error(
				c->verb, "--to needs a time (1.5s, 20ms, 50%%), not '%s'", value);
		return 0;
	case CLI_OPT_COLOR:
		if (cli_parse_color(value, &c->color) < 0)
			return cli_usage_error(c->verb, "--color cannot be '%s'", value);
		return 0;
	default:
		return cli_usage_error(c->verb, "--%s does not work here", option->name);
	}
}

static int load(struct report_command *c, const char *path, struct profile **p,
		struct heft_error *err)
{
	struct trace_reader *reader = NULL;
	*p = NULL;
	int rc = trace_reader_open(&reader, path, err);
	if (rc < 0)
		return rc;
	if (c->has_from || c->has_to) {
		uint64_t duration = trace_reader_contents(reader)->duration_ns;
		c->selection.has_window = true;
		c->selection.from_ns = c->has_from ? cli_time_resolve(&c->from, duration) : 0;
		c->selection.to_ns = c->has_to ? cli_time_resolve(&c->to, duration) : UINT64_MAX;
		if (c->selection.to_ns > duration)
			c->selection.to_ns = duration;
		if (c->selection.from_ns > c->selection.to_ns)
			rc = heft_fail(err, HEFT_EUSAGE,
				       "--from is after --to or after the end of the "
				       "recording (%.6f s)",
				       (double)duration / 1e9);
	}
	if (rc == 0)
		rc = profile_from_trace(p, reader, &c->selection, err);
	trace_reader_close(reader);
	if (rc == 0 && (c->options.focus || c->options.ignore))
		rc = profile_filter(*p, c->options.focus, c->options.ignore, err);
	return rc;
}

int cmd_report(int argc, char **argv)
{
	struct report_command c = {.verb = cli_verb_find("report"), .color = CLI_COLOR_AUTO};
	struct heft_error err = {0};
	struct profile *p = NULL;
	int first, status;

	status = cli_parse_options(c.verb, argc, argv, set_option, &c, &first);
	if (status != CLI_GO_ON)
		return status;
	if (first == argc)
		return cli_usage_error(c.verb, "which recording?");
	if (first + 1 < argc)
		return cli_usage_error(c.verb, "one recording at a time; '%s' is one too many",
				       argv[first + 1]);
	if (c.tree && c.options.sort == PROFILE_BY_LIFETIME)
		return cli_usage_error(c.verb, "lifetimes do not add up to a tree");
	if (c.options.invert && !c.tree)
		return cli_usage_error(c.verb, "--invert is for --tree");
	c.options.path = argv[first];
	c.options.color = cli_use_color(c.color, stdout);
	if (!c.has_limit)
		c.options.limit = c.json ? REPORT_ALL : SITES_SHOWN;
	c.selection.process_totals = c.json;

	struct cli_progress progress;
	cli_progress_attach(&progress, &c.selection);
	c.selection.ask_servers = true;
	int rc = load(&c, argv[first], &p, &err);
	cli_progress_end(&progress);
	if (rc == 0) {
		if (c.json)
			rc = report_json(stdout, p, &c.options);
		else if (c.tree)
			rc = report_tree(stdout, p, &c.options);
		else
			rc = report_text(stdout, p, &c.options);
		if (rc < 0)
			heft_fail(&err, rc, "not enough memory to write the report");
	}
	profile_free(p);
	if (rc < 0) {
		cli_print_error(&err);
		return rc == HEFT_EUSAGE ? CLI_USAGE : CLI_FAILED;
	}
	return cli_finish_output(CLI_SUCCESS);
}
