/* Reading the bytes of unwind tables. A cursor knows its end. A read past the end
 * sets `bad` and yields 0, so the code that parses needs no check at every step and
 * cannot leave the object's readable memory. */
#ifndef HEFT_CAPTURE_CFI_CURSOR_H
#define HEFT_CAPTURE_CFI_CURSOR_H

#include "capture/cfi.h"

#include <string.h>

/* Kept out of line: the code that parses calls some of these at many places. */
#define CURSOR static __attribute__((noinline, unused))

struct cursor {
	const uint8_t *at, *end;
	int bad;
};

/* From `at` to the end of the segment that holds it. */
CURSOR struct cursor cursor_at(const struct cfi_image *im, uintptr_t at)
{
	struct cursor c = {0};
	uintptr_t end = im->segments.headers ? heft_segment_end(&im->segments, at) : im->high;
	if (at < im->low || at > end || end > im->high)
		c.bad = 1;
	else {
		c.at = (const uint8_t *)at;
		c.end = (const uint8_t *)end;
	}
	return c;
}

static inline uint64_t cursor_left(const struct cursor *c)
{
	return (uint64_t)(c->end - c->at);
}

static inline uint64_t take(struct cursor *c, unsigned bytes)
{
	uint64_t v = 0;
	if (c->bad || cursor_left(c) < bytes) {
		c->bad = 1;
		return 0;
	}
	memcpy(&v, c->at, bytes); /* little-endian */
	c->at += bytes;
	return v;
}

CURSOR uint64_t uleb(struct cursor *c)
{
	uint64_t v = 0;
	for (unsigned shift = 0;; shift += 7) {
		uint64_t b = take(c, 1);
		if (shift < 64)
			v |= (b & 0x7f) << shift;
		if (!(b & 0x80) || c->bad)
			return v;
	}
}

CURSOR int64_t sleb(struct cursor *c)
{
	uint64_t v = 0;
	unsigned shift = 0;
	uint64_t b;
	do {
		b = take(c, 1);
		if (shift < 64)
			v |= (b & 0x7f) << shift;
		shift += 7;
	} while (b & 0x80 && !c->bad);
	if (shift < 64 && b & 0x40)
		v |= ~0ull << shift;
	return (int64_t)v;
}

static inline void skip(struct cursor *c, uint64_t bytes)
{
	if (c->bad || cursor_left(c) < bytes)
		c->bad = 1;
	else
		c->at += bytes;
}

/* The cursor shall end after so many bytes more. */
static inline void cursor_limit(struct cursor *c, uint64_t bytes)
{
	if (c->bad || cursor_left(c) < bytes)
		c->bad = 1;
	else
		c->end = c->at + bytes;
}

/* The operations of the expression (ULEB length, then so many bytes) at im->low + at. */
static inline struct cursor expression_at(const struct cfi_image *im, int32_t at)
{
	struct cursor c = cursor_at(im, im->low + (uintptr_t)at);
	uint64_t length = uleb(&c);
	if (at < 0)
		c.bad = 1;
	cursor_limit(&c, length);
	return c;
}

#endif
