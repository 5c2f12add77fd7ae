/* A budget and what was measured, in words and as JSON. Functions write to the stream and return 0;
 * write errors latch in the stream. */
#ifndef HEFT_REPORT_REPORT_BUDGET_H
#define HEFT_REPORT_REPORT_BUDGET_H

#include "profile/budget.h"

#include <stdio.h>

/* What the numbers were in the last accepted run, and are now. */
struct report_baseline {
	const char *name;
	const struct budget *measured;   /* a rule "== N" each */
	const struct budget_result *now; /* by these */
};

struct report_budget {
	const struct budget *budget;
	const struct budget_result *results;    /* by rule */
	const struct report_baseline *baseline; /* NULL: there is none */
	const struct budget_finding *findings;
	const struct profile *profile;
	const char *recording; /* NULL: not kept */
	const char *at;        /* the moment of which rules call something live; NULL: the end */
	size_t width;          /* of a line of text; 0: 100 */
	bool color;
	bool verbose; /* every rule, not only those that do not hold */
};

/* Rules that do not hold, those that cannot be judged included. */
uint32_t report_budget_broken(const struct report_budget *r);
int report_budget_text(FILE *out, const struct report_budget *r);
int report_budget_json(FILE *out, const struct report_budget *r);
/* A test case for each rule, as JUnit's XML has them. */
int report_budget_junit(FILE *out, const struct report_budget *r);
/* The same where nothing was measured: one test case. */
enum report_outcome { REPORT_SKIPPED, REPORT_FAILED };
int report_budget_junit_failed(FILE *out, const char *budget, const char *const *argv,
			       uint32_t argc, enum report_outcome outcome, const char *message);
/* A line "::error file=..." for each broken rule, as GitHub reads them. `root`: the folder of the repository; NULL: paths stay
 * as they are. */
int report_budget_github(FILE *out, const struct report_budget *r, const char *root);
/* What became of the baseline in an update, and what changed. */
enum report_renewal { REPORT_FIRST, REPORT_KEPT, REPORT_RENEWED };
int report_baseline_update(FILE *out, const struct report_budget *r, const char *name,
			   enum report_renewal renewal);
/* After an update: what changed from r->budget to `renewed`, and what was kept although it does not
 * hold. `first`: there was no budget before. */
int report_budget_update(FILE *out, const struct report_budget *r, const struct budget *renewed,
			 const enum budget_update *updates, double headroom_percent, bool first);

#endif
