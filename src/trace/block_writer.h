/* Inside src/trace: a recording that is written block by block, compressed, checksummed and indexed. */
#ifndef HEFT_TRACE_BLOCK_WRITER_H
#define HEFT_TRACE_BLOCK_WRITER_H

#include "hosted/error.h"
#include "trace/block_output.h"
#include "trace/byte_buffer.h"
#include "trace/trace_index.h"

#include <zstd.h>

struct block_writer {
	int fd; /* -1: closed */
	bool seekable;
	char *path;
	uint64_t offset;             /* where the last complete block ends, or will end */
	struct block_output *output; /* outlives us if its disk stands still */
	struct heft_error error;     /* the first one; code 0: none */
	ZSTD_CCtx *zstd;
	uint8_t *out; /* header and payload of a block as they are written */
	size_t out_capacity;
	struct trace_index index; /* an entry for every block before offset */
};

/* Creates the file and writes its header. Whatever it returns, fini comes after it. */
int block_writer_init(struct block_writer *w, const char *path, bool force, struct heft_error *err);
void block_writer_fini(struct block_writer *w);
/* Closes the file. Returns rc, or if that is 0 the code of the error that closing brings to light. */
int block_writer_close(struct block_writer *w, int rc);
/* Length of a block of these bytes, compressed as tables are. */
uint64_t block_writer_length(struct block_writer *w, const struct byte_buffer *raw);
/* One block of all pieces, one after the other. Returns 0 or the error that is kept from now on. */
int block_write_pieces(struct block_writer *w, unsigned type, const struct byte_piece *pieces,
		       size_t piece_count, uint64_t first_ns, uint64_t last_ns, uint64_t count);
int block_write(struct block_writer *w, unsigned type, const void *raw, size_t raw_bytes,
		uint64_t first_ns, uint64_t last_ns, uint64_t count);
/* Keeps the error and returns its code. */
int block_writer_no_memory(struct block_writer *w);

#endif
