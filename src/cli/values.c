/* Reads values of options: times, which may be percentages of the run, and colour. hosted/number_parse.c
 * reads numbers and sizes. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cli_parse_time(const char *text, struct cli_time *time)
{
	size_t length = strlen(text);
	struct decimal d = decimal_parse(text, length);
	const char *unit = text + d.length;
	memset(time, 0, sizeof(*time));
	if (!d.length)
		return HEFT_EUSAGE;
	if (strcmp(unit, "%") == 0) {
		time->relative = true;
		time->percent = (double)d.whole + (double)d.billionths / 1e9;
		return time->percent > 100 ? HEFT_EUSAGE : 0;
	}
	if (!*unit && !d.whole && !d.billionths) /* 0 needs no unit */
		return 0;
	uint64_t ns = time_unit(unit, length - d.length);
	return ns && decimal_scale(&d, ns, &time->time_ns) ? 0 : HEFT_EUSAGE;
}

uint64_t cli_time_resolve(const struct cli_time *time, uint64_t duration_ns)
{
	if (!time->relative)
		return time->time_ns;
	if (time->percent >= 100)
		return duration_ns;
	return (uint64_t)((long double)duration_ns * (long double)time->percent / 100);
}

int cli_parse_color(const char *text, enum cli_color *color)
{
	static const char *const names[] = {"auto", "always", "never"};

	for (unsigned i = 0; i < 3; i++)
		if (strcmp(text, names[i]) == 0) {
			*color = (enum cli_color)i;
			return 0;
		}
	return HEFT_EUSAGE;
}

bool cli_use_color(enum cli_color color, FILE *stream)
{
	if (color != CLI_COLOR_AUTO)
		return color == CLI_COLOR_ALWAYS;
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

	if (no_color && *no_color)
		return false;
	return term && strcmp(term, "dumb") != 0 && isatty(fileno(stream));
}

int cli_parse_pid(const char *text, pid_t *pid)
{
	uint64_t number;
	if (number_parse(text, INT32_MAX, &number) < 0 || !number)
		return HEFT_EUSAGE;
	*pid = (pid_t)number;
	return 0;
}
