/* Reads and decompresses the input (import_source.h).
 *
 * One window of fixed size is all the memory that this takes, whatever the file
 * claims: unread bytes move to its front and the decoder fills the rest. A file that
 * unpacks to very much more than itself is refused by its ratio, long before it fills
 * memory or takes a day. The first 64 MiB are free, because small files of equal
 * lines compress to nearly nothing.
 *
 * Invariants: window <= at <= end <= window + WINDOW_BYTES; the byte at `end` is
 * the window's own, so that a line can be ended there. */
#include "import/import_source.h"

#include "hosted/vector.h"
#include "profile/profile_from_trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { PLAIN, GZIP, ZSTD };

enum {
	WINDOW_BYTES = 2 * IMPORT_LINE_MAX,
	INPUT_BYTES = 1 << 18,
};

#define UNCHECKED_BYTES ((uint64_t)64 << 20)
#define MAX_BYTES ((uint64_t)1 << 40)
#define MAX_RATIO 400

int import_fail(const struct import_source *in, uint64_t offset, const char *fmt, ...)
{
	char what[600];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	for (char *c = what; *c; c++) /* pieces of the file may be quoted in it */
		if ((unsigned char)*c < ' ')
			*c = '?';
	return heft_fail_format(in->err, in->name, offset, "%s%s", what,
				in->compression == PLAIN ? ""
							 : " (offset in the decompressed data)");
}

int import_expected(const struct import_source *in, const void *byte, const char *what)
{
	return import_fail(in, import_source_offset(in, byte), "expected %s", what);
}

int import_no_memory(const struct import_source *in)
{
	return heft_fail(in->err, HEFT_ENOMEM, "not enough memory to read %s", in->name);
}

uint64_t import_source_offset(const struct import_source *in, const void *byte)
{
	return in->window_offset + (uint64_t)((const uint8_t *)byte - in->window);
}

/* Refills the compressed input once it is used up. */
static int read_input(struct import_source *in)
{
	if (in->input_at < in->input_len || in->input_ended)
		return 0;
	if (in->fd < 0) {
		in->input_ended = true;
		return 0;
	}
	ssize_t got;
	do
		got = read(in->fd, in->input, INPUT_BYTES);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return heft_fail_errno(in->err, "cannot read %s", in->name);
	in->input_at = 0;
	in->input_len = (size_t)got;
	in->read_bytes += (size_t)got;
	in->input_ended = got == 0;
	return 0;
}

static int cut(const struct import_source *in, const char *what)
{
	return import_fail(in, import_source_offset(in, in->end),
			   "expected more %s data: the file was cut", what);
}

static int inflate_some(struct import_source *in, size_t space, size_t *made)
{
	z_stream *z = in->decoder;
	if (!in->in_frame) { /* another member, or the end; what follows the last one is padding */
		if (in->input_at == in->input_len || in->input[in->input_at] != 0x1f) {
			in->ended = true;
			return 0;
		}
		if (inflateReset(z) != Z_OK)
			return import_no_memory(in);
		in->in_frame = true;
	}
	if (in->input_at == in->input_len)
		return cut(in, "gzip");
	z->next_in = in->input + in->input_at;
	z->avail_in = (uInt)(in->input_len - in->input_at);
	z->next_out = in->end;
	z->avail_out = (uInt)space;
	int rc = inflate(z, Z_NO_FLUSH);
	*made = space - z->avail_out;
	in->input_at = in->input_len - z->avail_in;
	if (rc == Z_STREAM_END)
		in->in_frame = false;
	else if (rc == Z_MEM_ERROR)
		return import_no_memory(in);
	else if (rc != Z_OK && rc != Z_BUF_ERROR)
		return import_fail(in, import_source_offset(in, in->end) + *made,
				   "expected gzip data: %s", z->msg ? z->msg : "it is damaged");
	return 0;
}

