/* `heft map` shows where the resident memory of a process is: the ledger. The process need not be recorded, and it is
 * not changed; it stands still for an instant. A ledger can be kept in a file, which is a recording without events. */
#include "cli/cli.h"
#include "cli/map_events.h"
#include "cli/map_leaks.h"

#include "hosted/json_writer.h"
#include "hosted/name_words.h"
#include "hosted/proc_text.h"
#include "ledger/ledger_take.h"
#include "model_json/model_json_ledger.h"
#include "report/report_ledger.h"
#include "session/process.h"
#include "trace/trace.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROWS = 6, CALLS = 40, PLACES = 20, COMMAND_BYTES = 4096, WORDS_MOST = 256 };

struct map_options {
	bool json, csv, force, events, leaks;
	size_t limit;       /* 0: not given */
	pid_t pid;          /* only of this process; 0: of all */
	const char *moment; /* only these ledgers; NULL: all */
	const char *output; /* NULL: it is printed */
};

static int set_option(void *ctx, const struct cli_option *option, const char *value)
{
	struct map_options *o = ctx;
	uint64_t number;
	switch (option->id) {
	case CLI_OPT_JSON: o->json = true; break;
	case CLI_OPT_CSV: o->csv = true; break;
	case CLI_OPT_OUTPUT: o->output = value; break;
	case CLI_OPT_FORCE: o->force = true; break;
	case CLI_OPT_EVENTS: o->events = true; break;
	case CLI_OPT_LEAKS: o->leaks = true; break;
	case CLI_OPT_MOMENT: o->moment = value; break;
	case CLI_OPT_PID:
		if (cli_parse_pid(value, &o->pid) < 0)
			return cli_usage_error(cli_verb_find("map"), "'%s' is not a process id",
					       value);
		break;
	case CLI_OPT_NUMBER:
		if (number_parse(value, SIZE_MAX, &number) < 0 || !number)
			return cli_usage_error(cli_verb_find("map"),
					       "'%s' is not a number of lines", value);
		o->limit = (size_t)number;
		break;
	default: break;
	}
	return 0;
}

/* The command line of a process, its words apart by blanks. */
static const char *read_command(pid_t pid, char *text, size_t size)
{
	size_t length = proc_text(text, size, "/proc/%d/cmdline", pid);
	while (length && !text[length - 1])
		length--;
	text[length] = 0;
	for (size_t i = 0; i < length; i++)
		if (!text[i])
			text[i] = ' ';
	return length ? text : NULL;
}

/* r: of a recording, whose calls are written too; or NULL. leaks: or NULL */
static int write_json(const struct ledger *ledgers, size_t count, struct trace_reader *r,
		      const struct map_leaks *leaks, const struct map_options *o,
		      struct heft_error *err)
{
	const struct map_events_options calls = {
		.limit = o->limit ? o->limit : SIZE_MAX, .has_pid = o->pid != 0, .pid = o->pid};
	struct json_writer w;
	int rc = 0;
	json_write_init(&w, stdout);
	json_write_object(&w);
	json_write_key_uint(&w, "schema", 1);
	json_write_key_string(&w, "heft", HEFT_VERSION);
	model_json_ledgers(&w, ledgers, count);
	if (r && trace_reader_contents(r)->mappings) {
		rc = map_events_json(&w, r, &calls, err);
	} else {
		json_write_key(&w, "mappings");
		json_write_array(&w);
		json_write_array_end(&w);
	}
	if (leaks && !rc)
		rc = map_leaks_json(&w, leaks);
	json_write_object_end(&w);
	putchar('\n');
	return rc;
}

static void write_text(const struct ledger *l, const struct map_options *o, const char *command)
{
	const struct report_ledger_options options = {.command = command,
						      .limit = o->limit ? o->limit : ROWS,
						      .width = cli_width(stdout)};
	report_ledger_text(stdout, l, &options);
	putchar('\n');
}

