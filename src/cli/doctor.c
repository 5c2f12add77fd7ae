/* `heft doctor` says in advance what will and will not work: on this machine, for a process that runs, or for a command.
 * One line a check, with a way out where something is wrong. It looks only: no process is stopped or changed.
 *
 * The checks are made where the knowledge is (src/attach/checks_*.c, src/record/launch.c); here they are put together and
 * printed.
 *
 * The exit status is 1 if recording would fail, else 0. */
#include "cli/cli.h"

#include "attach/attach.h"
#include "attach/checks.h"
#include "hosted/json_writer.h"
#include "hosted/name_words.h"
#include "pages/view_page.h"
#include "record/launch.h"

#include <stdio.h>
#include <string.h>

enum { PAGE_LEAST = 64 << 10 }; /* a page that only says that it was not built is smaller */

struct doctor {
	const struct cli_verb *verb;
	bool json;
	enum cli_color color;
	struct checks checks;
	pid_t pid;           /* 0: not asked about a process */
	const char *command; /* NULL: nor about a command */
};

static const char *const verdict_words[] = {
	[CHECK_OK] = "ok", [CHECK_WARNING] = "warning", [CHECK_NO] = "no"};

/* ---- what is asked */

static void check_heft(struct checks *c)
{
	struct heft_error err = {0};
	char path[4096];
	if (cli_locate_preload(path, sizeof path, &err))
		checks_add_error(c, "heft run", CHECK_NO, &err);
	else
		checks_add(c, "heft run", CHECK_OK, NULL, "%s", path);
	if (cli_locate_blob(path, sizeof path, &err))
		checks_add_error(c, "heft attach", CHECK_WARNING, &err);
	else
		checks_add(c, "heft attach", CHECK_OK, NULL, "%s", path);
	if (view_page_unpacked_size > PAGE_LEAST)
		checks_add(c, "heft view", CHECK_OK, NULL, "the page is built in");
	else
		checks_add(c, "heft view", CHECK_WARNING, "Install npm and build heft again.",
			   "heft was built without the page for browsers");
}

static void check_command(struct checks *c, const char *command)
{
	struct launch_plan plan = {0};
	struct heft_error err = {0};
	if (launch_inspect(command, LAUNCH_VIA_AUTO, &plan, &err)) {
		checks_add_error(c, "way in", CHECK_NO, &err);
		return;
	}
	if (plan.way == LAUNCH_ENTRY && checks_of_static(c, plan.elf))
		return;
	if (plan.unreadable)
		checks_add(c, "way in", CHECK_WARNING, "Run heft as a user who may read it.",
			   "%s may be run but not read: nobody knows how it allocates", plan.path);
	else
		checks_add(c, "way in", CHECK_OK, NULL, "heft run records %s%s%s%s", plan.elf,
			   plan.script ? ", which runs the script" : "",
			   plan.way == LAUNCH_ENTRY ? ", by hooks at the entries of its malloc: it "
						    : "",
			   plan.way == LAUNCH_ENTRY ? plan.why : "");
	/* One that the program exports as malloc is hooked whatever it is. */
	bool unknown = plan.own_malloc != ELF_MALLOC_EXPORTED && plan.allocator &&
		       !attach_knows_allocator(plan.allocator);
	if (plan.own_malloc_text[0] &&
	    (plan.way == LAUNCH_PRELOAD || unknown || plan.own_malloc == ELF_MALLOC_LIKELY)) {
		memcpy(err.message, plan.own_malloc_text, sizeof err.message - 1);
		checks_add_error(c, "allocator", CHECK_WARNING, &err);
	} else if (plan.own_malloc_text[0])
		checks_add(c, "allocator", CHECK_OK, NULL, "it %s: its functions are hooked%s%s",
			   plan.why, *plan.malloc_name ? ", as " : "", plan.malloc_name);
	else if (!plan.unreadable)
		checks_add(c, "allocator", CHECK_OK, NULL,
			   "it has none of its own: its calls of malloc are seen");
	if (plan.unreadable)
		return;
	checks_of_symbols(c, plan.elf, plan.elf);
	checks_of_runtime(c, plan.elf, plan.elf);
}

/* ---- what is answered */

static size_t widest_name(const struct checks *c)
{
	size_t widest = 0;
	for (size_t i = 0; i < c->count; i++)
		if (strlen(c->items[i].name) > widest)
			widest = strlen(c->items[i].name);
	return widest;
}