static int unzstd_some(struct import_source *in, size_t space, size_t *made)
{
	if (in->input_at == in->input_len) {
		/* The decoder may still hold output of the last frame; an empty input asks for it. */
		if (!in->in_frame) {
			in->ended = true;
			return 0;
		}
	}
	ZSTD_inBuffer from = {in->input + in->input_at, in->input_len - in->input_at, 0};
	ZSTD_outBuffer to = {in->end, space, 0};
	size_t rc = ZSTD_decompressStream(in->decoder, &to, &from);
	*made = to.pos;
	in->input_at += from.pos;
	if (ZSTD_isError(rc))
		return import_fail(in, import_source_offset(in, in->end) + to.pos,
				   "expected zstd data: %s", ZSTD_getErrorName(rc));
	in->in_frame = rc != 0;
	if (in->input_ended && in->in_frame && !to.pos)
		return cut(in, "zstd");
	return 0;
}

static int check_bounds(const struct import_source *in)
{
	if (in->made_bytes > in->max_bytes)
		return import_fail(in, in->made_bytes,
				   "expected at most %llu bytes of data after decompression",
				   (unsigned long long)in->max_bytes);
	if (in->compression != PLAIN && in->made_bytes > UNCHECKED_BYTES &&
	    in->made_bytes / in->max_ratio > in->read_bytes - (in->input_len - in->input_at))
		return import_fail(in, in->made_bytes,
				   "expected a profile, but this unpacks to more than %llu times "
				   "its size: refused",
				   (unsigned long long)in->max_ratio);
	return 0;
}

int import_source_more(struct import_source *in)
{
	size_t unread = (size_t)(in->end - in->at);
	if (in->ended)
		return 0;
	if (in->at > in->window) {
		memmove(in->window, in->at, unread);
		in->window_offset += (uint64_t)(in->at - in->window);
		in->at = in->window;
		in->end = in->window + unread;
	}
	size_t space = WINDOW_BYTES - unread, made = 0;
	while (!made && space && !in->ended) {
		int rc = read_input(in);
		if (rc == 0 && in->compression == GZIP)
			rc = inflate_some(in, space, &made);
		else if (rc == 0 && in->compression == ZSTD)
			rc = unzstd_some(in, space, &made);
		else if (rc == 0) {
			made = in->input_len - in->input_at;
			if (made > space)
				made = space;
			memcpy(in->end, in->input + in->input_at, made);
			in->input_at += made;
			in->ended = made == 0;
		}
		if (rc < 0)
			return rc;
	}
	in->end += made;
	in->made_bytes += made;
	int rc = check_bounds(in);
	return rc < 0 ? rc : made > 0;
}

int import_source_need(struct import_source *in, size_t want)
{
	while ((size_t)(in->end - in->at) < want) {
		int rc = import_source_more(in);
		if (rc <= 0)
			return rc;
	}
	return 0;
}

int import_source_line(struct import_source *in, char **line, size_t *length)
{
	size_t searched = 0;
	for (;;) {
		size_t unread = (size_t)(in->end - in->at);
		uint8_t *newline = memchr(in->at + searched, '\n', unread - searched);
		if (newline) {
			*newline = 0;
			*line = (char *)in->at;
			*length = (size_t)(newline - in->at);
			in->at = newline + 1;
			return 1;
		}
		searched = unread;
		if (unread > IMPORT_LINE_MAX)
			return import_fail(in, import_source_offset(in, in->at),
					   "expected a line of at most %d bytes", IMPORT_LINE_MAX);
		int rc = import_source_more(in);
		if (rc < 0)
			return rc;
		if (rc == 0 && unread)
			return import_fail(in, import_source_offset(in, in->end),
					   "expected the end of a line: the file was cut");
		if (rc == 0)
			return 0;
	}
}

int import_source_rest(struct import_source *in, size_t max, uint8_t **bytes, size_t *length)
{
	uint8_t *all = NULL;
	size_t used = 0, capacity = 0;
	int rc;
	do {
		size_t unread = (size_t)(in->end - in->at);
		if (unread > max - used) {
			rc = import_fail(in, used + unread, "expected a file of at most %zu bytes",
					 max);
		} else if (!array_reserve(all, used, capacity, unread)) {
			rc = import_no_memory(in);
		} else {
			memcpy(all + used, in->at, unread);
			used += unread;
			in->at = in->end;
			rc = import_source_more(in);
		}
	} while (rc > 0);
	if (rc < 0) {
		free(all);
		return rc;
	}
	*bytes = all;
	*length = used;
	return 0;
}

