/* Hexadecimal digits. */
#ifndef HEFT_HOSTED_HEX_H
#define HEFT_HOSTED_HEX_H

#include <stddef.h>
#include <stdint.h>

/* The value of a digit, -1 if it is none. */
static inline int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* Writes two digits a byte, and a NUL behind them. */
static inline void hex_put(char *text, const uint8_t *bytes, size_t count)
{
	static const char digits[] = "0123456789abcdef";
	for (size_t i = 0; i < count; i++) {
		*text++ = digits[bytes[i] >> 4];
		*text++ = digits[bytes[i] & 15];
	}
	*text = 0;
}

#endif