static void write_next(const struct ledger *l)
{
	char next[64];
	size_t width = cli_width(stdout);
	bool recorded = false;
	for (size_t i = 0; i < l->count; i++)
		recorded |= l->items[i].kind == LEDGER_HEFT;
	snprintf(next, sizeof next, "heft %s %d", recorded ? "top" : "attach", l->pid);
	words_print_next(stdout, next,
			 recorded ? "shows who has the heap" : "records who allocates the heap",
			 width ? width : WORDS_PROSE);
}

/* ---- files */

static int save(const struct ledger *l, const struct map_options *o, struct heft_error *err)
{
	char words[COMMAND_BYTES], exe[4096], link[64], *argv[WORDS_MOST];
	uint32_t argc = 0;
	struct timespec now;
	struct trace_writer *w;
	struct tally nothing;
	snprintf(link, sizeof link, "/proc/%d/exe", l->pid);
	ssize_t length = readlink(link, exe, sizeof exe - 1);
	exe[length > 0 ? length : 0] = 0;
	size_t bytes = proc_text(words, sizeof words, "/proc/%d/cmdline", l->pid);
	for (size_t at = 0; at < bytes && argc < WORDS_MOST; at += strlen(words + at) + 1)
		argv[argc++] = words + at;
	clock_gettime(CLOCK_REALTIME, &now);
	const struct trace_meta meta = {
		.heft_version = HEFT_VERSION,
		.start_unix_ns = now.tv_sec * 1000000000ll + now.tv_nsec - (int64_t)l->time_ns,
		.argv = argv,
		.argc = argc,
		.page_bytes = (uint32_t)sysconf(_SC_PAGESIZE),
		.attached = true,
		.tick_ns = 2048,
	};
	const struct trace_process process = {.pid = l->pid,
					      .exe = exe,
					      .argv = argv,
					      .argc = argc,
					      .end = TRACE_END_DETACHED,
					      .end_ns = l->time_ns};
	int rc = trace_writer_open(&w, o->output, o->force, &meta, err);
	if (rc)
		return rc;
	tally_init(&nothing);
	trace_writer_process(w, &process);
	trace_writer_ledger(w, l, 0);
	rc = trace_writer_close(w, l->time_ns, &nothing, err);
	tally_fini(&nothing);
	return rc;
}

/* The process that a ledger is of; NULL: it is not known. */
static const struct trace_process *process_of(const struct trace_contents *c,
					      const struct ledger *l)
{
	const struct trace_process *found = NULL;
	for (uint32_t i = 0; i < c->process_count; i++)
		if (c->processes[i].pid == l->pid && c->processes[i].start_ns <= l->time_ns)
			found = &c->processes[i];
	return found;
}

static void recorded_command(const struct trace_contents *c, const struct ledger *l, char *text,
			     size_t size)
{
	const struct trace_process *p = process_of(c, l);
	bool own = p && p->argc;
	char *const *argv = own ? p->argv : c->meta.argv;
	uint32_t argc = own ? p->argc : c->meta.argc;
	*text = 0;
	for (uint32_t i = 0; i < argc; i++) {
		size_t used = strlen(text);
		snprintf(text + used, size - used, "%s%s", i ? " " : "", argv[i]);
	}
}

/* How the process ended, if there is no ledger of its end. The end's time, or 0. */
static uint64_t end_without_ledger(const struct trace_contents *c, const struct ledger *l,
				   char *text, size_t size)
{
	const struct trace_process *p = process_of(c, l);
	*text = 0;
	for (size_t i = 0; i < c->ledger_count; i++)
		if (c->ledgers[i].pid == l->pid &&
		    (c->ledgers[i].moment == LEDGER_EXIT || c->ledgers[i].moment == LEDGER_REQUEST))
			return 0;
	if (!p || p->end == TRACE_END_RUNNING || p->end == TRACE_END_DETACHED)
		return 0;
	process_end_words(p, text, size);
	return p->end_ns;
}

