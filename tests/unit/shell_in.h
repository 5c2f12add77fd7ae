/* Commands of a shell in a folder of the test, which fails with them. */
#ifndef HEFT_TESTS_SHELL_IN_H
#define HEFT_TESTS_SHELL_IN_H

#include "unit_test.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((format(printf, 2, 3))) static void shell_in(const char *folder, const char *fmt, ...)
{
	char command[2048];
	va_list ap;
	int n = snprintf(command, sizeof command, "cd %s && ", folder);
	va_start(ap, fmt);
	vsnprintf(command + n, sizeof command - (size_t)n, fmt, ap);
	va_end(ap);
	if (system(command) != 0)
		fail_msg("failed: %s", command);
}

#endif
