/* Inside src/import: reads numbers of text formats. A scan moves *at only if it finds one; digits that
 * overflow are no number. Lines end with a NUL, which ends every scan. */
#ifndef HEFT_IMPORT_TEXT_SCAN_H
#define HEFT_IMPORT_TEXT_SCAN_H

#include "hosted/hex.h"

#include <stdbool.h>
#include <stdint.h>

static inline bool scan_decimal(const char **at, uint64_t *value)
{
	const char *s = *at;
	uint64_t v = 0;
	for (; *s >= '0' && *s <= '9'; s++)
		if (__builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
			return false;
	if (s == *at)
		return false;
	*at = s;
	*value = v;
	return true;
}

static inline bool scan_hex(const char **at, uint64_t *value)
{
	const char *s = *at;
	uint64_t v = 0;
	for (int digit; (digit = hex_digit(*s)) >= 0; s++) {
		if (v >> 60)
			return false;
		v = v << 4 | (unsigned)digit;
	}
	if (s == *at)
		return false;
	*at = s;
	*value = v;
	return true;
}

/* Takes one given character. */
static inline bool scan_one(const char **at, char c)
{
	if (**at != c)
		return false;
	++*at;
	return true;
}

static inline void scan_blanks(const char **at)
{
	while (**at == ' ' || **at == '\t')
		++*at;
}

#endif
