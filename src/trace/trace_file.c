/* Reads single blocks (see trace_file.h).
 *
 * Order matters here: the header is checked before the payload is read, the
 * length against the file before memory is taken, the checksum before anything
 * is decompressed, and the frame's own length before it is decompressed. */
#include "trace/trace_file.h"

#include "hosted/passed_file.h"
#include "trace/events_block.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

/* Reads n bytes; returns how many there were (fewer at the end of the file) or -1. */
static ssize_t read_at(const struct trace_file *f, void *to, size_t n, uint64_t offset)
{
	size_t done = 0;
	while (done < n) {
		ssize_t got = pread(f->fd, (char *)to + done, n - done, (off_t)(offset + done));
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -1;
		if (got == 0)
			break;
		done += (size_t)got;
	}
	return (ssize_t)done;
}

int trace_file_open(struct trace_file *f, const char *path, struct heft_error *err)
{
	struct stat st;
	struct trace_file_header h = {0};
	int rc;
	memset(f, 0, sizeof *f);
	f->fd = passed_file_open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
	if (f->fd < 0)
		return heft_fail_errno(err, "cannot open %s", path);
	f->path = strdup(path);
	f->zstd = ZSTD_createDCtx();
	if (!f->path || !f->zstd) {
		rc = heft_fail(err, HEFT_ENOMEM, "out of memory");
		goto out;
	}
	if (fstat(f->fd, &st)) {
		rc = heft_fail_errno(err, "cannot read %s", path);
		goto out;
	}
	if (!S_ISREG(st.st_mode)) {
		rc = heft_fail(err, HEFT_EFORMAT, "%s is %s, not a recording", path,
			       S_ISDIR(st.st_mode) ? "a directory" : "not a regular file");
		goto out;
	}
	f->size = (uint64_t)st.st_size;
	ssize_t got = read_at(f, &h, sizeof h, 0);
	if (got < 0) {
		rc = heft_fail_errno(err, "cannot read %s", path);
		goto out;
	}
	const char *expected = trace_file_header_check(&h);
	if (got < (ssize_t)sizeof h &&
	    memcmp(h.magic, TRACE_FILE_MAGIC, (size_t)(got < 8 ? got : 8)) == 0)
		expected = "the 32 bytes of a heft recording's header, but the file ends";
	rc = expected ? heft_fail_format(err, path, 0, "expected %s", expected) : 0;
out:
	if (rc)
		trace_file_close(f);
	return rc;
}

void trace_file_close(struct trace_file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	free(f->path);
	ZSTD_freeDCtx(f->zstd);
	free(f->stored);
	free(f->raw);
	memset(f, 0, sizeof *f);
	f->fd = -1;
}

/* Makes space for n bytes and the slack that decoders may read behind them, which is zeroed. */
static uint8_t *reserve(uint8_t **buffer, size_t *capacity, size_t n)
{
	size_t need = n + EVENTS_READ_SLACK;
	if (need > *capacity) {
		free(*buffer);
		*capacity = 0;
		*buffer = malloc(need);
		if (*buffer)
			*capacity = need;
	}
	if (*buffer)
		memset(*buffer + n, 0, EVENTS_READ_SLACK);
	return *buffer;
}

int trace_file_expected(const struct trace_file *f, const struct trace_block *b, const char *what,
			struct heft_error *err)
{
	return heft_fail_format(err, f->path, b->offset, "expected %s in the %s block", what,
				trace_block_name(b->header.type));
}

/* Reads and checks the header and the stored bytes; the payload is not unpacked yet. */
static int load_stored(struct trace_file *f, uint64_t offset, struct trace_block *b,
		       struct heft_error *err)
{
	struct trace_block_header *h = &b->header;
	b->offset = offset;
	if (offset > f->size || f->size - offset < sizeof *h)
		return TRACE_LOAD_CUT;
	ssize_t got = read_at(f, h, sizeof *h, offset);
	if (got < 0)
		return heft_fail_errno(err, "cannot read %s", f->path);
	if (got < (ssize_t)sizeof *h)
		return TRACE_LOAD_CUT;
	const char *expected = trace_block_header_check(h);
	if (expected)
		return heft_fail_format(err, f->path, offset, "expected %s", expected);
	if (f->size - offset - sizeof *h < h->stored_bytes)
		return TRACE_LOAD_CUT;

	uint8_t *stored = reserve(&f->stored, &f->stored_capacity, h->stored_bytes);
	if (!stored)
		return heft_fail(err, HEFT_ENOMEM, "%s: out of memory", f->path);
	got = read_at(f, stored, h->stored_bytes, offset + sizeof *h);
	if (got < 0)
		return heft_fail_errno(err, "cannot read %s", f->path);
	if ((size_t)got < h->stored_bytes)
		return TRACE_LOAD_CUT;
	if (trace_block_checksum(h, offset, stored) != h->checksum)
		return trace_file_expected(f, b, "bytes that match the checksum", err);
	b->payload = (struct byte_cursor){stored, stored, false};
	b->next_offset = offset + sizeof *h + h->stored_bytes;
	return TRACE_LOAD_OK;
}

static int unpack(struct trace_file *f, struct trace_block *b, struct heft_error *err)
{
	const struct trace_block_header *h = &b->header;
	const uint8_t *payload = f->stored;
	if (h->flags & TRACE_BLOCK_ZSTD) {
		if (ZSTD_getFrameContentSize(f->stored, h->stored_bytes) != h->raw_bytes)
			return trace_file_expected(f, b, "a zstd frame of the block's length", err);
		uint8_t *raw = reserve(&f->raw, &f->raw_capacity, h->raw_bytes);
		if (!raw)
			return heft_fail(err, HEFT_ENOMEM, "%s: out of memory", f->path);
		size_t n = ZSTD_decompressDCtx(f->zstd, raw, h->raw_bytes, f->stored,
					       h->stored_bytes);
		if (ZSTD_isError(n) || n != h->raw_bytes)
			return trace_file_expected(f, b, "a zstd frame that can be decompressed",
						   err);
		payload = raw;
	}
	b->payload = (struct byte_cursor){payload, payload + h->raw_bytes, false};
	return TRACE_LOAD_OK;
}

int trace_file_load(struct trace_file *f, uint64_t offset, struct trace_block *b,
		    struct heft_error *err)
{
	int rc = load_stored(f, offset, b, err);
	return rc ? rc : unpack(f, b, err);
}

int trace_file_scan(struct trace_file *f, uint64_t offset, struct trace_block *b,
		    struct heft_error *err)
{
	int rc = load_stored(f, offset, b, err);
	return rc || b->header.type == TRACE_BLOCK_EVENTS ? rc : unpack(f, b, err);
}
