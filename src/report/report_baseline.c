/* What changed against the baseline, as a table: the number, what it was, what it is, the change, and the limit that the
 * budget sets. Numbers that did not change are left out unless all were asked for. */
#include "report/report_budget_parts.h"

#include <inttypes.h>
#include <string.h>

enum { LONGEST_SUBJECT = 48, LEAST_SUBJECT = 16, CHANGE_COLUMNS = 26 };

/* The rule of the budget about this number: one that is broken, if there is one. NULL: there is none. */
static const struct budget_rule *limit_of(const struct report_budget *r,
					  const struct budget_rule *number, bool *holds)
{
	const struct budget_rule *found = NULL;
	*holds = true;
	for (uint32_t i = 0; i < r->budget->count && *holds; i++) {
		const struct budget_rule *rule = &r->budget->rules[i];
		if (!budget_is_same_subject(rule, number) || (found && r->results[i].holds))
			continue;
		found = rule;
		*holds = r->results[i].holds;
	}
	return found;
}

bool report_baseline_known(const struct report_budget *r, uint32_t i)
{
	const struct budget_rule *number = &r->baseline->measured->rules[i];
	return !r->baseline->now[i].unknown &&
	       (number->measure || budget_same_subject(r->budget, number));
}

static bool is_shown(const struct report_budget *r, uint32_t i)
{
	bool changed = r->baseline->now[i].measured != r->baseline->measured->rules[i].limit;
	return report_baseline_known(r, i) && (changed || r->verbose);
}

/* In `width` columns, cut in the middle; blanks fill it up. */
static void print_subject(FILE *out, const struct budget *b, const struct budget_rule *number,
			  size_t width)
{
	char text[256];
	snprintf(text, sizeof text, "%.*s", (int)number->subject_length, b->text + number->at);
	for (char *c = text; *c; c++)
		if (*c == '\t')
			*c = ' ';
	size_t used = words_print_fit(out, text, width);
	if (used < width)
		fprintf(out, "%*s", (int)(width - used), "");
}

/* In at least so many columns. */
static void print_change(FILE *out, const struct budget_rule *number, uint64_t now, int columns)
{
	char text[96] = "";
	FILE *piece = fmemopen(text, sizeof text, "w");
	if (piece && now != number->limit)
		report_budget_print_change(piece, number, number->limit, now);
	if (piece)
		fclose(piece);
	fprintf(out, "%-*s", columns, text);
}

static void print_row(FILE *out, const struct report_budget *r, uint32_t i, size_t width)
{
	const struct report_baseline *b = r->baseline;
	const struct budget_rule *number = &b->measured->rules[i];
	bool holds;
	const struct budget_rule *rule = limit_of(r, number, &holds);
	fputs("  ", out);
	words_style(out, r->color, holds ? STYLE_PLAIN : STYLE_WARN);
	print_subject(out, b->measured, number, width);
	words_style(out, r->color, STYLE_PLAIN);
	fprintf(out, " %13s %13s", report_budget_value(number, number->limit).text,
		report_budget_value(number, b->now[i].measured).text);
	if (rule || b->now[i].measured != number->limit)
		fputs("  ", out);
	print_change(out, number, b->now[i].measured, rule ? CHANGE_COLUMNS : 0);
	if (rule)
		fprintf(out, " %s %s%s", budget_operator_sign(rule->op),
			report_budget_value(rule, rule->limit).text, holds ? "" : ", broken");
	putc('\n', out);
}

void report_budget_print_changes(FILE *out, const struct report_budget *r)
{
	const struct report_baseline *b = r->baseline;
	uint32_t known = 0, changed = 0, shown = 0;
	size_t width = strlen("measure");
	for (uint32_t i = 0; b && i < b->measured->count; i++) {
		const struct budget_rule *number = &b->measured->rules[i];
		bool listed = is_shown(r, i);
		known += report_baseline_known(r, i);
		changed += report_baseline_known(r, i) && b->now[i].measured != number->limit;
		shown += listed;
		if (listed && number->subject_length > width)
			width = number->subject_length;
	}
	if (!b)
		return;
	width = width > LONGEST_SUBJECT ? LONGEST_SUBJECT : width;
	if (!changed && !r->verbose && !report_budget_broken(r))
		return;
	if (!changed)
		fputs("no number differs from the baseline ", out);
	else
		fprintf(out, "%" PRIu32 " of %" PRIu32 " numbers differ%s from the baseline ",
			changed, known, changed == 1 ? "s" : "");
	words_print(out, b->name, 80);
	putc('\n', out);
	if (!shown)
		return;
	fprintf(out, "\n  %-*s %13s %13s  %-*s %s\n", (int)width, "measure", "baseline", "now",
		CHANGE_COLUMNS, "change", "limit");
	for (uint32_t i = 0; i < b->measured->count; i++)
		if (is_shown(r, i))
			print_row(out, r, i, width);
}

int report_baseline_update(FILE *out, const struct report_budget *r, const char *name,
			   enum report_renewal renewal)
{
	static const char *const words[] = {
		[REPORT_FIRST] = "a first baseline",
		[REPORT_KEPT] = "this run measured the same, nothing was written",
		[REPORT_RENEWED] = "renewed",
	};
	words_print(out, name, 80);
	fprintf(out, ": %s\n", words[renewal]);
	if (renewal == REPORT_RENEWED)
		report_budget_print_changes(out, r);
	return 0;
}
