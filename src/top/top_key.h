/* Inside src/top: hashes by which rows are found again (FNV-1a; names are few and short). */
#ifndef HEFT_TOP_TOP_KEY_H
#define HEFT_TOP_TOP_KEY_H

#include <stdint.h>

#define TOP_KEY_BEGIN 0xcbf29ce484222325u

static inline uint64_t top_key_byte(uint64_t key, uint8_t byte)
{
	return (key ^ byte) * 0x100000001b3u;
}

static inline uint64_t top_key_number(uint64_t key, uint64_t number)
{
	for (int i = 0; i < 8; i++)
		key = top_key_byte(key, (uint8_t)(number >> 8 * i));
	return key;
}

static inline uint64_t top_key_text(uint64_t key, const char *text) /* NULL: none */
{
	for (; text && *text; text++)
		key = top_key_byte(key, (uint8_t)*text);
	return top_key_byte(key, text ? 1 : 2);
}

#endif
