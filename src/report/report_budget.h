/* A budget and what was measured, in words and as JSON. Functions write to the stream and return 0;
 * write errors latch in the stream. */
#ifndef HEFT_REPORT_REPORT_BUDGET_H
#define HEFT_REPORT_REPORT_BUDGET_H

#include "profile/budget.h"

#include <stdio.h>

struct report_budget {
	const struct budget *budget;
	const struct budget_result *results; /* by rule */
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
/* After an update: what changed from r->budget to `renewed`, and what was kept although it does not
 * hold. `first`: there was no budget before. */
int report_budget_update(FILE *out, const struct report_budget *r, const struct budget *renewed,
			 const enum budget_update *updates, double headroom_percent, bool first);

#endif
