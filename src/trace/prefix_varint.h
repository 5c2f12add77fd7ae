/* Integers in 1 to 9 bytes, for the recording file.
 *
 * The length stands in the trailing zeros of the first byte (as in "prefix
 * varints"), not in a bit of every byte as in LEB128: writing and reading are
 * then one unaligned 8-byte access and a few shifts, without a loop and without
 * a branch that random lengths would make the processor mispredict. A value of
 * n <= 8 bytes is `value << n | 1 << (n - 1)`, little-endian; a first byte of 0
 * announces 8 full bytes.
 *
 * prefix_put may write PREFIX_SCRATCH bytes from p on, prefix_get may read as
 * many: buffers have that much slack behind their end. */
#ifndef HEFT_TRACE_PREFIX_VARINT_H
#define HEFT_TRACE_PREFIX_VARINT_H

#include <stdint.h>
#include <string.h>

enum { PREFIX_MAX = 9, PREFIX_SCRATCH = 9 };

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "recordings are written as they lie");

/* By the number of the highest bit: how many bytes beyond the first, for up to 8. */
static const uint8_t prefix_more[64] = {
	0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3,
	4, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 7, 7, 7, 7, 7, 7,
};

/* A value below 2^56. */
static inline uint8_t *prefix_put_56(uint8_t *p, uint64_t value)
{
	unsigned more = prefix_more[63u ^ (unsigned)__builtin_clzll(value | 1)];
	uint64_t word = (value << 1 | 1) << more;
	memcpy(p, &word, 8);
	return p + more + 1;
}

static inline uint8_t *prefix_put(uint8_t *p, uint64_t value)
{
	if (__builtin_expect(value >> 56 != 0, 0)) {
		p[0] = 0;
		memcpy(p + 1, &value, 8);
		return p + 9;
	}
	return prefix_put_56(p, value);
}

static inline const uint8_t *prefix_get(const uint8_t *p, uint64_t *value)
{
	uint64_t word;
	memcpy(&word, p, 8);
	if (__builtin_expect((word & 0xff) == 0, 0)) {
		memcpy(value, p + 1, 8);
		return p + 9;
	}
	unsigned n = (unsigned)__builtin_ctzll(word) + 1;
	*value = word << (64 - 8 * n) >> (64 - 7 * n);
	return p + n;
}

static inline uint64_t zigzag(int64_t v)
{
	return ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
}

static inline int64_t unzigzag(uint64_t v)
{
	return (int64_t)(v >> 1 ^ (0 - (v & 1)));
}

#endif
