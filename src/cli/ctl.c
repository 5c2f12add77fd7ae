/* `heft ctl` shows or switches the sampling of a running program. It needs no server: the switches are
 * words of the session file that the process has mapped, and /proc says which file that is. */
#include "cli/cli.h"

#include "agent/sampled.h"
#include "hosted/name_words.h"
#include "hosted/number_words.h"
#include "hosted/proc_text.h"
#include "hosted/program_name.h"
#include "hosted/saturating.h"
#include "profile/estimate.h"
#include "report/report_words.h"
#include "session/owner.h"
#include "session/session_guard.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

struct change {
	bool any;
	bool set_on, on, automatic;
	uint64_t rate_bytes; /* 0: stays as it is */
};

static int parse_change(const char *text, struct change *c)
{
	const struct cli_verb *verb = cli_verb_find("ctl");
	const char *value = strchr(text, '=');
	size_t key = value ? (size_t)(value - text) : strlen(text);
	c->any = true;
	if (value && key == 6 && !strncmp(text, "sample", key)) {
		c->set_on = true;
		c->automatic = !strcmp(value + 1, "auto");
		c->on = c->automatic || !strcmp(value + 1, "on");
		if (!c->on && strcmp(value + 1, "off") != 0)
			return cli_usage_error(verb, "sample= is on, off or auto, not '%s'",
					       value + 1);
		return 0;
	}
	if (value && key == 4 && !strncmp(text, "rate", key)) {
		if (size_parse(value + 1, &c->rate_bytes) < 0 ||
		    c->rate_bytes < SAMPLED_RATE_LEAST || c->rate_bytes > SAMPLED_RATE_MOST)
			return cli_usage_error(verb, "rate= is a size from 1k to 1G, not '%s'",
					       value + 1);
		return 0;
	}
	return cli_usage_error(verb, "'%s' is neither sample=on|off|auto nor rate=SIZE", text);
}

static void apply(struct process *p, const struct change *c)
{
	bool on = c->set_on ? c->on : atomic_load(&p->view.session.header->sampling.on) != 0;
	if (c->automatic) {
		if (c->rate_bytes)
			sampled_control(p, true, c->rate_bytes); /* it begins with this rate */
		sampled_control_automatic(p);
	} else
		sampled_control(p, on, c->rate_bytes);
}

/* Says who else has the file mapped: "heft agent (pid 12)". */
static void describe_reader(const struct process *p, char *text, size_t size)
{
	const struct stat file = {.st_dev = p->view.file.device, .st_ino = p->view.file.inode};
	char line[256];
	pid_t reader = owner_reader_of_file(&file, p->pid);
	snprintf(text, size, "no process that is visible from here");
	if (!reader)
		return;
	size_t n = proc_text(line, sizeof line, "/proc/%d/cmdline", reader);
	const char *verb = n > strlen(line) + 1 ? line + strlen(line) + 1 : "";
	snprintf(text, size, "%s %s (pid %d)", path_file(line), verb, reader);
}

static void show(const struct process *p, const char *path)
{
	const struct wire_sampling *s = &p->view.session.header->sampling;
	struct sampled_sums sums;
	char rate[NUMBER_WORDS], live[NUMBER_WORDS], all[NUMBER_WORDS], taken[NUMBER_WORDS],
		held[NUMBER_WORDS], reader[400], cost[64] = "not known";
	sampled_sums(p, &sums);
	number_bytes(rate, atomic_load(&s->rate_bytes), "byte", "bytes");
	number_bytes(live, saturating_whole(sums.live_bytes), "byte", "bytes");
	number_bytes(all, saturating_whole(sums.allocated_bytes), "byte", "bytes");
	number_count(taken, sums.samples);
	number_count(held, sums.live_samples);
	double share = sampled_cost_share(p);
	if (share >= 0)
		snprintf(cost, sizeof cost, "%.2g %% of its CPU time", 100 * share);
	describe_reader(p, reader, sizeof reader);
	char program[4096 + PROGRAM_NAME];
	cli_putf(stdout, "process %d (%s)\n", p->pid,
		 program_words(program, sizeof program, p->entry.facts.exe,
			       p->entry.facts.argc ? p->entry.facts.argv[0] : NULL));
	printf("  sampling      %s\n", atomic_load(&s->on) ? "on" : "off");
	printf("  rate          one sample per %s%s\n", rate,
	       atomic_load(&s->automatic) ? ", adjusted to cost 0.5 % of CPU time" : "");
	printf("  samples       %s taken, %s live\n", taken, held);
	printf("  live          %s in %s (estimate)\n", live,
	       words_blocks(estimate_rounded(sums.live_objects)).text);
	printf("  allocated     %s in %s (estimate)\n", all,
	       words_blocks(estimate_rounded(sums.allocated_objects)).text);
	printf("  cost          %s\n", cost);
	/* Both are others' names: a newline in one must not make a line of ours. */
	fputs("  session file  ", stdout);
	words_print(stdout, path, SIZE_MAX);
	fputs("\n  held by       ", stdout);
	words_print(stdout, reader, SIZE_MAX);
	putchar('\n');
}

int cmd_ctl(int argc, char **argv)
{
	const struct cli_verb *verb = cli_verb_find("ctl");
	struct heft_error err = {0};
	struct change change = {0};
	struct process *p;
	char path[4200];
	pid_t pid;
	int first;
	int rc = cli_parse_options(verb, argc, argv, NULL, NULL, &first);
	if (rc != CLI_GO_ON)
		return rc;
	if (first >= argc)
		return cli_usage_error(verb, "no process given");
	if (cli_parse_pid(argv[first], &pid) < 0)
		return cli_usage_error(verb, "'%s' is not a process id", argv[first]);
	for (int i = first + 1; i < argc; i++)
		if ((rc = parse_change(argv[i], &change)))
			return rc;
	session_guard_install();
	if (process_open_of(pid, path, sizeof path, &p, &err))
		return cli_failed(&err, HEFT_EREFUSED);
	if (!p->view.sampled) {
		process_free(p);
		rc = heft_fail(&err, HEFT_EREFUSED,
			       "process %d is recorded exactly: every allocation, which cannot be "
			       "switched\n"
			       "heft run --sample samples it.",
			       (int)pid);
		return cli_failed(&err, rc);
	}
	if (change.any)
		apply(p, &change);
	else
		show(p, path);
	process_free(p);
	return cli_finish_output(CLI_SUCCESS);
}
