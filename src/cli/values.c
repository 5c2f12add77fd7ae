/* Values of options: numbers, sizes, times, colour. Strict: a value that is not wholly understood
 * is refused, because "10Mb" silently read as 10 would cost someone an afternoon. Fractions are
 * kept exact enough by scaling in long double (64 bits of mantissa on x86-64) and refusing what
 * does not fit in 64 bits. */
#include "cli/cli.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cli_parse_number(const char *text, uint64_t max, uint64_t *number)
{
	uint64_t n = 0;

	if (!*text)
		return HEFT_EUSAGE;
	for (const char *c = text; *c; c++) {
		unsigned digit = (unsigned)(*c - '0');

		if (digit > 9 || digit > max || n > (max - digit) / 10)
			return HEFT_EUSAGE;
		n = n * 10 + digit;
	}
	*number = n;
	return 0;
}

/* "1", "1.5", ".5": no sign, no exponent, no hexadecimal, whatever the locale. Returns the first
 * byte after it, or NULL. */
static const char *parse_decimal(const char *text, long double *value)
{
	long double v = 0, scale = 1;
	bool any = false;
	const char *c = text;

	for (; isdigit((unsigned char)*c); c++, any = true)
		v = v * 10 + (*c - '0');
	if (*c == '.') {
		c++;
		for (; isdigit((unsigned char)*c); c++, any = true) {
			v = v * 10 + (*c - '0');
			scale *= 10;
		}
	}
	if (!any || c - text > 40)
		return NULL;
	*value = v / scale;
	return c;
}

static int scale_to(long double value, long double unit, uint64_t *out)
{
	long double scaled = value * unit;

	if (!(scaled < 18446744073709551616.0L))
		return HEFT_EUSAGE;
	*out = (uint64_t)(scaled + 0.5L < 18446744073709551616.0L ? scaled + 0.5L : scaled);
	return 0;
}

int cli_parse_size(const char *text, uint64_t *bytes)
{
	static const char letters[] = "kmgt";
	long double value, unit = 1;
	const char *rest = parse_decimal(text, &value);

	if (!rest)
		return HEFT_EUSAGE;
	if (*rest) {
		const char *letter = strchr(letters, tolower((unsigned char)*rest));

		if (letter) {
			for (const char *l = letters; l <= letter; l++)
				unit *= 1024;
			rest++;
			if (*rest == 'i')
				rest++;
		}
		if (*rest == 'B')
			rest++;
		if (*rest)
			return HEFT_EUSAGE;
	}
	return scale_to(value, unit, bytes);
}

int cli_parse_time(const char *text, struct cli_time *time)
{
	static const struct {
		const char *name;
		long double ns;
	} units[] = {{"ns", 1},	  {"us", 1e3L}, {"ms", 1e6L},
		     {"s", 1e9L}, {"m", 60e9L}, {"h", 3600e9L}};
	long double value;
	const char *rest = parse_decimal(text, &value);

	memset(time, 0, sizeof(*time));
	if (!rest)
		return HEFT_EUSAGE;
	if (strcmp(rest, "%") == 0) {
		if (value > 100)
			return HEFT_EUSAGE;
		time->relative = true;
		time->percent = (double)value;
		return 0;
	}
	if (!*rest && value == 0) /* nothing is nothing in every unit */
		return 0;
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
		if (strcmp(rest, units[i].name) == 0)
			return scale_to(value, units[i].ns, &time->time_ns);
	return HEFT_EUSAGE;
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
