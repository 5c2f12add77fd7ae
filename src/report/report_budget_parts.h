/* Inside src/report: what text, JSON, JUnit files and annotations of `heft check` share. */
#ifndef HEFT_REPORT_REPORT_BUDGET_PARTS_H
#define HEFT_REPORT_REPORT_BUDGET_PARTS_H

#include "report/report_budget.h"
#include "report/report_words.h"

/* A number in the unit of the rule's measure. */
struct words report_budget_value(const struct budget_rule *rule, uint64_t value);
/* "+17.5 KiB (+13.6 %)", "+990 (x 100)", "-3" */
void report_budget_print_change(FILE *out, const struct budget_rule *rule, uint64_t from,
				uint64_t to);
/* Why a rule cannot be judged. */
const char *report_budget_lack(const struct report_budget *r, const struct budget_rule *rule);
/* Whether a number of the baseline was looked for in this run: nobody looks for findings that no rule is about. */
bool report_baseline_known(const struct report_budget *r, uint32_t number);
/* What is wrong with a rule, without markup: the rule, what was measured and the limit in the first line, then a line for each
 * part. For free(); NULL: no memory. */
char *report_budget_message(const struct report_budget *r, uint32_t rule);
/* Where a rule was broken: what has grown most since the baseline, or the largest site. NULL: no site is known. */
const struct profile_frame *report_budget_place(const struct report_budget *r, uint32_t rule);
/* What changed against the baseline; nothing if there is none, or if nothing changed and only that was asked for. */
void report_budget_print_changes(FILE *out, const struct report_budget *r);

#endif