/* The largest one as a table, the others in a line each. */
static void write_texts(const struct trace_contents *c, const struct ledger *ledgers, size_t count,
			const struct map_options *o)
{
	char command[COMMAND_BYTES];
	const struct ledger *l = ledger_largest(ledgers, count);
	char ended[200];
	const struct report_ledger_options options = {
		.command = command,
		.limit = o->limit ? o->limit : ROWS,
		.width = cli_width(stdout),
		.recorded = l->moment != LEDGER_REQUEST || c->events,
		.ended = ended,
		.end_ns = end_without_ledger(c, l, ended, sizeof ended)};
	recorded_command(c, l, command, sizeof command);
	report_ledger_text(stdout, l, &options);
	putchar('\n');
	if (count < 2)
		return;
	puts("Others in this recording (--pid, --moment):");
	report_ledger_list(stdout, ledgers, count, l);
}

static void free_ledgers(struct ledger *ledgers, size_t count)
{
	for (size_t i = 0; i < count; i++)
		ledger_fini(&ledgers[i]);
	free(ledgers);
}

/* Copies of the ledgers that were asked for. NULL: no memory. */
static struct ledger *choose_ledgers(const struct trace_contents *c, const struct map_options *o,
				     size_t *count)
{
	struct ledger *chosen = calloc(c->ledger_count + 1, sizeof *chosen);
	int rc = 0;
	*count = 0;
	for (size_t i = 0; i < c->ledger_count && chosen && !rc; i++) {
		const struct ledger *l = &c->ledgers[i];
		if ((o->pid && l->pid != o->pid) ||
		    (o->moment && strcmp(o->moment, ledger_moment_name(l->moment)) != 0))
			continue;
		rc = ledger_copy(&chosen[*count], l);
		*count += !rc;
	}
	if (!rc)
		return chosen;
	free_ledgers(chosen, *count);
	*count = 0;
	return NULL;
}

static int show_events(const char *path, struct trace_reader *r, const struct map_options *o,
		       struct heft_error *err)
{
	const struct map_events_options calls = {.limit = o->limit ? o->limit : CALLS,
						 .width = cli_width(stdout),
						 .has_pid = o->pid != 0,
						 .pid = o->pid};
	if (!trace_reader_contents(r)->mappings)
		return heft_fail(
			err, HEFT_EREFUSED,
			"%s has no calls that map memory: heft run records them, not sampled",
			path);
	return o->json ? write_json(NULL, 0, r, NULL, o, err)
		       : map_events_text(stdout, r, &calls, err);
}

static const char *why_none(const struct trace_contents *c)
{
	if (!c->complete)
		return "it is incomplete (cut off, or still being written)";
	if (c->samples_count)
		return "it is sampled";
	return "it was recorded with --no-ledger, or its programs had less than 1 MiB of heap, "
	       "or ended at once in another way than by exit";
}

static int show_chosen(const char *path, struct trace_reader *r, const struct ledger *chosen,
		       size_t count, const struct map_options *o, struct heft_error *err)
{
	const struct trace_contents *c = trace_reader_contents(r);
	if (o->json && (count || c->mappings))
		return write_json(chosen, count, r, NULL, o, err);
	if (!c->ledger_count)
		return heft_fail(err, HEFT_EREFUSED, "%s has no ledger: %s%s", path, why_none(c),
				 c->mappings ? "\n--events shows what they mapped" : "");
	if (!count)
		return heft_fail(err, HEFT_EREFUSED, "%s has no such ledger; it has %zu others",
				 path, c->ledger_count);
	if (o->csv)
		report_ledger_csv(stdout, chosen, count);
	else
		write_texts(c, chosen, count, o);
	return 0;
}

static int show_ledgers(const char *path, struct trace_reader *r, const struct map_options *o,
			struct heft_error *err)
{
	size_t count;
	struct ledger *chosen = choose_ledgers(trace_reader_contents(r), o, &count);
	if (!chosen)
		return heft_fail(err, HEFT_ENOMEM, "no memory for the ledgers");
	int rc = map_events_name_lines(chosen, count, r, err);
	if (!rc)
		rc = show_chosen(path, r, chosen, count, o, err);
	free_ledgers(chosen, count);
	return rc;
}

