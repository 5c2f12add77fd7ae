/* Parses the options of one verb by its list in the verb table. getopt_long would need a second
 * declaration of every option, could not suggest the option that was meant, and could not check a value
 * against the list in the table.
 *
 * Invariants: set() sees options in command-line order; after a return of CLI_GO_ON,
 * argv[*first..argc) are exactly the operands, in order, and no element of argv was lost. */
#include "cli/cli.h"

#include "hosted/name_words.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WORD 32

size_t cli_edit_distance(const char *a, const char *b)
{
	size_t rows[3][MAX_WORD];
	size_t la = strlen(a), lb = strlen(b);

	if (la >= MAX_WORD || lb >= MAX_WORD)
		return MAX_WORD;
	for (size_t j = 0; j <= lb; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= la; i++) {
		size_t *row = rows[i % 3];
		const size_t *up = rows[(i - 1) % 3], *up2 = rows[(i + 1) % 3];

		row[0] = i;
		for (size_t j = 1; j <= lb; j++) {
			size_t best = up[j - 1] + (a[i - 1] != b[j - 1]);

			if (up[j] + 1 < best)
				best = up[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    up2[j - 2] + 1 < best)
				best = up2[j - 2] + 1;
			row[j] = best;
		}
	}
	return rows[la % 3][lb];
}

size_t cli_too_far(size_t length)
{
	return length < 6 ? 2 : 3;
}

/* Standard error has no buffer of its own. Text is written in pieces of this size, so that somebody who
 * follows a log does not see half of a line. */
enum { PUT_BYTES = 4096, MESSAGE_INDENT = 6 /* under the text behind "heft: " */ };

static void cli_put(FILE *out, const char *text)
{
	char buffer[PUT_BYTES + WORDS_GLYPH];
	size_t used = 0;
	for (const char *at = text; *at;) {
		if (*at == '\n') /* messages have lines of their own */
			buffer[used++] = *at++;
		else
			used += words_glyph(&at, buffer + used);
		if (used >= PUT_BYTES) {
			fwrite(buffer, 1, used, out);
			used = 0;
		}
	}
	fwrite(buffer, 1, used, out);
}

static void put_formatted(FILE *out, const char *fmt, va_list ap)
{
	char *text = NULL;
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	cli_put(out, text ? text : "out of memory");
	free(text);
}

void cli_putf(FILE *out, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	put_formatted(out, fmt, ap);
	va_end(ap);
}

/* "PREFIX: text", wrapped */
static char *message_of(const char *prefix, const char *text)
{
	char *lines = NULL;
	size_t size = 0, used = strlen(prefix);
	FILE *out = open_memstream(&lines, &size);

	if (out) {
		fputs(prefix, out);
		words_print_message(out, text, used, MESSAGE_INDENT);
		putc('\n', out);
		fclose(out);
	}
	return lines;
}

char *cli_message(const char *text)
{
	return message_of("heft: ", text);
}

/* All at once: standard error has no buffer of its own. */
static void put_message(const char *prefix, const char *text)
{
	char *lines = message_of(prefix, text);

	if (lines)
		fwrite(lines, 1, strlen(lines), stderr);
	free(lines);
}

static void put_message_of(const char *prefix, const char *fmt, va_list ap)
{
	char *text = NULL;

	fflush(stdout);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	put_message(prefix, text ? text : "out of memory");
	free(text);
}

void cli_say(const char *text)
{
	put_message("heft: ", text);
}

void cli_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put_message_of("heft: ", fmt, ap);
	va_end(ap);
}

void cli_print_error(const struct heft_error *err)
{
	cli_error("%s", err->message[0] ? err->message : "failed, for no reason given");
}

int cli_failed(const struct heft_error *err, int rc)
{
	cli_print_error(err);
	return rc == HEFT_EUSAGE ? CLI_USAGE : CLI_FAILED;
}

int cli_finish_output(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	cli_error("cannot write to standard output: %m");
	return CLI_FAILED;
}

