/* A session file from an input of a few bytes: pieces of offset (4 bytes), length (2), then so many bytes; the
 * rest of the file is holes. So a small input reaches every table. */
#ifndef HEFT_TESTS_FUZZ_PIECES_H
#define HEFT_TESTS_FUZZ_PIECES_H

#include "wire/session.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file of this mode. Nothing is read of one that does not begin like this. */
static inline void fuzz_fill(int fd, uint32_t mode, const uint8_t *data, size_t size)
{
	static const uint64_t magic = WIRE_MAGIC;
	static const uint32_t version = WIRE_VERSION;
	if (fd < 0 || ftruncate(fd, (off_t)WIRE_FILE_BYTES))
		abort();
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
	if (pwrite(fd, &magic, sizeof magic, offsetof(struct wire_header, magic)) < 0 ||
	    pwrite(fd, &version, sizeof version, offsetof(struct wire_header, version)) < 0 ||
	    pwrite(fd, &mode, sizeof mode, offsetof(struct wire_header, mode)) < 0)
		abort();
}

#endif
