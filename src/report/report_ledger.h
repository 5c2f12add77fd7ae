/* A ledger in words: a table of its lines. */
#ifndef HEFT_REPORT_REPORT_LEDGER_H
#define HEFT_REPORT_REPORT_LEDGER_H

#include "hosted/ledger.h"
#include "profile/profile.h"

#include <stdio.h>

struct report_ledger_options {
	const char *command; /* words for the process; or NULL */
	bool recorded;       /* say when it was */
	const char *ended;   /* how it ended, if there is none of its exit; or NULL */
	uint64_t end_ns;
	size_t limit; /* rows of a section; SIZE_MAX: all */
	size_t width; /* of a line; 0: 100 */
};

void report_ledger_text(FILE *out, const struct ledger *l, const struct report_ledger_options *o);
/* Where the memory of the largest ledger of a recording is, in one sentence, and when that was: "75.0 MiB: heap 10.9, Python's
 * objects (pymalloc's arenas) 48.2, libraries 9.1 ...". Returns the row's name; NULL: there is none. */
const char *report_ledger_row(const struct profile *p, char *text, size_t size);
/* One row for each of several: "process 12, exit, 1.2 s: 75.0 MiB". */
void report_ledger_list(FILE *out, const struct ledger *ledgers, size_t count,
			const struct ledger *shown);
/* One row a line; the first names the columns. Sizes are bytes. */
void report_ledger_csv(FILE *out, const struct ledger *ledgers, size_t count);

#endif
