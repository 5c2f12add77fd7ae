/* Parsing of options and of their values. */
#include "cli/cli.h"
#include "unit_test.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

static int no_verb(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return 0;
}

static const struct cli_option options[] = {
	{CLI_OPT_OUTPUT, "output", 'o', CLI_ARG, "FILE", "", false},
	{CLI_OPT_QUIET, "quiet", 'q', CLI_NO_ARG, NULL, "", false},
	{CLI_OPT_VERBOSE, "verbose", 'v', CLI_NO_ARG, NULL, "", false},
	{CLI_OPT_FOLLOW, "follow", 0, CLI_ARG, "all|none", "", false},
	{CLI_OPT_JSON, "sample", 0, CLI_OPTIONAL_ARG, "BYTES", "", false},
	{CLI_OPT_HELP, "help", 'h', CLI_NO_ARG, NULL, "", false},
	{.name = NULL},
};
static const struct cli_verb permuting = {"p", "", "", options, no_verb, 2, false, "file"};
static const struct cli_verb stopping = {"s", "", "", options, no_verb, 125, true, "command"};

static char seen[256];
static char *words[16];
static int count, first;

static int note(void *ctx, const struct cli_option *option, const char *value)
{
	size_t used = strlen(seen);

	(void)ctx;
	snprintf(seen + used, sizeof(seen) - used, "%s%s%s;", option->name, value ? "=" : "",
		 value ? value : "");
	return value && strcmp(value, "stop") == 0 ? 77 : 0;
}

/* Splits at spaces and parses; messages go to a pipe nobody reads, so that the log stays quiet. */
static int parse(const struct cli_verb *verb, const char *line)
{
	static char text[256];
	char *save = NULL;

	snprintf(text, sizeof(text), "verb %s", line);
	seen[0] = 0;
	count = 0;
	for (char *w = strtok_r(text, " ", &save); w; w = strtok_r(NULL, " ", &save))
		words[count++] = w;
	words[count] = NULL;
	int keep_out = dup(1), keep_err = dup(2), null[2];

	assert_int_equal(pipe(null), 0);
	fflush(stdout);
	dup2(null[1], 1);
	dup2(null[1], 2);
	int status = cli_parse_options(verb, count, words, note, NULL, &first);

	fflush(stdout);
	fflush(stderr);
	dup2(keep_out, 1);
	dup2(keep_err, 2);
	close(keep_out);
	close(keep_err);
	close(null[0]);
	close(null[1]);
	return status;
}

TEST(takes_every_form)
{
	assert_int_equal(parse(&permuting, "-o a --output b --output=c -od -qv -qoe"), CLI_GO_ON);
	assert_string_equal(seen,
			    "output=a;output=b;output=c;output=d;quiet;verbose;quiet;output=e;");
	assert_int_equal(first, count);
	assert_int_equal(parse(&permuting, "--sample --sample= --sample=9"), CLI_GO_ON);
	assert_string_equal(seen, "sample;sample=;sample=9;");
}

TEST(no_path_is_empty)
{
	assert_int_equal(parse(&permuting, "-q --output= -v"), CLI_USAGE);
	assert_string_equal(seen, "quiet;");
}

TEST(moves_operands_last)
{
	assert_int_equal(parse(&permuting, "one -q two -o x three - four"), CLI_GO_ON);
	assert_string_equal(seen, "quiet;output=x;");
	assert_int_equal(count - first, 5);
	assert_string_equal(words[first], "one");
	assert_string_equal(words[first + 1], "two");
	assert_string_equal(words[first + 2], "three");
	assert_string_equal(words[first + 3], "-");
	assert_string_equal(words[first + 4], "four");
	assert_string_equal(words[0], "verb");
	/* After -- everything is an operand, and what came before keeps its place. */
	assert_int_equal(parse(&permuting, "one -q -- -v two"), CLI_GO_ON);
	assert_string_equal(seen, "quiet;");
	assert_int_equal(count - first, 3);
	assert_string_equal(words[first], "one");
	assert_string_equal(words[first + 1], "-v");
	assert_string_equal(words[first + 2], "two");
}

TEST(stops_at_the_command)
{
	assert_int_equal(parse(&stopping, "-q prog -v --output x"), CLI_GO_ON);
	assert_string_equal(seen, "quiet;");
	assert_string_equal(words[first], "prog");
	assert_string_equal(words[first + 1], "-v");
	assert_int_equal(count - first, 4);
	assert_int_equal(parse(&stopping, "-- -v prog"), CLI_GO_ON);
	assert_string_equal(words[first], "-v");
	assert_int_equal(parse(&stopping, "-q"), CLI_GO_ON);
	assert_int_equal(first, count);
}

