/* Inside src/import: the fields of a protobuf message, one after the other, bounds-checked.
 *
 * Written by hand rather than with protobuf-c: generated code makes an object of every message
 * before anything can be refused (a hostile file of 1 MB becomes 50 MB of them), and heft would need
 * another compiler to build. Reading in place costs nothing and allocates nothing. */
#ifndef HEFT_IMPORT_PROTOBUF_SCAN_H
#define HEFT_IMPORT_PROTOBUF_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct protobuf_scan {
	const uint8_t *at, *end;
};

struct protobuf_field {
	uint32_t number;
	uint32_t wire; /* 0: value; 2: bytes; 1 and 5 are read into value too */
	uint64_t value;
	struct protobuf_scan bytes; /* wire 2 */
};

static inline bool protobuf_varint(struct protobuf_scan *s, uint64_t *value)
{
	uint64_t v = 0;
	for (unsigned shift = 0; shift < 70; shift += 7) {
		if (s->at == s->end)
			return false;
		uint8_t byte = *s->at++;
		if (shift == 63 && byte > 1)
			return false;
		v |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80) {
			*value = v;
			return true;
		}
	}
	return false;
}

/* 1: a field; 0: the end; -1: not protobuf (s->at is where). */
static inline int protobuf_next(struct protobuf_scan *s, struct protobuf_field *f)
{
	struct protobuf_scan from = *s;
	uint64_t tag, length;
	if (s->at == s->end)
		return 0;
	if (!protobuf_varint(s, &tag) || tag >> 3 == 0 || tag >> 32)
		goto bad;
	*f = (struct protobuf_field){.number = (uint32_t)(tag >> 3), .wire = (uint32_t)(tag & 7)};
	switch (f->wire) {
	case 0:
		if (!protobuf_varint(s, &f->value))
			goto bad;
		return 1;
	case 2:
		if (!protobuf_varint(s, &length) || length > (uint64_t)(s->end - s->at))
			goto bad;
		f->bytes = (struct protobuf_scan){s->at, s->at + length};
		s->at += length;
		return 1;
	case 1:
	case 5:
		length = f->wire == 1 ? 8 : 4;
		if (length > (uint64_t)(s->end - s->at))
			goto bad;
		for (unsigned i = 0; i < length; i++)
			f->value |= (uint64_t)s->at[i] << (8 * i);
		s->at += length;
		return 1;
	default: break;
	}
bad:
	s->at = from.at;
	return -1;
}

/* Numbers of a repeated field, packed into one or each with its own tag: calls for every one of
 * them. `f` is the field that was found. False: not protobuf, or each() said so. */
static inline bool protobuf_numbers(const struct protobuf_field *f,
				    bool (*each)(void *ctx, uint64_t value), void *ctx)
{
	if (f->wire == 0)
		return each(ctx, f->value);
	if (f->wire != 2)
		return false;
	struct protobuf_scan s = f->bytes;
	while (s.at < s.end) {
		uint64_t value;
		if (!protobuf_varint(&s, &value) || !each(ctx, value))
			return false;
	}
	return true;
}

#endif
