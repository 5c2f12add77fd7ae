/* Inside src/symbol: a cursor over bytes of DWARF, in which numbers and strings follow each other. The bytes are
 * hostile: a cursor that was asked for more than there is stays at the end, gives zeros and is `bad`, so that a
 * reader can check once after several steps. */
#ifndef HEFT_SYMBOL_DWARF_CURSOR_H
#define HEFT_SYMBOL_DWARF_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct dwarf_cursor {
	const uint8_t *at, *end;
	bool bad;
};

static inline size_t dwarf_left(const struct dwarf_cursor *c)
{
	return (size_t)(c->end - c->at);
}

/* A number of at most 8 bytes; little-endian, as the machine is. */
static inline uint64_t dwarf_fixed(struct dwarf_cursor *c, size_t bytes)
{
	uint64_t value = 0;
	if (dwarf_left(c) < bytes) {
		c->bad = true;
		c->at = c->end;
		return 0;
	}
	memcpy(&value, c->at, bytes);
	c->at += bytes;
	return value;
}

/* A LEB128 number, unsigned. *bits becomes how many bits it was written with. */
static inline uint64_t dwarf_leb(struct dwarf_cursor *c, unsigned *bits)
{
	uint64_t value = 0;
	for (*bits = 0; c->at < c->end;) {
		uint8_t byte = *c->at++;
		if (*bits < 64)
			value |= (uint64_t)(byte & 127) << *bits;
		*bits += 7;
		if (!(byte & 128))
			return value;
	}
	c->bad = true;
	return 0;
}

static inline uint64_t dwarf_uleb(struct dwarf_cursor *c)
{
	unsigned bits;
	return dwarf_leb(c, &bits);
}

static inline int64_t dwarf_sleb(struct dwarf_cursor *c)
{
	unsigned bits;
	uint64_t value = dwarf_leb(c, &bits);
	if (!c->bad && bits < 64 && value >> (bits - 1))
		value |= ~UINT64_C(0) << bits;
	return (int64_t)value;
}

/* A string up to its NUL, in the bytes themselves. */
static inline const char *dwarf_string(struct dwarf_cursor *c)
{
	const uint8_t *nul = memchr(c->at, 0, dwarf_left(c));
	const char *text = (const char *)c->at;
	c->bad |= !nul;
	c->at = nul ? nul + 1 : c->end;
	return nul ? text : "";
}

/* The length at the start of a unit, a table or an entry. `offset_bytes` becomes the size of offsets in it: 8 in
 * the 64-bit format. */
static inline uint64_t dwarf_length(struct dwarf_cursor *c, unsigned *offset_bytes)
{
	uint64_t length = dwarf_fixed(c, 4);
	*offset_bytes = length == 0xffffffff ? 8 : 4;
	return *offset_bytes == 8 ? dwarf_fixed(c, 8) : length;
}

#endif