int cli_usage_error(const struct cli_verb *verb, const char *fmt, ...)
{
	char prefix[64];
	va_list ap;

	snprintf(prefix, sizeof prefix, "heft%s%s: ", verb ? " " : "", verb ? verb->name : "");
	va_start(ap, fmt);
	put_message_of(prefix, fmt, ap);
	va_end(ap);
	if (verb)
		fprintf(stderr, "usage: heft %s %s\n       'heft help %s' says more\n", verb->name,
			verb->usage, verb->name);
	else
		fprintf(stderr, "usage: heft VERB [OPTIONS] ...\n       'heft help' says more\n");
	return verb ? verb->usage_status : CLI_USAGE;
}

static bool in_list(const char *list, const char *value)
{
	size_t length = strlen(value);

	while (length > 0) {
		size_t item = strcspn(list, "|");

		if (item == length && memcmp(list, value, item) == 0)
			return true;
		if (!list[item])
			return false;
		list += item + 1;
	}
	return false;
}

static int deliver(const struct cli_verb *verb, const struct cli_option *o, const char *value,
		   cli_set_fn *set, void *ctx)
{
	if (o->id == CLI_OPT_HELP) {
		cli_print_help(verb, stdout);
		return cli_finish_output(CLI_SUCCESS);
	}
	if (value && cli_option_has_list(o) && !in_list(o->value, value))
		return cli_usage_error(verb, "--%s cannot be '%s': it is one of %s", o->name, value,
				       o->value);
	if (value && !*value && o->value && in_list("FILE|DIR|PATH", o->value))
		return cli_usage_error(verb, "--%s needs a %s, not ''", o->name, o->value);
	int status = set(ctx, o, value);

	return status == 0 ? CLI_GO_ON : status;
}

/* The option of this verb that other tools call by this name; NULL: there is none. */
static const char *option_meant(const struct cli_verb *verb, const char *word)
{
	static const struct {
		const char *option, *names; /* each between spaces */
	} meant[] = {
		{"number", " limit top count max rows lines head "},
		{"focus", " filter only include match grep "},
		{"ignore", " exclude skip hide without "},
		{"from", " since begin start after "},
		{"to", " until before stop "},
		{"at", " time moment when instant "},
		{"thread", " tid "},
		{"pid", " process "},
		{"full", " all-frames whole no-fold no-cut depth max-depth "},
		{"output", " out file write-to output-file "},
		{"format", " type as "},
		{"measure", " metric value cost weight "},
		{"sort", " order sort-by order-by by "},
		{"invert", " inverted bottom-up reverse callers "},
		{"sample", " sampling rate interval "},
		{"quiet", " silent "},
		{"force", " overwrite "},
	};
	char spaced[MAX_WORD + 2];
	snprintf(spaced, sizeof spaced, " %s ", word);
	for (size_t i = 0; i < sizeof meant / sizeof *meant; i++)
		if (strstr(meant[i].names, spaced))
			for (const struct cli_option *o = verb->options; o->name; o++)
				if (!o->hidden && strcmp(o->name, meant[i].option) == 0)
					return o->name;
	return NULL;
}

static int unknown_option(const struct cli_verb *verb, const char *name, size_t length)
{
	const char *best = NULL;
	size_t best_distance = cli_too_far(length);
	char word[MAX_WORD];

	if (length < sizeof(word)) {
		memcpy(word, name, length);
		word[length] = 0;
		best = option_meant(verb, word);
		if (best)
			best_distance = 0;
		for (const struct cli_option *o = verb->options; o->name; o++) {
			size_t distance = cli_edit_distance(word, o->name);

			if (strncmp(o->name, word, length) == 0 && length >= 2)
				distance = 0;
			if (!o->hidden && distance < best_distance) {
				best = o->name;
				best_distance = distance;
			}
		}
	}
	if (best)
		return cli_usage_error(verb, "unknown option --%.*s; did you mean --%s?",
				       (int)length, name, best);
	return cli_usage_error(verb, "unknown option --%.*s", (int)length, name);
}