static int show_file(const char *path, const struct map_options *o)
{
	struct heft_error err = {0};
	struct trace_reader *r;
	int rc = trace_reader_open(&r, path, &err);
	if (rc)
		return cli_failed(&err, rc);
	rc = o->events ? show_events(path, r, o, &err) : show_ledgers(path, r, o, &err);
	trace_reader_close(r);
	return rc ? cli_failed(&err, rc) : cli_finish_output(CLI_SUCCESS);
}

static int show_process(pid_t pid, const struct map_options *o)
{
	char command[COMMAND_BYTES];
	struct heft_error err = {0};
	struct ledger ledger;
	int rc = ledger_take(&ledger, pid, NULL, &err);
	if (rc)
		return cli_failed(&err, HEFT_EREFUSED);
	if (o->output) {
		rc = save(&ledger, o, &err);
	} else if (o->json) {
		write_json(&ledger, 1, NULL, NULL, o, &err);
	} else if (o->csv) {
		report_ledger_csv(stdout, &ledger, 1);
	} else {
		write_text(&ledger, o, read_command(pid, command, sizeof command));
		write_next(&ledger);
	}
	ledger_fini(&ledger);
	return rc ? cli_failed(&err, HEFT_EREFUSED) : cli_finish_output(CLI_SUCCESS);
}

static int show_leaks(pid_t pid, const struct map_options *o)
{
	char command[COMMAND_BYTES];
	struct heft_error err = {0};
	struct map_leaks leaks;
	int rc = map_leaks_take(&leaks, pid, &err);
	if (rc)
		return cli_failed(&err, HEFT_EREFUSED);
	if (o->json) {
		rc = write_json(&leaks.ledger, 1, NULL, &leaks, o, &err);
	} else {
		write_text(&leaks.ledger, o, read_command(pid, command, sizeof command));
		rc = map_leaks_text(stdout, &leaks, o->limit ? o->limit : PLACES,
				    cli_width(stdout));
	}
	map_leaks_fini(&leaks);
	if (rc)
		heft_fail(&err, rc, "no memory for the places of lost blocks");
	return rc ? cli_failed(&err, rc) : cli_finish_output(CLI_SUCCESS);
}

/* Of a process */
static int check_process(const struct cli_verb *verb, const struct map_options *o, pid_t pid)
{
	if (o->events)
		return cli_usage_error(verb, "--events is of a recording, not of process %d", pid);
	if (o->pid || o->moment)
		return cli_usage_error(verb, "--pid and --moment choose ledgers of a recording");
	if (o->leaks && (o->csv || o->output))
		return cli_usage_error(verb, "--leaks prints text or, with --json, JSON");
	return 0;
}

/* Of a file */
static int check_file(const struct cli_verb *verb, const struct map_options *o, const char *path)
{
	if (o->output)
		return cli_usage_error(verb, "-o keeps the ledger of a process, not of '%s'", path);
	if (o->leaks)
		return cli_usage_error(
			verb,
			"--leaks looks at a process; 'heft report --sort unreachable "
			"%s' shows what heft run --leaks has found",
			path);
	return 0;
}

int cmd_map(int argc, char **argv)
{
	const struct cli_verb *verb = cli_verb_find("map");
	struct map_options o = {0};
	pid_t pid;
	int first;
	int rc = cli_parse_options(verb, argc, argv, set_option, &o, &first);
	if (rc != CLI_GO_ON)
		return rc;
	if (first >= argc)
		return cli_usage_error(verb, "no process and no file given");
	if (argc - first > 1)
		return cli_usage_error(verb, "one process or file at a time");
	if (o.json + o.csv + (o.output != NULL) > 1)
		return cli_usage_error(verb, "--json, --csv and -o exclude each other");
	if (o.events && (o.csv || o.output || o.moment))
		return cli_usage_error(verb, "--events prints text or, with --json, JSON");
	bool process = cli_parse_pid(argv[first], &pid) == 0;
	rc = process ? check_process(verb, &o, pid) : check_file(verb, &o, argv[first]);
	if (rc)
		return rc;
	if (!process)
		return show_file(argv[first], &o);
	return o.leaks ? show_leaks(pid, &o) : show_process(pid, &o);
}