TEST(refuses_with_the_verbs_own_status)
{
	assert_int_equal(parse(&permuting, "--nonsense"), 2);
	assert_int_equal(parse(&stopping, "--nonsense"), 125);
	assert_int_equal(parse(&permuting, "-x"), 2);
	assert_int_equal(parse(&permuting, "--output"), 2);
	assert_int_equal(parse(&permuting, "-o"), 2);
	assert_int_equal(parse(&permuting, "--quiet=yes"), 2);
	assert_int_equal(parse(&permuting, "--follow=some"), 2);
	assert_int_equal(parse(&permuting, "--follow=al"), 2);
	assert_int_equal(parse(&permuting, "--follow="), 2);
	assert_string_equal(seen, "");
	assert_int_equal(parse(&permuting, "--follow none"), CLI_GO_ON);
	assert_string_equal(seen, "follow=none;");
	/* set() may end it with a status of its own; --help ends it with success. */
	assert_int_equal(parse(&permuting, "-o stop -q"), 77);
	assert_string_equal(seen, "output=stop;");
	assert_int_equal(parse(&permuting, "--help -o stop"), 0);
	assert_string_equal(seen, "");
}

TEST(measures_slips)
{
	assert_int_equal(cli_edit_distance("report", "report"), 0);
	assert_int_equal(cli_edit_distance("reprot", "report"), 1); /* a swap */
	assert_int_equal(cli_edit_distance("", "run"), 3);
	assert_int_equal(cli_edit_distance("rn", "run"), 1);
	assert_int_equal(cli_edit_distance("kitten", "sitting"), 3);
	assert_int_equal(cli_edit_distance("0123456789012345678901234567890123456789", "x"), 32);
	assert_string_equal(cli_verb_nearest("hlep")->name, "help");
	assert_string_equal(cli_verb_nearest("he")->name, "help");
	assert_null(cli_verb_nearest("xyzzy"));
	assert_null(cli_verb_nearest(""));
	/* Two slips in a short word make another word of it. */
	assert_null(cli_verb_nearest("halt"));
}

static void assert_size(const char *text, uint64_t expected)
{
	uint64_t bytes = 0;

	if (size_parse(text, &bytes) != 0 || bytes != expected)
		fail_msg("size '%s': %llu, not %llu", text, (unsigned long long)bytes,
			 (unsigned long long)expected);
}

TEST(reads_sizes)
{
	static const char *const wrong[] = {"",
					    "k",
					    "-1",
					    "+1",
					    "1 k",
					    "1kk",
					    "1e3",
					    "0x10",
					    ".",
					    "1.2.3",
					    "1Bk",
					    "10Mb",
					    "18446744073709551616",
					    "17179869184G",
					    "1x"};
	uint64_t bytes;

	(void)state;
	assert_size("0", 0);
	assert_size("4096", 4096);
	assert_size("512k", 524288);
	assert_size("512K", 524288);
	assert_size("1M", 1048576);
	assert_size("1.5M", 1572864);
	assert_size("2G", 2147483648ULL);
	assert_size("1T", 1099511627776ULL);
	assert_size("10kB", 10240);
	assert_size("10KiB", 10240);
	assert_size("7B", 7);
	assert_size("18446744073709551615", UINT64_MAX);
	assert_size("17179869183G", 17179869183ULL << 30);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		if (size_parse(wrong[i], &bytes) != HEFT_EUSAGE)
			fail_msg("'%s' was taken for a size", wrong[i]);
}

static void assert_time(const char *text, uint64_t expected)
{
	struct cli_time t;

	if (cli_parse_time(text, &t) != 0 || cli_time_resolve(&t, 2000) != expected)
		fail_msg("time '%s' was misread", text);
}

TEST(reads_times)
{
	static const char *const wrong[] = {"", "5", "s", "-1s", "101%", "1S", "1sec", "1 s", "%"};
	struct cli_time t;

	(void)state;
	assert_time("0", 0);
	assert_time("15ns", 15);
	assert_time("3us", 3000);
	assert_time("1.5ms", 1500000);
	assert_time("2s", 2000000000);
	assert_time("1m", 60000000000);
	assert_time("1h", 3600000000000);
	assert_time("0%", 0);
	assert_time("50%", 1000);
	assert_time("12.5%", 250);
	assert_time("100%", 2000);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		if (cli_parse_time(wrong[i], &t) != HEFT_EUSAGE)
			fail_msg("'%s' was taken for a time", wrong[i]);
}

TEST(reads_numbers)
{
	uint64_t n = 0;

	(void)state;
	assert_int_equal(number_parse("0", 10, &n), 0);
	assert_int_equal(n, 0);
	assert_int_equal(number_parse("10", 10, &n), 0);
	assert_int_equal(n, 10);
	assert_int_equal(number_parse("11", 10, &n), HEFT_EUSAGE);
	assert_int_equal(number_parse("18446744073709551615", UINT64_MAX, &n), 0);
	assert_int_equal(n, UINT64_MAX);
	assert_int_equal(number_parse("18446744073709551616", UINT64_MAX, &n), HEFT_EUSAGE);
	assert_int_equal(number_parse("", 10, &n), HEFT_EUSAGE);
	assert_int_equal(number_parse("1x", 100, &n), HEFT_EUSAGE);
	assert_int_equal(number_parse("-1", 100, &n), HEFT_EUSAGE);
	assert_int_equal(number_parse("7", 5, &n), HEFT_EUSAGE);
}

UNIT_TESTS(NULL, NULL)
