/* `heft export -f FORMAT FILE` writes a profile in another tool's format. src/export has the table of
 * formats. json, which src/report writes, and html, which src/pages writes, are added here: only src/cli
 * may know all three.
 *
 * An output file that exists is refused before the recording is read. Most formats hold one number a
 * stack: --at (what is live at an instant) or --measure chooses it; both together must mean the same. */
#include "cli/cli.h"

#include "cli/selection.h"
#include "cli/view_files.h"
#include "export/export.h"
#include "hosted/program_name.h"
#include "report/report.h"
#include "pages/view_html.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct export_command {
	const struct cli_verb *verb;
	struct cli_selection selection;
	const struct exporter *exporter;
	const char *output;
	struct export_options options;
	bool force, has_measure;
};

static int write_json(FILE *out, const struct profile *p, const struct export_options *o,
		      struct heft_error *err)
{
	struct report_options report = {
		.limit = REPORT_ALL,
		.full = o->full,
		.focus = o->focus,
		.ignore = o->ignore,
		.from_ns = p->chosen.from_ns,
		.to_ns = p->chosen.to_ns,
		.selection = p->chosen.words,
	};
	struct findings *findings = NULL;
	int rc = 0;
	report.sort = o->measure;
	if (p->chosen.from_ns || p->chosen.to_ns != p->run.duration_ns)
		report.span = p->chosen.from_ns == p->chosen.to_ns ? REPORT_INSTANT : REPORT_WINDOW;
	if (o->moment) {
		report.span = REPORT_INSTANT;
		report.sort = MEASURE_LIVE_BYTES;
		report.from_ns = report.to_ns = o->moment_ns;
	}
	if (report.span == REPORT_WHOLE && !p->chosen.words && !o->focus && !o->ignore)
		rc = findings_new(&findings, p);
	report.findings = findings;
	if (rc == 0)
		rc = report_json(out, p, &report);
	findings_free(findings);
	return rc < 0 ? heft_fail(err, rc, "not enough memory to write the report") : 0;
}

static const struct exporter json_exporter = {
	"json", "what heft report --json writes", "json", false, write_json, true, EXPORT_CALLS,
	false};

/* The page needs the recording itself: some of its documents have more than a profile holds. */
static int write_html(FILE *out, const struct profile *p, const struct export_options *o,
		      struct heft_error *err)
{
	(void)p;
	return view_html(out, o->recording, o->source, err);
}

static const struct exporter html_exporter = {
	"html", "one page that opens anywhere", "html", false, write_html, true, EXPORT_MERGED,
	false};

static const struct exporter *find_format(const char *name)
{
	if (strcmp(name, "svg") == 0)
		name = "flamegraph";
	if (strcmp(name, html_exporter.name) == 0)
		return &html_exporter;
	return strcmp(name, json_exporter.name) == 0 ? &json_exporter : exporter_find(name);
}

static int set_option(void *ctx, const struct cli_option *option, const char *value)
{
	struct export_command *c = ctx;
	switch (option->id) {
	case CLI_OPT_FORMAT:
		c->exporter = find_format(value);
		if (!c->exporter)
			return cli_usage_error(c->verb, "no format '%s'", value);
		return 0;
	case CLI_OPT_OUTPUT: c->output = value; return 0;
	case CLI_OPT_FORCE: c->force = true; return 0;
	case CLI_OPT_MEASURE:
		c->has_measure = true;
		c->options.measure = measure_of_option(value);
		c->selection.part.mapped = c->options.measure == MEASURE_MAPPED_BYTES;
		if (c->options.measure == MEASURE_COUNT ||
		    (!measure_is_compared(c->options.measure) && !c->selection.part.mapped))
			return cli_usage_error(c->verb, "--measure cannot be '%s'", value);
		return 0;
	case CLI_OPT_RAW: c->options.raw = true; return 0;
	case CLI_OPT_FULL: c->options.full = true; return 0;
	case CLI_OPT_INVERT: c->options.invert = true; return 0;
	case CLI_OPT_SOURCE: c->options.source = true; return 0;
	default: return cli_selection_set(&c->selection, c->verb, option, value);
	}
}

