/* Reading single blocks of a recording, checked: shared by the reader and by
 * verify. Everything is read with pread into buffers that are used again; the
 * file may be growing, or be cut by someone else, while it is read. */
#ifndef HEFT_TRACE_TRACE_FILE_H
#define HEFT_TRACE_TRACE_FILE_H

#include "hosted/error.h"
#include "trace/byte_buffer.h"
#include "trace/trace_block.h"

struct trace_file {
	int fd;
	char *path;
	uint64_t size; /* when it was opened */
	void *zstd;
	uint8_t *stored, *raw;
	size_t stored_capacity, raw_capacity;
};

/* A block as loaded; valid until the next load. */
struct trace_block {
	uint64_t offset, next_offset;
	struct trace_block_header header;
	struct byte_cursor payload;
};

enum trace_load {
	TRACE_LOAD_OK = 0,
	TRACE_LOAD_CUT = 1, /* the file ends within the block */
			    /* else: a negative code, err is filled */
};

/* Opens the file and checks its header. */
int trace_file_open(struct trace_file *f, const char *path, struct heft_error *err);
void trace_file_close(struct trace_file *f);
/* Loads the block at offset: header, checksum, decompressed payload. At the very end of the file
 * it is CUT too. */
int trace_file_load(struct trace_file *f, uint64_t offset, struct trace_block *b,
		    struct heft_error *err);
/* The same, but an events block is only checked, not decompressed: its payload is empty. Most of a
 * recording is events, and a reader that needs the other blocks does not wait for them. */
int trace_file_scan(struct trace_file *f, uint64_t offset, struct trace_block *b,
		    struct heft_error *err);
/* "PATH: at offset N: expected WHAT in the NAME block" */
int trace_file_expected(const struct trace_file *f, const struct trace_block *b, const char *what,
			struct heft_error *err);

#endif
