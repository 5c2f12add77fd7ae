/* Writes blocks (block_writer.h), each with one write(2).
 *
 * The file is readable at any moment: a block is either wholly there or, after a
 * kill or a full disk, the cut last one, which readers ignore. The first failure is
 * kept: what could not be written is cut off again.
 *
 * Invariant: `offset` is where the last complete block ends, and where the file position stands as soon as the output
 * has written what it has. */
#include "trace/block_writer.h"

#include "hosted/passed_file.h"
#include "hosted/whole_io.h"
#include "trace/trace_block.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	PIECE_APART = 4096, /* bytes: a piece with statistics of its own for zstd */
	/* There are too many events for more; tables are few, and repeat themselves from afar. */
	EVENTS_LEVEL = 1,
	TABLES_LEVEL = 3,
	FINISH_PATIENCE_MS = 30000, /* with a disk that takes nothing at all */
};

int block_writer_no_memory(struct block_writer *w)
{
	if (!w->error.code)
		heft_fail(&w->error, HEFT_ENOMEM, "cannot write %s: out of memory", w->path);
	return w->error.code;
}

static int fail_write(struct block_writer *w, int error)
{
	errno = error;
	if (error == BLOCK_OUTPUT_STANDS)
		return heft_fail(
			&w->error, HEFT_EIO,
			"cannot write %s: the disk took nothing for %d s\nWhat was written "
			"before can be read.",
			w->path, FINISH_PATIENCE_MS / 1000);
	heft_fail_errno(&w->error, "cannot write %s", w->path);
	size_t used = strlen(w->error.message);
	/* The part of this block that was written is worth nothing, and takes space on a full disk. */
	bool cut = w->seekable && ftruncate(w->fd, (off_t)w->output->offset) == 0;
	snprintf(w->error.message + used, sizeof w->error.message - used,
		 "\nThe recording ends there%s; what was written before can be read.",
		 cut ? "" : " with an incomplete block");
	return w->error.code;
}

static int write_all(struct block_writer *w, const void *bytes, size_t n)
{
	int error = block_output_write(w->output, bytes, n);
	if (error == ENOMEM) /* what was written before is whole */
		return block_writer_no_memory(w);
	return error ? fail_write(w, error) : 0;
}

/* Makes `out` large enough for a block of raw bytes; what was in it may be lost. */
static int reserve_out(struct block_writer *w, size_t raw_bytes)
{
	size_t need = TRACE_BLOCK_HEADER_BYTES + ZSTD_compressBound(raw_bytes);
	if (need <= w->out_capacity)
		return 0;
	free(w->out);
	w->out_capacity = 0;
	w->out = malloc(need);
	if (!w->out)
		return block_writer_no_memory(w);
	w->out_capacity = need;
	return 0;
}

/* Compresses all pieces into one frame. Returns its length, or 0 if it is no shorter than they are. A long piece ends
 * with the end of a zstd block, so that neighbours with other statistics do not share their code tables. */
static size_t compress(struct block_writer *w, uint8_t *to, const struct byte_piece *pieces,
		       size_t count, size_t raw_bytes)
{
	ZSTD_outBuffer out = {to, raw_bytes, 0};
	ZSTD_CCtx_reset(w->zstd, ZSTD_reset_session_only);
	ZSTD_CCtx_setPledgedSrcSize(w->zstd, raw_bytes);
	for (size_t i = 0; i < count; i++) {
		ZSTD_inBuffer in = {pieces[i].data, pieces[i].len, 0};
		ZSTD_EndDirective end = i + 1 == count           ? ZSTD_e_end
					: in.size >= PIECE_APART ? ZSTD_e_flush
								 : ZSTD_e_continue;
		size_t left = ZSTD_compressStream2(w->zstd, &out, &in, end);
		if (ZSTD_isError(left) || in.pos < in.size || (end != ZSTD_e_continue && left))
			return 0;
	}
	return out.pos < raw_bytes ? out.pos : 0;
}

static void join(uint8_t *to, const struct byte_piece *pieces, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (pieces[i].len)
			memcpy(to, pieces[i].data, pieces[i].len);
		to += pieces[i].len;
	}
}

