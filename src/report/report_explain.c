/* `heft report --explain N`: why one finding is reported. It shows the finding, the rule that found it, each
 * condition of the rule with its limit, the measured value and the distance between the two, and what would
 * have made the rule silent.
 *
 * This file knows no rule: conditions are recorded by the calls that decide them (findings/diagnosis.h). */
#include "report/report_parts.h"

#include "profile/site_callers.h"
#include "report/report_words.h"

#include <inttypes.h>
#include <stdlib.h>

/* The columns of the table of conditions, as wide as their longest text */
struct columns {
	int measured, limit, beyond;
};

struct cells {
	struct condition_words measured, limit, beyond;
};

static struct cells cells_of(const struct condition *c)
{
	struct cells s = {.measured = condition_value(c, c->measured)};
	double margin = condition_margin(c);
	if (c->unit != UNIT_FACT)
		snprintf(s.limit.text, sizeof s.limit.text, "%s %.40s",
			 c->at_most ? "at most" : "at least", condition_value(c, c->limit).text);
	if (margin >= 999.5)
		snprintf(s.beyond.text, sizeof s.beyond.text, "over 1000 x");
	else if (margin > 0)
		snprintf(s.beyond.text, sizeof s.beyond.text, "%.3g x", margin);
	return s;
}

static int wider(int columns, const char *text)
{
	int needed = (int)words_columns(text);
	return needed > columns ? needed : columns;
}

static void print_table(FILE *out, const struct finding *f, const struct report_options *o)
{
	struct columns w = {wider(0, "measured"), wider(0, "limit"), wider(0, "beyond it")};
	for (uint32_t i = 0; i < f->condition_count; i++) {
		struct cells s = cells_of(&f->conditions[i]);
		w.measured = wider(w.measured, s.measured.text);
		w.limit = wider(w.limit, s.limit.text);
		w.beyond = wider(w.beyond, s.beyond.text);
	}
	size_t indent = (size_t)(w.measured + w.limit + w.beyond) + 8;
	words_print_styled(out, o->color, STYLE_DIM, "  %*s  %-*s  %*s  of\n", w.measured,
			   "measured", w.limit, "limit", w.beyond, "beyond it");
	for (uint32_t i = 0; i < f->condition_count; i++) {
		struct cells s = cells_of(&f->conditions[i]);
		fprintf(out, "  %*s  %-*s  %*s  ", w.measured, s.measured.text, w.limit,
			s.limit.text, w.beyond, s.beyond.text);
		words_print_wrapped(out, f->conditions[i].what, indent, report_width(o));
		putc('\n', out);
	}
}

static int print_conditions(FILE *out, const struct finding *f, const struct report_options *o)
{
	uint32_t *order = malloc(((size_t)f->condition_count + 1) * sizeof *order);
	if (!order)
		return HEFT_ENOMEM;
	conditions_by_margin(f, order);
	words_print_styled(out, o->color, STYLE_BOLD, "\nConditions, all of which held\n");
	print_table(out, f, o);
	words_print_styled(out, o->color, STYLE_BOLD,
			   "\nAny one of these would have made it silent, the nearest first\n");
	for (uint32_t i = 0; i < f->condition_count; i++)
		report_print_note(out, o, false, condition_reversed(&f->conditions[order[i]]).text);
	free(order);
	return 0;
}

int report_explain(FILE *out, const struct profile *p, const struct report_options *o)
{
	const struct finding *f = o->findings && o->explain
					  ? findings_get(o->findings, o->explain - 1)
					  : NULL;
	if (!f)
		return 0;
	report_print_title(out, p, o, "why a finding is reported");
	putc('\n', out);
	struct site_callers *callers = f->site < p->site_count ? site_callers_new(p, &f->site, 1)
							       : NULL;
	int rc = report_print_finding(out, p, f, o->explain,
				      callers ? site_callers_text(callers, 0) : NULL, o);
	site_callers_free(callers);
	if (rc == 0 && f->rule) {
		words_print_styled(out, o->color, STYLE_BOLD, "\nRule of %s\n",
				   finding_kind_name(f->kind));
		fputs("  ", out);
		words_print_wrapped(out, f->rule, 2, report_width(o));
		putc('\n', out);
	}
	if (rc == 0 && f->severity_reason) {
		words_print_styled(out, o->color, STYLE_BOLD, "\nWhy it is %s\n",
				   finding_severity_name(f->severity));
		fputs("  ", out);
		words_print_wrapped(out, f->severity_reason, 2, report_width(o));
		putc('\n', out);
	}
	if (rc == 0 && f->condition_count)
		rc = print_conditions(out, f, o);
	if (rc == 0)
		report_print_next(out, o, "", "all findings and the top sites");
	return rc;
}