/* Parses one "--name", "--name=value" or "--name value"; *taken is how many words it was. */
static int parse_long(const struct cli_verb *verb, char **argv, int left, cli_set_fn *set,
		      void *ctx, int *taken)
{
	const char *name = argv[0] + 2;
	size_t length = strcspn(name, "=");
	const char *value = name[length] ? name + length + 1 : NULL;

	*taken = 1;
	for (const struct cli_option *o = verb->options; o->name; o++) {
		if (strlen(o->name) != length || memcmp(o->name, name, length) != 0)
			continue;
		if (o->argument == CLI_NO_ARG && value)
			return cli_usage_error(verb, "--%s takes no value", o->name);
		if (o->argument == CLI_ARG && !value) {
			if (left < 2)
				return cli_usage_error(verb, "--%s needs a value: %s", o->name,
						       o->value);
			value = argv[1];
			*taken = 2;
		}
		return deliver(verb, o, value, set, ctx);
	}
	return unknown_option(verb, name, length);
}

/* Parses one "-q", "-qv", "-n5" or "-n 5". */
static int parse_short(const struct cli_verb *verb, char **argv, int left, cli_set_fn *set,
		       void *ctx, int *taken)
{
	*taken = 1;
	for (const char *c = argv[0] + 1; *c; c++) {
		const struct cli_option *o = verb->options;
		const char *value = NULL;

		while (o->name && o->letter != *c)
			o++;
		if (!o->name)
			return cli_usage_error(verb, "unknown option -%c", *c);
		if (o->argument == CLI_ARG) {
			value = c[1] ? c + 1 : argv[1];
			if (!c[1]) {
				if (left < 2)
					return cli_usage_error(verb, "-%c needs a value: %s", *c,
							       o->value);
				*taken = 2;
			}
		}
		int status = deliver(verb, o, value, set, ctx);

		if (status != CLI_GO_ON || o->argument == CLI_ARG)
			return status;
	}
	return CLI_GO_ON;
}

/* Moves argv[from..from+count) down to argv[to..]; the words between keep their order behind it. */
static void rotate_down(char **argv, int to, int from, int count)
{
	for (int i = 0; i < count; i++) {
		char *word = argv[from + i];

		memmove(argv + to + i + 1, argv + to + i, (size_t)(from - to) * sizeof(*argv));
		argv[to + i] = word;
	}
}

int cli_parse_options(const struct cli_verb *verb, int argc, char **argv, cli_set_fn *set,
		      void *ctx, int *first)
{
	int operands = 1; /* argv[operands..at) are the operands met so far */
	int at = 1;

	while (at < argc) {
		const char *word = argv[at];
		int taken = 1, status;

		if (word[0] != '-' || !word[1]) { /* an operand; "-" alone is one */
			if (verb->stops_at_operand)
				break;
			at++;
			continue;
		}
		if (strcmp(word, "--") == 0) {
			rotate_down(argv, operands, at, 1);
			operands++;
			break;
		}
		if (word[1] == '-')
			status = parse_long(verb, argv + at, argc - at, set, ctx, &taken);
		else
			status = parse_short(verb, argv + at, argc - at, set, ctx, &taken);
		if (status != CLI_GO_ON)
			return status;
		rotate_down(argv, operands, at, taken);
		operands += taken;
		at += taken;
	}
	*first = operands;
	return CLI_GO_ON;
}

int cli_one_recording(const struct cli_verb *verb, int argc, char **argv, int first)
{
	if (first == argc)
		return cli_usage_error(verb, "which recording?");
	if (first + 1 < argc)
		return cli_usage_error(verb, "one recording at a time; '%s' is one too many",
				       argv[first + 1]);
	return CLI_GO_ON;
}

int cli_words_after_dashes(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--") == 0)
			return argc - i - 1;
	return -1;
}
