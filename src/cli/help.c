/* Prints `heft help`, `heft help VERB` and `--help`, all from the verb table. */
#include "cli/cli.h"

#include "hosted/name_words.h"

#include <string.h>

#define COLUMN 28 /* where the words of an option begin */

/* A list of values that is too long for one line goes on in the next, under its beginning. */
static void print_left(FILE *out, const char *left)
{
	const char *list = strrchr(left, ' ');
	int indent = list ? (int)(list + 1 - left) : 0;
	for (size_t most = WORDS_PROSE; strlen(left) > most; most = WORDS_PROSE - (size_t)indent) {
		size_t n = most;
		while (n && left[n - 1] != '|')
			n--;
		if (n <= 1)
			break;
		n--; /* the bar begins the next line */
		fprintf(out, "%.*s\n%*s", (int)n, left, indent, "");
		left += n;
	}
	fputs(left, out);
}

static void print_option(const struct cli_option *o, FILE *out)
{
	char left[200];
	int n = o->letter ? snprintf(left, sizeof(left), "  -%c, --%s", o->letter, o->name)
			  : snprintf(left, sizeof(left), "      --%s", o->name);

	if (o->argument == CLI_ARG && n > 0)
		n += snprintf(left + n, sizeof(left) - (size_t)n, " %s", o->value);
	else if (o->argument == CLI_OPTIONAL_ARG && n > 0)
		n += snprintf(left + n, sizeof(left) - (size_t)n, "[=%s]", o->value);
	if (n < COLUMN - 1)
		fprintf(out, "%-*s", COLUMN, left);
	else {
		print_left(out, left);
		fprintf(out, "\n%*s", COLUMN, "");
	}
	words_print_wrapped(out, o->help, COLUMN, WORDS_PROSE);
	putc('\n', out);
}

static void print_verb_help(const struct cli_verb *verb, FILE *out)
{
	fprintf(out, "heft %s: %s\n\nusage: heft %s %s\n", verb->name, verb->summary, verb->name,
		verb->usage);
	if (strcmp(verb->name, "run") == 0)
		fprintf(out, "       heft -- CMD [ARG...]\n");
	fprintf(out, "\noptions:\n");
	for (const struct cli_option *o = verb->options; o->name; o++)
		if (!o->hidden)
			print_option(o, out);
	fprintf(out, "\nSee 'man heft-%s'.\n", verb->name);
}

void cli_print_help(const struct cli_verb *verb, FILE *out)
{
	if (verb) {
		print_verb_help(verb, out);
		return;
	}
	fprintf(out, "heft %s: a heap profiler for Linux programs\n\nusage:\n", HEFT_VERSION);
	for (const struct cli_verb *v = cli_verbs; v->name; v++)
		fprintf(out, "  heft %-7s %-29s %s\n", v->name, v->usage, v->summary);
	fprintf(out, "  %-42s %s\n", "heft -- CMD [ARG...]", "the same as heft run -- CMD");
	fprintf(out,
		"  heft --version\n\n"
		"'heft help VERB' lists the options of a verb. Sizes take k, M, G (1024); times\n"
		"take ns, us, ms, s, m, h or a percentage of the run.\n");
}

struct help_settings {
	const char *completions;
};

static int set_help_option(void *ctx, const struct cli_option *option, const char *value)
{
	struct help_settings *settings = ctx;

	if (option->id == CLI_OPT_COMPLETIONS)
		settings->completions = value;
	return 0;
}

int cmd_help(int argc, char **argv)
{
	const struct cli_verb *self = cli_verb_find("help");
	struct help_settings settings = {NULL};
	int first, status = cli_parse_options(self, argc, argv, set_help_option, &settings, &first);

	if (status != CLI_GO_ON)
		return status;
	if (argc - first > 1)
		return cli_usage_error(self, "one verb at a time");
	if (settings.completions) {
		cli_print_bash_completion(stdout);
		return cli_finish_output(CLI_SUCCESS);
	}
	const struct cli_verb *verb = NULL;

	if (first < argc) {
		verb = cli_verb_find(argv[first]);
		if (!verb) {
			const struct cli_verb *near = cli_verb_nearest(argv[first]);

			if (near)
				return cli_usage_error(NULL, "no verb '%s'; did you mean '%s'?",
						       argv[first], near->name);
			return cli_usage_error(NULL, "no verb '%s'", argv[first]);
		}
	}
	cli_print_help(verb, stdout);
	return cli_finish_output(CLI_SUCCESS);
}
