/* A session file from an input of a few bytes: pieces of offset (4 bytes), length (2), then so many bytes; the
 * rest of the file is holes. So a small input reaches every table. */
#ifndef HEFT_TESTS_FUZZ_PIECES_H
#define HEFT_TESTS_FUZZ_PIECES_H

#include "wire/session.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void fuzz_fill(int fd, const uint8_t *data, size_t size)
{
	while (size > 6) {
		uint32_t at;
		uint16_t length;
		memcpy(&at, data, sizeof at);
		memcpy(&length, data + 4, sizeof length);
		data += 6;
		size -= 6;
		if (length > size)
			length = (uint16_t)size;
		if (at < WIRE_FILE_BYTES && length <= WIRE_FILE_BYTES - at &&
		    pwrite(fd, data, length, at) != length)
			abort();
		data += length;
		size -= length;
	}
}

#endif
