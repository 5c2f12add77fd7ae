/* `heft detach` asks the heft that is attached to a process to end its recording, and waits until it has left
 * the process. */
#include "cli/cli.h"

#include "session/attach_call.h"

#include <errno.h>
#include <signal.h>

int cmd_detach(int argc, char **argv)
{
	const struct cli_verb *verb = cli_verb_find("detach");
	struct heft_error err = {0};
	pid_t pid;
	int first;
	int rc = cli_parse_options(verb, argc, argv, NULL, NULL, &first);
	if (rc != CLI_GO_ON)
		return rc;
	if (first >= argc)
		return cli_usage_error(verb, "no process given");
	if (argc - first > 1)
		return cli_usage_error(verb, "one process at a time");
	if (cli_parse_pid(argv[first], &pid) < 0)
		return cli_usage_error(verb, "'%s' is not a process id", argv[first]);
	rc = attach_ask_to_leave(pid, &err);
	if (rc == HEFT_ENOTFOUND && kill(pid, 0) && errno == ESRCH)
		heft_fail(&err, rc, "there is no process %d", (int)pid);
	return rc ? cli_failed(&err, HEFT_EREFUSED) : CLI_SUCCESS;
}
