/* Reads numbers (number_parse.h) with integers only, so that nothing is rounded on the way. */
#include "hosted/number_parse.h"

#include "hosted/error.h"

#include <ctype.h>
#include <string.h>

int number_parse(const char *text, uint64_t max, uint64_t *number)
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

struct decimal decimal_parse(const char *text, size_t length)
{
	struct decimal d = {0};
	size_t at = 0, digits = 0;
	uint64_t unit = 100000000;
	for (; at < length && isdigit((unsigned char)text[at]); at++, digits++)
		if (__builtin_mul_overflow(d.whole, 10, &d.whole) ||
		    __builtin_add_overflow(d.whole, (uint64_t)(text[at] - '0'), &d.whole))
			return d;
	if (at < length && text[at] == '.') {
		for (at++; at < length && isdigit((unsigned char)text[at]); at++, digits++) {
			d.billionths += (uint64_t)(text[at] - '0') * unit;
			unit /= 10;
		}
	}
	d.length = digits ? at : 0;
	return d;
}

bool decimal_scale(const struct decimal *d, uint64_t scale, uint64_t *value)
{
	unsigned __int128 scaled = (unsigned __int128)d->whole * scale +
				   ((unsigned __int128)d->billionths * scale + 500000000) /
					   1000000000;
	*value = (uint64_t)scaled;
	return scaled <= UINT64_MAX;
}

/* Takes k, M, G, T in either case, then i and B as people write them. */
uint64_t size_unit(const char *text, size_t length)
{
	static const char letters[] = "kmgt";
	uint64_t scale = 1;
	size_t at = 0;
	const char *letter = length ? strchr(letters, tolower((unsigned char)text[0])) : NULL;
	if (letter && *letter) {
		scale = (uint64_t)1 << (10 * (letter - letters + 1));
		at++;
		if (at < length && text[at] == 'i')
			at++;
	}
	if (at < length && text[at] == 'B')
		at++;
	return at == length ? scale : 0;
}

uint64_t time_unit(const char *text, size_t length)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {
		{"ns", 1},         {"us", 1000},       {"ms", 1000000},
		{"s", 1000000000}, {"m", 60000000000}, {"h", 3600000000000},
	};
	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (strlen(units[i].name) == length && memcmp(units[i].name, text, length) == 0)
			return units[i].ns;
	return 0;
}

int size_parse(const char *text, uint64_t *bytes)
{
	size_t length = strlen(text);
	struct decimal d = decimal_parse(text, length);
	uint64_t unit = d.length ? size_unit(text + d.length, length - d.length) : 0;
	return unit && decimal_scale(&d, unit, bytes) ? 0 : HEFT_EUSAGE;
}
