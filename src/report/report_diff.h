/* Two profiles compared, in words and as JSON. Functions write to the stream and return 0 or
 * HEFT_ENOMEM; write errors latch in the stream. */
#ifndef HEFT_REPORT_REPORT_DIFF_H
#define HEFT_REPORT_REPORT_DIFF_H

#include "profile/profile_diff.h"

#include <stdio.h>

struct report_diff_options {
	const char *old_path, *new_path;
	enum measure_id sort;
	size_t limit; /* changes shown; SIZE_MAX: all */
	size_t width; /* of a line of text; 0: 100 */
	bool color;
	bool full; /* JSON: deep stacks are whole */
	struct profile_threshold threshold;
	const char *focus, *ignore; /* what the profiles were filtered with, or NULL */
	/* The moment that was asked for, as it was written, or NULL: what is live is of then, and alone is
	 * compared. `moment`: its words, to which `at` is added if at_time; has_times: when that was in each. */
	const char *at, *moment;
	bool at_time, has_times;
	uint64_t old_ns, new_ns;
};

int report_diff_text(FILE *out, const struct profile_diff *d, const struct report_diff_options *o);
int report_diff_json(FILE *out, const struct profile_diff *d, const struct report_diff_options *o);

#endif