int block_write_pieces(struct block_writer *w, unsigned type, const struct byte_piece *pieces,
		       size_t piece_count, uint64_t first_ns, uint64_t last_ns, uint64_t count)
{
	size_t raw_bytes = 0;
	for (size_t i = 0; i < piece_count; i++)
		raw_bytes += pieces[i].len;
	if (raw_bytes > trace_block_limit(type))
		return heft_fail(&w->error, HEFT_EREFUSED,
				 "cannot write %s: a block of %s would have %zu bytes", w->path,
				 trace_block_name(type), raw_bytes);
	int rc = reserve_out(w, raw_bytes);
	if (rc)
		return rc;
	uint8_t *payload = w->out + TRACE_BLOCK_HEADER_BYTES;
	struct trace_block_header h = {
		.magic = TRACE_BLOCK_MAGIC,
		.type = (uint8_t)type,
		.raw_bytes = (uint32_t)raw_bytes,
		.first_ns = first_ns,
		.last_ns = last_ns,
		.count = count,
	};
	size_t stored = 0;
	if (type != TRACE_BLOCK_END) {
		/* The end block is found by its fixed length. */
		ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_compressionLevel,
				       type == TRACE_BLOCK_EVENTS ? EVENTS_LEVEL : TABLES_LEVEL);
		stored = compress(w, payload, pieces, piece_count, raw_bytes);
	}
	if (stored) {
		h.flags = TRACE_BLOCK_ZSTD;
	} else {
		join(payload, pieces, piece_count);
		stored = raw_bytes;
	}
	h.stored_bytes = (uint32_t)stored;
	h.checksum = trace_block_checksum(&h, w->offset, payload);
	memcpy(w->out, &h, sizeof h);
	if (!trace_index_add(&w->index, w->offset, &h))
		return block_writer_no_memory(w);
	rc = write_all(w, w->out, sizeof h + stored);
	if (!rc)
		w->offset += sizeof h + stored;
	return rc;
}

int block_write(struct block_writer *w, unsigned type, const void *raw, size_t raw_bytes,
		uint64_t first_ns, uint64_t last_ns, uint64_t count)
{
	struct byte_piece piece = {raw, raw_bytes};
	return block_write_pieces(w, type, &piece, 1, first_ns, last_ns, count);
}

static int create_file(struct block_writer *w, const char *path, bool force, struct heft_error *err)
{
	int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | (force ? O_TRUNC : O_EXCL);
	do
		w->fd = passed_file_open(path, flags, 0644);
	while (w->fd < 0 && errno == EINTR);
	if (w->fd >= 0) {
		struct stat st;
		w->seekable = fstat(w->fd, &st) == 0 && S_ISREG(st.st_mode);
		return 0;
	}
	struct stat st;
	int saved = errno;
	if ((saved == EEXIST || saved == EISDIR) && stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
		heft_fail(err, HEFT_EREFUSED,
			  "%s is a directory\nGive -o the name of a file in it.", path);
	} else if (saved == EEXIST) {
		heft_fail(err, HEFT_EREFUSED,
			  "%s exists\nUse --force to overwrite it, or -o to write another file.",
			  path);
	} else {
		errno = saved;
		heft_fail_errno(err, "cannot write the recording %s", path);
		if (err &&
		    (saved == EACCES || saved == EPERM || saved == EROFS || saved == ENOENT)) {
			size_t used = strlen(err->message);
			snprintf(err->message + used, sizeof err->message - used,
				 "\nUse -o to write it somewhere else.");
		}
		return HEFT_EIO;
	}
	return HEFT_EREFUSED;
}

int block_writer_init(struct block_writer *w, const char *path, bool force, struct heft_error *err)
{
	memset(w, 0, sizeof *w);
	w->fd = -1;
	w->path = strdup(path);
	w->zstd = ZSTD_createCCtx();
	if (!w->path || !w->zstd)
		return heft_fail(err, HEFT_ENOMEM, "out of memory");
	int rc = create_file(w, path, force, err);
	if (rc)
		return rc;
	w->output = malloc(sizeof *w->output);
	if (!w->output)
		return heft_fail(err, HEFT_ENOMEM, "out of memory");
	block_output_init(w->output, w->fd, 0);
	struct trace_file_header h;
	trace_file_header_fill(&h);
	rc = write_all(w, &h, sizeof h);
	w->offset = sizeof h;
	if (rc && err)
		*err = w->error;
	return rc;
}

/* Ends the output. What its thread still works on stays with it. */
static int finish_output(struct block_writer *w)
{
	int error = w->output ? block_output_finish(w->output, FINISH_PATIENCE_MS) : 0;
	if (error == BLOCK_OUTPUT_STANDS) {
		w->output = NULL;
		w->fd = -1;
	}
	return error;
}

int block_writer_close(struct block_writer *w, int rc)
{
	int error = finish_output(w);
	if (error && !rc) {
		w->error.code = 0; /* that the recording has ended is no error */
		rc = fail_write(w, error);
	}
	int fd = w->fd;
	if (fd < 0)
		return rc;
	w->fd = -1;
	if (close(fd) && errno != EINTR && !rc)
		rc = heft_fail_errno(&w->error, "cannot write %s", w->path);
	return rc;
}

uint64_t block_writer_length(struct block_writer *w, const struct byte_buffer *raw)
{
	struct byte_piece piece = {raw->data, raw->len};
	if (raw->failed || reserve_out(w, raw->len))
		return 0;
	ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_compressionLevel, TABLES_LEVEL);
	size_t stored = compress(w, w->out, &piece, 1, raw->len);
	return TRACE_BLOCK_HEADER_BYTES + (stored ? stored : raw->len);
}

void block_writer_fini(struct block_writer *w)
{
	if (w->fd >= 0)
		finish_output(w);
	free(w->output);
	if (w->fd >= 0)
		close(w->fd);
	ZSTD_freeCCtx(w->zstd);
	free(w->path);
	free(w->out);
	trace_index_fini(&w->index);
}
