/* UTF-8 as RFC 3629 defines it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef HEFT_HOSTED_UTF8_H
#define HEFT_HOSTED_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Length of the well-formed sequence of two to four bytes at s (NUL-terminated); 0: there is none. */
static inline size_t utf8_sequence_length(const unsigned char *s)
{
	size_t length;
	unsigned char low = 0x80, high = 0xbf; /* bounds of the second byte */
	if (s[0] >= 0xc2 && s[0] <= 0xdf) {
		length = 2;
	} else if (s[0] >= 0xe0 && s[0] <= 0xef) {
		length = 3;
		if (s[0] == 0xe0)
			low = 0xa0;
		if (s[0] == 0xed)
			high = 0x9f;
	} else if (s[0] >= 0xf0 && s[0] <= 0xf4) {
		length = 4;
		if (s[0] == 0xf0)
			low = 0x90;
		if (s[0] == 0xf4)
			high = 0x8f;
	} else {
		return 0;
	}
	if (s[1] < low || s[1] > high)
		return 0;
	for (size_t i = 2; i < length; i++) /* a NUL ends this too: it is no continuation byte */
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	return length;
}

/* Writes a code point of at most U+10FFFF; returns how many bytes it has. */
static inline size_t utf8_encode(uint32_t code, char bytes[4])
{
	static const unsigned char marks[] = {0, 0xc0, 0xe0, 0xf0};
	unsigned more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
	bytes[0] = (char)(marks[more] | code >> 6 * more);
	for (unsigned i = 1; i <= more; i++)
		bytes[i] = (char)(0x80 | (code >> 6 * (more - i) & 63));
	return more + 1;
}

#endif
