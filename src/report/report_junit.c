/* `heft check --junit`: the rules as test cases, in the XML that test servers read (JUnit's, as Ant and Maven write it).
 *
 * There is no standard for it. This keeps to what Jenkins, GitLab, GitHub's reporters and CTest's dashboards all read: a
 * suite, its cases, and in each a failure, an error or a mark that it was skipped. A rule that does not hold is a failure. One
 * that cannot be judged is an error, because the program may be within its budget. */
#include "report/report_budget_parts.h"

#include "hosted/program_name.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct counts {
	uint32_t tests, failures, errors, skipped;
};

static void print_attribute(FILE *out, const char *name, const char *value)
{
	fprintf(out, " %s=\"", name);
	words_print_xml(out, value);
	putc('"', out);
}

static void begin(FILE *out, const char *budget, const struct counts *n)
{
	fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite", out);
	print_attribute(out, "name", budget);
	fprintf(out,
		" tests=\"%" PRIu32 "\" failures=\"%" PRIu32 "\" errors=\"%" PRIu32
		"\" skipped=\"%" PRIu32 "\">\n",
		n->tests, n->failures, n->errors, n->skipped);
}

static void print_command(FILE *out, const char *const *argv, uint32_t argc)
{
	char *text = NULL;
	size_t size;
	FILE *words = open_memstream(&text, &size);
	if (words) {
		words_print_command(words, argv, argc, SIZE_MAX);
		fclose(words);
	}
	fputs("    <properties><property name=\"command\"", out);
	print_attribute(out, "value", text ? text : "");
	fputs("/></properties>\n", out);
	free(text);
}

static void end(FILE *out)
{
	fputs("  </testsuite>\n</testsuites>\n", out);
}

/* Servers tell cases of several programs apart by this name. */
static const char *class_name(const char *const *argv, uint32_t argc)
{
	return argc ? path_file(argv[0]) : "heft";
}

/* <failure message="FIRST LINE">the whole</failure> */
static void print_problem(FILE *out, const char *element, const char *message)
{
	char *first = strndup(message, strcspn(message, "\n"));
	fprintf(out, "      <%s", element);
	print_attribute(out, "message", first ? first : "");
	putc('>', out);
	for (const char *line = message; *line;) {
		size_t length = strcspn(line, "\n");
		char *copy = strndup(line, length);
		words_print_xml(out, copy ? copy : "");
		free(copy);
		line += length + (line[length] == '\n');
		if (*line)
			putc('\n', out);
	}
	fprintf(out, "</%s>\n", element);
	free(first);
}

static void print_case(FILE *out, const struct report_budget *r, uint32_t index)
{
	const struct profile *p = r->profile;
	const struct budget_rule *rule = &r->budget->rules[index];
	const struct budget_result *result = &r->results[index];
	char *name = strndup(r->budget->text + rule->at, rule->length);
	fputs("    <testcase", out);
	print_attribute(out, "classname", class_name(p->run.argv, p->run.argc));
	print_attribute(out, "name", name ? name : "");
	print_attribute(out, "file", r->budget->name);
	fprintf(out, " line=\"%" PRIu32 "\"", rule->line);
	free(name);
	if (result->holds) {
		fputs("/>\n", out);
		return;
	}
	char *message = report_budget_message(r, index);
	fputs(">\n", out);
	print_problem(out, result->unknown || result->unseen ? "error" : "failure",
		      message ? message : "");
	fputs("    </testcase>\n", out);
	free(message);
}

int report_budget_junit(FILE *out, const struct report_budget *r)
{
	struct counts n = {.tests = r->budget->count};
	for (uint32_t i = 0; i < r->budget->count; i++) {
		const struct budget_result *result = &r->results[i];
		bool unjudged = result->unknown || result->unseen;
		n.errors += !result->holds && unjudged;
		n.failures += !result->holds && !unjudged;
	}
	begin(out, r->budget->name, &n);
	print_command(out, r->profile->run.argv, r->profile->run.argc);
	for (uint32_t i = 0; i < r->budget->count; i++)
		print_case(out, r, i);
	end(out);
	return 0;
}

int report_budget_junit_failed(FILE *out, const char *budget, const char *const *argv,
			       uint32_t argc, enum report_outcome outcome, const char *message)
{
	bool skipped = outcome == REPORT_SKIPPED;
	begin(out, budget, &(struct counts){.tests = 1, .errors = !skipped, .skipped = skipped});
	print_command(out, argv, argc);
	fputs("    <testcase", out);
	print_attribute(out, "classname", class_name(argv, argc));
	print_attribute(out, "name", "the budget is checked");
	fputs(">\n", out);
	print_problem(out, skipped ? "skipped" : "error", message);
	fputs("    </testcase>\n", out);
	end(out);
	return 0;
}
