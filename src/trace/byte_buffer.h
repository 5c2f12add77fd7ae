/* A growing byte string for what is written seldom (definitions, tallies, the
 * index), and a bounded cursor for reading it back.
 *
 * A buffer that could not grow stays `failed` and takes nothing more; a cursor
 * that was asked for more than there is stays `bad` and gives zeros. So both can
 * be checked once at the end of a piece of work. */
#ifndef HEFT_TRACE_BYTE_BUFFER_H
#define HEFT_TRACE_BYTE_BUFFER_H

#include "hosted/vector.h"
#include "trace/prefix_varint.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct byte_piece {
	const uint8_t *data;
	size_t len;
};

struct byte_buffer {
	uint8_t *data;
	size_t len, capacity;
	bool failed;
};

static inline bool buffer_reserve(struct byte_buffer *b, size_t more)
{
	if (b->failed || more > SIZE_MAX / 4)
		return false;
	b->failed = !array_reserve(b->data, b->len, b->capacity, more + PREFIX_SCRATCH);
	return !b->failed;
}

static inline void buffer_put(struct byte_buffer *b, uint64_t value)
{
	if (buffer_reserve(b, PREFIX_MAX))
		b->len = (size_t)(prefix_put(b->data + b->len, value) - b->data);
}

static inline void buffer_put_bytes(struct byte_buffer *b, const void *bytes, size_t n)
{
	buffer_put(b, n);
	if (n && buffer_reserve(b, n)) {
		memcpy(b->data + b->len, bytes, n);
		b->len += n;
	}
}

static inline void buffer_put_string(struct byte_buffer *b, const char *s)
{
	buffer_put_bytes(b, s, s ? strlen(s) : 0);
}

static inline void buffer_fini(struct byte_buffer *b)
{
	free(b->data);
	memset(b, 0, sizeof *b);
}

/* PREFIX_SCRATCH bytes behind `end` are readable. */
struct byte_cursor {
	const uint8_t *at, *end;
	bool bad;
};

static inline size_t cursor_left(const struct byte_cursor *c)
{
	return c->bad ? 0 : (size_t)(c->end - c->at);
}

static inline uint64_t cursor_get(struct byte_cursor *c)
{
	uint64_t value = 0;
	if (c->bad || c->at >= c->end) {
		c->bad = true;
		return 0;
	}
	c->at = prefix_get(c->at, &value);
	if (c->at > c->end) {
		c->bad = true;
		return 0;
	}
	return value;
}

/* A value that must not exceed max. */
static inline uint64_t cursor_get_max(struct byte_cursor *c, uint64_t max)
{
	uint64_t value = cursor_get(c);
	if (value > max) {
		c->bad = true;
		return 0;
	}
	return value;
}

static inline const uint8_t *cursor_get_bytes(struct byte_cursor *c, size_t *n)
{
	*n = (size_t)cursor_get(c);
	if (*n > cursor_left(c)) {
		c->bad = true;
		*n = 0;
	}
	const uint8_t *p = c->at;
	c->at += *n;
	return p;
}

#endif
