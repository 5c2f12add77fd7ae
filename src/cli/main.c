/* Finds the verb in the table and calls it. `heft -- CMD` is `heft run -- CMD`. SIGPIPE keeps its default,
 * so that `heft report ... | head` ends quietly. */
#include "cli/cli.h"

#include <string.h>

static int unknown_verb(const char *name)
{
	const struct cli_verb *near = cli_verb_nearest(name);

	if (near)
		return cli_usage_error(NULL, "no verb '%s'; did you mean '%s'?", name, near->name);
	if (name[0] == '-')
		return cli_usage_error(NULL, "unknown option %s", name);
	return cli_usage_error(NULL, "no verb '%s'; to record a program: heft run %s", name, name);
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		cli_print_help(NULL, stderr);
		return CLI_USAGE;
	}
	const char *name = argv[1];

	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
		cli_print_help(NULL, stdout);
		return cli_finish_output(CLI_SUCCESS);
	}
	if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
		printf("heft %s\n", HEFT_VERSION);
		return cli_finish_output(CLI_SUCCESS);
	}
	if (strcmp(name, "--") == 0) {
		const struct cli_verb *run = cli_verb_find("run");

		/* argv[0] takes the verb's place, so that run sees "run -- CMD". */
		argv[0] = (char *)"run";
		return run ? run->function(argc, argv) : unknown_verb("run");
	}
	const struct cli_verb *verb = cli_verb_find(name);

	if (!verb)
		return unknown_verb(name);
	return verb->function(argc - 1, argv + 1);
}