static int start_decoder(struct import_source *in)
{
	const uint8_t *b = in->input + in->input_at;
	size_t n = in->input_len - in->input_at;
	if (n >= 2 && b[0] == 0x1f && b[1] == 0x8b) {
		z_stream *z = calloc(1, sizeof *z);
		if (!z)
			return import_no_memory(in);
		if (inflateInit2(z, 15 + 16) != Z_OK) {
			free(z);
			return import_no_memory(in);
		}
		in->decoder = z;
		in->compression = GZIP;
	} else if (n >= 4 && memcmp(b, "\x28\xb5\x2f\xfd", 4) == 0) {
		in->decoder = ZSTD_createDCtx();
		if (!in->decoder)
			return import_no_memory(in);
		in->compression = ZSTD;
	}
	return 0;
}

static const struct profile_selection everything;

static int new_source(struct import_source **out, const char *name, struct heft_error *err)
{
	struct import_source *in = calloc(1, sizeof *in);
	uint8_t *window = malloc(WINDOW_BYTES + 1);
	*out = NULL;
	if (!in || !window) {
		free(in);
		free(window);
		return heft_fail(err, HEFT_ENOMEM, "not enough memory to read %s", name);
	}
	*in = (struct import_source){
		.name = name,
		.err = err,
		.fd = -1,
		.max_bytes = MAX_BYTES,
		.max_ratio = MAX_RATIO,
		.selection = &everything,
		.window = window,
		.at = window,
		.end = window,
	};
	*out = in;
	return 0;
}

/* At least four bytes of input, so that the first read decides about compression; a pipe may bring
 * fewer at a time. */
static int read_start(struct import_source *in)
{
	size_t used = 0;
	while (used < 4) {
		ssize_t got = read(in->fd, in->input + used, INPUT_BYTES - used);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return heft_fail_errno(in->err, "cannot read %s", in->name);
		if (got == 0)
			break;
		used += (size_t)got;
	}
	in->input_len = used;
	in->read_bytes = used;
	return 0;
}

static int open_path(struct import_source *in, const char *path)
{
	struct stat st;
	if (strcmp(path, "-") == 0)
		in->fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	else
		in->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (in->fd < 0)
		return heft_fail_errno(in->err, "cannot open %s", in->name);
	if (fstat(in->fd, &st) < 0)
		return heft_fail_errno(in->err, "cannot read %s", in->name);
	if (S_ISDIR(st.st_mode))
		return heft_fail(in->err, HEFT_EFORMAT, "%s is a directory, not a recording",
				 in->name);
	if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode))
		return heft_fail(in->err, HEFT_EFORMAT, "%s is a device, not a recording",
				 in->name);
	return 0;
}

/* Reads the first bytes, unless rc says that the source could not be opened. */
static int start(struct import_source **in, int rc)
{
	if (rc == 0)
		rc = start_decoder(*in);
	if (rc == 0)
		rc = import_source_need(*in, IMPORT_HEAD_BYTES);
	if (rc < 0) {
		import_source_close(*in);
		*in = NULL;
	}
	return rc;
}

int import_source_open(struct import_source **out, const char *path, struct heft_error *err)
{
	int rc = new_source(out, strcmp(path, "-") ? path : "standard input", err);
	struct import_source *in = *out;
	if (rc < 0)
		return rc;
	rc = open_path(in, path);
	if (rc == 0 && !(in->input = malloc(INPUT_BYTES)))
		rc = import_no_memory(in);
	if (rc == 0)
		rc = read_start(in);
	return start(out, rc);
}

int import_source_open_bytes(struct import_source **out, const char *name, const void *bytes,
			     size_t length, struct heft_error *err)
{
	int rc = new_source(out, name, err);
	struct import_source *in = *out;
	if (rc < 0)
		return rc;
	in->input = malloc(length + 1);
	if (!in->input)
		return start(out, import_no_memory(in));
	memcpy(in->input, bytes, length);
	in->input_len = in->read_bytes = length;
	return start(out, 0);
}

void import_source_close(struct import_source *in)
{
	if (!in)
		return;
	if (in->compression == GZIP) {
		inflateEnd(in->decoder);
		free(in->decoder);
	} else if (in->compression == ZSTD) {
		ZSTD_freeDCtx(in->decoder);
	}
	if (in->fd >= 0)
		close(in->fd);
	free(in->input);
	free(in->window);
	free(in);
}
