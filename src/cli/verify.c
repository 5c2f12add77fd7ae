/* `heft verify FILE` checks every block, and compares the totals at the end with a replay of all events. A
 * recording without an end (cut, or still being written) is sound as far as it goes; heft says so. Damage
 * is exit status 1. */
#include "cli/cli.h"

#include "trace/trace.h"

#include <inttypes.h>

struct verify_command {
	const struct cli_verb *verb;
	bool quiet;
};

static int set_option(void *ctx, const struct cli_option *option, const char *value)
{
	struct verify_command *c = ctx;
	(void)value;
	if (option->id == CLI_OPT_QUIET) {
		c->quiet = true;
		return 0;
	}
	return cli_usage_error(c->verb, "--%s does not work here", option->name);
}

int cmd_verify(int argc, char **argv)
{
	struct verify_command c = {.verb = cli_verb_find("verify")};
	struct trace_verify result = {0};
	struct heft_error err = {0};
	int first;
	int status = cli_parse_options(c.verb, argc, argv, set_option, &c, &first);

	if (status == CLI_GO_ON)
		status = cli_one_recording(c.verb, argc, argv, first);
	if (status != CLI_GO_ON)
		return status;
	int rc = trace_verify(argv[first], &result, &err);
	if (rc < 0)
		return cli_failed(&err, rc);
	if (!c.quiet) {
		cli_putf(stdout,
			 "%s: %" PRIu64 " block%s, %" PRIu64 " event%s, %" PRIu64 " bytes: ",
			 argv[first], result.blocks, result.blocks == 1 ? "" : "s", result.events,
			 result.events == 1 ? "" : "s", result.bytes);
		if (result.complete)
			printf("sound and complete\n");
		else
			printf("sound up to byte %" PRIu64 ", then cut off (no end block)\n",
			       result.cut_offset);
	}
	return cli_finish_output(CLI_SUCCESS);
}