static bool draws_a_tree(const struct exporter *x)
{
	return strcmp(x->name, "flamegraph") == 0 || strcmp(x->name, "folded") == 0 ||
	       strcmp(x->name, "speedscope") == 0;
}

static bool ends_with(const char *name, size_t length, const char *end)
{
	return length > strlen(end) && strncmp(name + length - strlen(end), end, strlen(end)) == 0;
}

/* The format that the name of the output stands for: tools name their files so. A number at the end is a
 * process, as in dhat.out.123. */
static const char *format_of_name(const char *path)
{
	static const struct {
		const char *end, *format;
	} ends[] = {
		{".pb.gz", "pprof"},
		{".pprof", "pprof"},
		{".pb", "pprof"},
		{".prof", "pprof"},
		{".svg", "flamegraph"},
		{".folded", "folded"},
		{".collapsed", "folded"},
		{".html", "html"},
		{".htm", "html"},
		{".csv", "csv"},
		{".speedscope.json", "speedscope"},
		{".speedscope", "speedscope"},
		{".dhat.json", "dhat"},
		{".dhat", "dhat"},
		{".heaptrack", "heaptrack"},
		{".heaptrack.zst", "heaptrack"},
		{".heaptrack.gz", "heaptrack"},
		{".zst", "heaptrack"},
		{".massif", "massif"},
	};
	const char *name = path_file(path);
	if (strncmp(name, "massif.out", 10) == 0)
		return "massif";
	if (strncmp(name, "dhat.out", 8) == 0)
		return "dhat";
	if (strncmp(name, "heaptrack.", 10) == 0)
		return "heaptrack";
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		if (ends_with(name, strlen(name), ends[i].end))
			return ends[i].format;
	return NULL;
}

static int infer_format(struct export_command *c)
{
	const char *format = c->output ? format_of_name(c->output) : NULL;
	if (format) {
		c->exporter = find_format(format);
		return CLI_GO_ON;
	}
	if (c->output && ends_with(c->output, strlen(c->output), ".json"))
		return cli_usage_error(
			c->verb, "%s could be json, speedscope or dhat: choose the format with -f",
			c->output);
	if (c->output && strcmp(c->output, "-") != 0)
		return cli_usage_error(
			c->verb,
			"the name %s does not say which format to write: choose it with -f",
			c->output);
	return cli_usage_error(c->verb, "no format given: choose it with -f, or by the end of the "
					"output's name (-o x.svg)");
}

/* Refuses options that make no sense together. */
static int check_usage(struct export_command *c)
{
	const struct cli_selection *s = &c->selection;
	enum measure_id of_moment = s->moment == CLI_AT_PEAK ? MEASURE_PEAK_BYTES
							     : MEASURE_LIVE_BYTES;
	if (!c->exporter) {
		int status = infer_format(c);
		if (status != CLI_GO_ON)
			return status;
	}
	if (c->options.raw && strcmp(c->exporter->name, "pprof") != 0 &&
	    c->exporter != &json_exporter)
		return cli_usage_error(c->verb, "--raw works with pprof and json only");
	if (c->options.invert && strcmp(c->exporter->name, "folded") != 0 &&
	    strcmp(c->exporter->name, "flamegraph") != 0)
		return cli_usage_error(c->verb, "--invert works with folded and flamegraph only");
	if (s->has_roots && !draws_a_tree(c->exporter))
		return cli_usage_error(
			c->verb, "--processes works with flamegraph, folded and speedscope only");
	if (c->options.source && c->exporter != &html_exporter)
		return cli_usage_error(c->verb, "--source works with html only");
	if (c->exporter == &html_exporter &&
	    (s->at_text || c->has_measure || cli_selection_has_window(s) || s->part.has_pid ||
	     s->part.thread || s->focus || s->ignore))
		return cli_usage_error(
			c->verb, "html holds the whole recording: select parts of it on the page");
	if (!s->at_text)
		return CLI_GO_ON;
	if (strcmp(c->exporter->name, "massif") == 0)
		return cli_usage_error(c->verb, "massif shows a run over time, not a moment "
						"(--at): select a part of it with --from and --to");
	if (s->at_text && cli_selection_has_window(s))
		return cli_usage_error(
			c->verb,
			"choose a moment (--at) or a part of the run (--from, --to), not both");
	if (c->has_measure && c->options.measure != of_moment)
		return cli_usage_error(
			c->verb, "--at selects what is %s, which --measure %s does not measure",
			s->moment == CLI_AT_PEAK ? "live at the peak" : "live at that moment",
			measures[c->options.measure].option);
	c->options.measure = of_moment;
	/* The numbers are the same; this measure says what they are. */
	if (s->moment == CLI_AT_EXIT && draws_a_tree(c->exporter))
		c->options.measure = MEASURE_LEFT_BYTES;
	c->has_measure = true;
	return CLI_GO_ON;
}