static void print_verdict(const struct doctor *d, enum check_verdict v)
{
	static const char *const colors[] = {
		[CHECK_OK] = "\033[32m", [CHECK_WARNING] = "\033[33m", [CHECK_NO] = "\033[31m"};
	bool color = cli_use_color(d->color, stdout);
	printf("%s%-7s%s  ", color ? colors[v] : "", verdict_words[v], color ? "\033[0m" : "");
}

/* What to type next, as far as it is known. */
static void print_next(const struct doctor *d)
{
	if (checks_verdict(&d->checks) == CHECK_NO)
		return;
	if (d->pid)
		printf("Next: heft attach --duration 10s %d\n", (int)d->pid);
	else if (d->command) {
		printf("Next: heft run ");
		words_print_shell(stdout, d->command);
		putchar('\n');
	} else
		printf("Next: heft run CMD, or heft doctor PID\n");
}

static void print_text(const struct doctor *d)
{
	const size_t names = widest_name(&d->checks), width = cli_width(stdout);
	const size_t indent = 7 + 2 + names + 2;
	for (size_t i = 0; i < d->checks.count; i++) {
		const struct check *c = &d->checks.items[i];
		print_verdict(d, c->verdict);
		printf("%-*s  ", (int)names, c->name);
		if (strchr(c->text, '\n')) /* of a name: the text itself is one line */
			words_print(stdout, c->text, SIZE_MAX);
		else
			words_print_message(stdout, c->text, indent, indent);
		if (*c->way_out) {
			printf("\n%*s", (int)indent, "");
			words_print_wrapped(stdout, c->way_out, indent,
					    width ? width : WORDS_PROSE);
		}
		putchar('\n');
	}
	print_next(d);
}

static void print_json(const struct doctor *d)
{
	struct json_writer w;
	json_write_init(&w, stdout);
	json_write_object(&w);
	json_write_key_uint(&w, "schema", 1);
	json_write_key_string(&w, "verdict", verdict_words[checks_verdict(&d->checks)]);
	if (d->pid)
		json_write_key_uint(&w, "pid", (uint64_t)d->pid);
	if (d->command)
		json_write_key_string(&w, "command", d->command);
	json_write_key(&w, "checks");
	json_write_array(&w);
	for (size_t i = 0; i < d->checks.count; i++) {
		const struct check *c = &d->checks.items[i];
		json_write_newline(&w);
		json_write_object(&w);
		json_write_key_string(&w, "name", c->name);
		json_write_key_string(&w, "verdict", verdict_words[c->verdict]);
		json_write_key_string(&w, "text", c->text);
		json_write_key_string(&w, "way_out", c->way_out);
		json_write_object_end(&w);
	}
	json_write_array_end(&w);
	json_write_object_end(&w);
	json_write_newline(&w);
}

/* ---- the verb */

static int set_option(void *ctx, const struct cli_option *option, const char *value)
{
	struct doctor *d = ctx;
	if (option->id == CLI_OPT_JSON)
		d->json = true;
	else if (option->id == CLI_OPT_COLOR && cli_parse_color(value, &d->color))
		return d->verb->usage_status;
	return 0;
}

static bool is_number(const char *word)
{
	return *word && strspn(word, "0123456789") == strlen(word);
}

int cmd_doctor(int argc, char **argv)
{
	struct doctor d = {.verb = cli_verb_find("doctor")};
	int first;
	int rc = cli_parse_options(d.verb, argc, argv, set_option, &d, &first);
	if (rc != CLI_GO_ON)
		return rc;
	if (first < argc && is_number(argv[first])) {
		if (argc - first > 1)
			return cli_usage_error(d.verb, "one process at a time");
		if (cli_parse_pid(argv[first], &d.pid) < 0)
			return cli_usage_error(d.verb, "'%s' is not a process id", argv[first]);
		checks_of_process(&d.checks, d.pid);
	} else if (first < argc) {
		d.command = argv[first];
		check_command(&d.checks, d.command);
	} else {
		check_heft(&d.checks);
		checks_of_machine(&d.checks);
	}
	if (d.json)
		print_json(&d);
	else
		print_text(&d);
	bool fails = checks_verdict(&d.checks) == CHECK_NO;
	if (d.checks.incomplete)
		cli_error("out of memory: the list is not complete");
	checks_fini(&d.checks);
	return cli_finish_output(fails ? CLI_FAILED : CLI_SUCCESS);
}
