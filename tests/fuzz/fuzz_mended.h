/* A random change in a recording would nearly always end at a checksum. So an input is mended first: magic numbers,
 * lengths that reach beyond the end and checksums are made right, and what lies behind them (tables, columns, tallies,
 * index) stays as the fuzzer made it. */
#ifndef HEFT_TESTS_FUZZ_MENDED_H
#define HEFT_TESTS_FUZZ_MENDED_H

#include "trace/trace.h"
#include "trace/trace_block.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void fuzz_mend(uint8_t *file, size_t size)
{
	struct trace_file_header fh;
	trace_file_header_fill(&fh);
	memcpy(file, &fh, sizeof fh);
	size_t at = sizeof fh;
	struct trace_block_header h;
	while (size - at >= sizeof h) {
		memcpy(&h, file + at, sizeof h);
		size_t left = size - at - sizeof h;
		h.magic = TRACE_BLOCK_MAGIC;
		h.zero = 0;
		h.flags &= TRACE_BLOCK_ZSTD;
		if (h.stored_bytes > left)
			h.stored_bytes = (uint32_t)left;
		if (!h.flags)
			h.raw_bytes = h.stored_bytes;
		h.checksum = trace_block_checksum(&h, at, file + at + sizeof h);
		memcpy(file + at, &h, sizeof h);
		at += sizeof h + h.stored_bytes;
	}
}

/* A file in memory and its path. Close the descriptor. */
static int fuzz_mended_file(const uint8_t *data, size_t size, char path[64])
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	uint8_t *file = malloc(size);
	if (fd < 0 || !file)
		abort();
	memcpy(file, data, size);
	fuzz_mend(file, size);
	if (write(fd, file, size) != (ssize_t)size)
		abort();
	free(file);
	snprintf(path, 64, "/proc/self/fd/%d", fd);
	return fd;
}

#endif
