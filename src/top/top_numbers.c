/* Writes numbers with two or three digits and a unit. Tenths are shown below ten only, and a number that
 * would round to four digits takes the next unit, so columns never jump.
 *
 * Invariant: a number has at most five columns, with a sign six. A clock that shows days has more. */
#include "top/top_numbers.h"

#include <inttypes.h>
#include <stdio.h>

static void scaled(char text[TOP_NUMBER], const char *sign, double value, double step,
		   const char *const *units, unsigned count)
{
	unsigned unit = 0;
	while (value >= 999.5 && unit + 1 < count) {
		value /= step;
		unit++;
	}
	snprintf(text, TOP_NUMBER, value < 9.95 && unit ? "%s%.1f%s" : "%s%.0f%s", sign, value,
		 units[unit]);
}

static const char *const byte_units[] = {"B", "K", "M", "G", "T", "P", "E"};

void top_bytes(char text[TOP_NUMBER], uint64_t bytes)
{
	scaled(text, "", (double)bytes, 1024, byte_units, 7);
}

void top_growth(char text[TOP_NUMBER], double bytes)
{
	double size = bytes < 0 ? -bytes : bytes;
	if (size < 0.5)
		snprintf(text, TOP_NUMBER, "0");
	else
		scaled(text, bytes < 0 ? "-" : "+", size, 1024, byte_units, 7);
}

void top_count(char text[TOP_NUMBER], uint64_t n)
{
	static const char *const units[] = {"", "k", "M", "G", "T", "P", "E"};
	scaled(text, "", (double)n, 1000, units, 7);
}

void top_age(char text[TOP_NUMBER], uint64_t ns)
{
	static const char *const units[] = {"ns", "us", "ms", "s"};
	double seconds = (double)ns / 1e9;
	if (seconds < 99.5)
		scaled(text, "", (double)ns, 1000, units, 4);
	else if (seconds < 99.5 * 60)
		snprintf(text, TOP_NUMBER, "%.0fm", seconds / 60);
	else if (seconds < 99.5 * 3600)
		snprintf(text, TOP_NUMBER, "%.0fh", seconds / 3600);
	else
		snprintf(text, TOP_NUMBER, "%.0fd", seconds / 86400);
}

void top_clock(char text[TOP_NUMBER], uint64_t time_ns)
{
	uint64_t seconds = time_ns / 1000000000u;
	if (seconds < 3600)
		snprintf(text, TOP_NUMBER, "%02" PRIu64 ":%02" PRIu64, seconds / 60, seconds % 60);
	else
		snprintf(text, TOP_NUMBER, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, seconds / 3600,
			 seconds / 60 % 60, seconds % 60);
}