static int load(struct export_command *c, const char *path, struct profile **p,
		struct heft_error *err)
{
	struct cli_selection *s = &c->selection;
	struct input_file in;
	int rc = input_file_open(&in, path, err);
	if (rc == 0)
		rc = cli_selection_resolve(s, &in, err);
	if (cli_selection_at_end(s))
		s->part.has_window = false;
	/* The peak is a measure of its own: what is live stays live at the end. */
	if (s->moment == CLI_AT_PEAK && c->exporter != &json_exporter)
		s->at_text = NULL;
	c->options.live_then = s->at_text != NULL;
	if (rc == 0)
		rc = input_file_load(&in, &s->part, p, err);
	input_file_close(&in);
	c->options.moment = s->moment != CLI_AT_UNSAID && s->moment != CLI_AT_TIME;
	if (rc == 0)
		c->options.moment_ns = s->moment == CLI_AT_PEAK ? (*p)->totals.peak_time_ns
								: (*p)->run.duration_ns;
	if (rc == 0 && !c->exporter->labels && !(*p)->chosen.by_process)
		profile_drop_labels(*p);
	if (rc == 0)
		rc = cli_selection_apply(s, *p, err);
	if (rc == 0 && (s->focus || s->ignore) && !(*p)->site_count && !s->quiet)
		cli_say((*p)->note_count ? (*p)->notes[(*p)->note_count - 1].text
					 : "there is no call stack");
	return rc;
}

/* Without --measure and --at: takes the peak, or the measure nearest to it that the file has. */
static int choose_measure(struct export_command *c, const struct profile *p, struct heft_error *err)
{
	static const enum measure_id nearest[] = {MEASURE_PEAK_BYTES, MEASURE_LIVE_BYTES,
						  MEASURE_ALLOCATED_BYTES};
	for (size_t i = 0; i < sizeof nearest / sizeof *nearest && !c->has_measure; i++)
		if (measure_known(p, nearest[i])) {
			c->options.measure = nearest[i];
			c->has_measure = true;
		}
	if (measure_known(p, c->options.measure))
		return 0;
	return heft_fail(err, HEFT_EREFUSED, "a %s file does not record the measure '%s'",
			 p->run.format ? p->run.format : "foreign",
			 measures[c->options.measure].option);
}

/* Makes a name in the current directory: the input's, with the format's extension. */
static void default_name(const char *input, const char *extension, char *name, size_t size)
{
	const char *base = path_file(input);
	size_t length = strlen(base);
	if (ends_with(base, length, ".gz") || ends_with(base, length, ".zst"))
		length = (size_t)(strrchr(base, '.') - base);
	for (size_t i = length; i-- > 1;) /* a number is a process id, not an extension */
		if (base[i] == '.') {
			if (strspn(base + i + 1, "0123456789") < length - i - 1)
				length = i;
			break;
		}
	snprintf(name, size, "%.*s.%s", (int)(length > 200 ? 200 : length), base, extension);
}

