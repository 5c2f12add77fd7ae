/* The verb table against what it promises: every verb complete, every verb and option with its
 * place in a manual page, every page with its verb, completions that bash accepts. */
#include "cli/cli.h"
#include "unit_test.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static char *read_page(const char *name)
{
	const char *root = getenv("HEFT_SOURCE_ROOT");
	char path[512];
	char *text = NULL;
	size_t size = 0;

	snprintf(path, sizeof(path), "%s/man/%s", root ? root : ".", name);
	FILE *f = fopen(path, "r");

	if (!f)
		fail_msg("no manual page %s", path);
	FILE *to = open_memstream(&text, &size);

	for (int c; (c = getc(f)) != EOF;)
		putc(c, to);
	fclose(f);
	fclose(to);
	return text;
}

TEST(every_verb_is_complete)
{
	for (const struct cli_verb *v = cli_verbs; v->name; v++) {
		assert_true(v->summary && *v->summary && v->usage && v->function && v->operands);
		assert_true(v->usage_status == CLI_USAGE || v->usage_status == CLI_RUN_FAILED);
		assert_ptr_equal(cli_verb_find(v->name), v);
		bool help = false;

		for (const struct cli_option *o = v->options; o->name; o++) {
			assert_true(o->help && *o->help);
			assert_true((o->argument == CLI_NO_ARG) == (o->value == NULL));
			help |= o->id == CLI_OPT_HELP;
			for (const struct cli_option *p = v->options; p != o; p++) {
				assert_string_not_equal(p->name, o->name);
				if (o->letter && p->letter == o->letter)
					fail_msg("%s: -%c twice", v->name, o->letter);
			}
		}
		assert_true(help);
	}
	assert_null(cli_verb_find("nonsense"));
}

TEST(every_verb_has_its_page)
{
	char *overview = read_page("heft.1");

	(void)state;
	for (const struct cli_verb *v = cli_verbs; v->name; v++) {
		char name[64], word[64];

		snprintf(word, sizeof(word), ".Xr heft-%s 1", v->name);
		if (!strstr(overview, word))
			fail_msg("heft.1 does not refer to heft-%s", v->name);
		snprintf(name, sizeof(name), "heft-%s.1", v->name);
		char *page = read_page(name);

		for (const struct cli_option *o = v->options; o->name; o++) {
			if (o->hidden)
				continue;
			/* mdoc writes --name as ".Fl -name". */
			snprintf(word, sizeof(word), "Fl -%s", o->name);
			const char *at = strstr(page, word);

			if (!at)
				fail_msg("%s does not explain --%s", name, o->name);
			snprintf(word, sizeof(word), "Fl %c", o->letter);
			if (o->letter && !strstr(page, word))
				fail_msg("%s does not explain -%c", name, o->letter);
		}
		free(page);
	}
	free(overview);
}

TEST(every_page_has_its_verb)
{
	const char *root = getenv("HEFT_SOURCE_ROOT");
	char path[512];
	struct dirent *e;
	int pages = 0;

	(void)state;
	snprintf(path, sizeof(path), "%s/man", root ? root : ".");
	DIR *d = opendir(path);

	assert_non_null(d);
	while ((e = readdir(d))) {
		char verb[64];

		if (sscanf(e->d_name, "heft-%63[^.].1", verb) != 1)
			continue;
		pages++;
		if (!cli_verb_find(verb))
			fail_msg("man/%s is about no verb", e->d_name);
	}
	closedir(d);
	assert_true(pages >= 2);
}

/* Runs `script` in a bash that has read our completions; returns what it prints. */
static void ask_bash(const char *script, char *answer, size_t size)
{
	char path[] = "/tmp/heft-completion-XXXXXX", command[1024];
	int fd = mkstemp(path);
	FILE *f = fdopen(fd, "w");

	cli_print_bash_completion(f);
	fclose(f);
	snprintf(command, sizeof(command),
		 "bash --norc -c 'source %s || exit 9; t() { COMP_WORDS=(\"$@\"); "
		 "COMP_CWORD=$(($# - 1)); _heft heft \"${@: -1}\" \"${@: -2:1}\"; "
		 "echo \"${COMPREPLY[*]}\"; }; %s'",
		 path, script);
	FILE *p = popen(command, "r");
	size_t n = fread(answer, 1, size - 1, p);

	answer[n] = 0;
	assert_int_equal(pclose(p), 0);
	remove(path);
}

TEST(completions_work_in_bash)
{
	char answer[4096];

	(void)state;
	ask_bash("t heft he", answer, sizeof(answer));
	assert_string_equal(answer, "help\n");
	ask_bash("t heft help \"\"", answer, sizeof(answer));
	for (const struct cli_verb *v = cli_verbs; v->name; v++)
		assert_non_null(strstr(answer, v->name));
	ask_bash("t heft help --", answer, sizeof(answer));
	assert_string_equal(answer, "--help\n"); /* the hidden one stays hidden */
	if (cli_verb_find("report")) {
		ask_bash("t heft report --sort l", answer, sizeof(answer));
		assert_string_equal(answer, "live left lifetime\n");
		ask_bash("t heft report --sort = p", answer, sizeof(answer));
		assert_string_equal(answer, "peak pinned\n");
		ask_bash("t heft report --tr", answer, sizeof(answer));
		assert_string_equal(answer, "--tree\n");
	}
	ask_bash("t heft attach $$; echo $$", answer, sizeof(answer)); /* its own number */
	char *number = strrchr(answer, '\n'); /* of the line before the last */
	assert_non_null(number);
	*number = 0;
	number = strrchr(answer, '\n');
	assert_non_null(number);
	assert_non_null(strstr(answer, number + 1));
	assert_true(strstr(answer, number + 1) < number);
	if (cli_verb_find("run")) {
		ask_bash("t heft run --follow \"\"", answer, sizeof(answer));
		assert_string_equal(answer, "all none\n");
		/* After the command, heft's own options are not offered. */
		ask_bash("cd /; t heft run ls --fo", answer, sizeof(answer));
		assert_string_equal(answer, "\n");
	}
}

UNIT_TESTS(NULL, NULL)
