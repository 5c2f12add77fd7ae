/* Inside src/report: ledgers in a comparison. */
#ifndef HEFT_REPORT_REPORT_DIFF_LEDGER_H
#define HEFT_REPORT_REPORT_DIFF_LEDGER_H

#include "hosted/json_writer.h"
#include "report/report_diff.h"

/* The lines that changed, of one moment that both sides have; nothing if there is none, or only stacks or another
 * moment were asked for. *changed: more than noise. 0 or HEFT_ENOMEM. */
int report_diff_ledger_text(FILE *out, const struct profile_diff *d,
			    const struct report_diff_options *o, bool *changed);
/* Writes "ledgers": [...] into an object: one for each kind of moment that both sides have. */
int report_diff_ledger_json(struct json_writer *w, const struct profile_diff *d,
			    const struct report_diff_options *o);

#endif