static int check_not_input(const char *input, const char *output, struct heft_error *err)
{
	struct stat in, out;
	if (strcmp(output, "-") == 0 || stat(input, &in) < 0 || stat(output, &out) < 0 ||
	    !S_ISREG(out.st_mode) || in.st_dev != out.st_dev || in.st_ino != out.st_ino)
		return 0;
	return heft_fail(err, HEFT_EREFUSED,
			 "%s is the input file itself\nname another output with -o", output);
}

static void say_incomplete(const struct export_command *c, const char *path,
			   const struct profile *p)
{
	if (!p->run.complete && !c->selection.quiet)
		cli_error("%s is incomplete (cut off, or still being written): the output covers "
			  "its first %.3f s",
			  path, (double)p->run.duration_ns / 1e9);
}

static int export_page(struct export_command *c, const char *path, struct heft_error *err)
{
	const struct view_part *part = NULL;
	signal(SIGIO, SIG_IGN); /* as in heft view */
	int rc = view_recording_open(&c->options.recording, path, "1", path_file(path),
				     &cli_view_loader, err);
	if (rc == 0)
		rc = view_recording_whole(c->options.recording, &part, err);
	if (rc == 0)
		rc = export_to_path(c->exporter, c->output, c->force, part->p, &c->options, err);
	if (rc == 0)
		say_incomplete(c, path, part->p);
	view_part_drop(part);
	view_recording_close(c->options.recording);
	return rc;
}

static int export_profile(struct export_command *c, const char *path, struct heft_error *err)
{
	struct profile *p = NULL;
	bool raw_json = c->exporter == &json_exporter && c->options.raw;
	c->selection.part.process_totals = c->exporter == &json_exporter;
	c->selection.part.judge_events = c->exporter == &json_exporter ? UINT64_MAX : 0;
	c->selection.part.by_process = draws_a_tree(c->exporter) && !c->selection.no_roots;
	c->selection.part.apart = c->exporter->stacks == EXPORT_APART || raw_json;
	c->selection.part.calls = c->exporter->stacks == EXPORT_CALLS;
	int rc = load(c, path, &p, err);
	if (rc == 0)
		rc = choose_measure(c, p, err);
	if (rc == 0)
		rc = export_to_path(c->exporter, c->output, c->force, p, &c->options, err);
	if (rc == 0)
		say_incomplete(c, path, p);
	profile_free(p);
	return rc;
}

int cmd_export(int argc, char **argv)
{
	struct export_command c = {.verb = cli_verb_find("export")};
	struct heft_error err = {0};
	char name[NAME_MAX + 1];
	int first;
	int status = cli_parse_options(c.verb, argc, argv, set_option, &c, &first);

	if (status == CLI_GO_ON)
		status = check_usage(&c);
	if (status == CLI_GO_ON)
		status = cli_one_recording(c.verb, argc, argv, first);
	if (status != CLI_GO_ON)
		return status;
	c.options.focus = c.selection.focus;
	c.options.ignore = c.selection.ignore;
	if (!c.output) {
		default_name(argv[first], c.exporter->extension, name, sizeof name);
		c.output = name;
	}
	int rc = check_not_input(argv[first], c.output, &err);
	if (rc == 0)
		rc = export_path_check(c.exporter, c.output, c.force, &err);
	if (rc == 0)
		rc = c.exporter == &html_exporter ? export_page(&c, argv[first], &err)
						  : export_profile(&c, argv[first], &err);
	if (rc < 0)
		return cli_failed(&err, rc);
	if (!c.selection.quiet && strcmp(c.output, "-") != 0)
		cli_putf(stderr, "heft: wrote %s\n", c.output);
	return CLI_SUCCESS;
}
