/* Reports as text that tests can look at. */
#ifndef HEFT_TESTS_REPORT_FIXTURE_H
#define HEFT_TESTS_REPORT_FIXTURE_H

#include "report/report.h"

#include "unit_test.h"

#include <stdio.h>

typedef int report_fn(FILE *out, const struct profile *p, const struct report_options *o);

static inline char *text_of(report_fn *report, const struct profile *p,
			    const struct report_options *o)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	assert_int_equal(report(out, p, o), 0);
	assert_int_equal(fclose(out), 0);
	return text;
}

#endif
