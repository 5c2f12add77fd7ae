/* Compression for exporters: gzip (pprof always, heaptrack by its name) and zstd.
 *
 * Formats write many small pieces, so they go into a buffer first. The gzip header has no time and
 * no name: the same profile gives the same bytes. */
#include "export/packed_stream.h"

#include "hosted/error.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

/* Fast levels: for 100,000 stacks gzip's usual level takes most of the time and saves 6 %. */
enum { GZIP_WINDOW = 15 + 16 /* zlib's way to ask for gzip */, GZIP_LEVEL = 1, ZSTD_LEVEL = 1 };

static bool ends_with(const char *s, const char *end)
{
	size_t length = strlen(s), tail = strlen(end);
	return length > tail && strcmp(s + length - tail, end) == 0;
}

enum packing packing_of_name(const char *name)
{
	if (name && ends_with(name, ".gz"))
		return PACKED_GZIP;
	if (name && ends_with(name, ".zst"))
		return PACKED_ZSTD;
	return PACKED_PLAIN;
}

int packed_open(struct packed_stream *s, FILE *out, enum packing packing)
{
	s->out = out;
	s->packing = packing;
	s->state = NULL;
	s->failed = false;
	s->used = 0;
	if (packing == PACKED_GZIP) {
		z_stream *z = calloc(1, sizeof *z);
		if (z && deflateInit2(z, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW, 8,
				      Z_DEFAULT_STRATEGY) != Z_OK) {
			free(z);
			z = NULL;
		}
		s->state = z;
	} else if (packing == PACKED_ZSTD) {
		ZSTD_CStream *z = ZSTD_createCStream();
		if (z && ZSTD_isError(ZSTD_initCStream(z, ZSTD_LEVEL))) {
			ZSTD_freeCStream(z);
			z = NULL;
		}
		s->state = z;
	}
	s->failed = packing != PACKED_PLAIN && !s->state;
	return s->failed ? HEFT_ENOMEM : 0;
}

static void pack_gzip(struct packed_stream *s, bool last)
{
	uint8_t packed[16 * 1024];
	z_stream *z = s->state;
	z->next_in = s->buffer;
	z->avail_in = (uInt)s->used;
	do {
		z->next_out = packed;
		z->avail_out = sizeof packed;
		if (deflate(z, last ? Z_FINISH : Z_NO_FLUSH) == Z_STREAM_ERROR) {
			s->failed = true;
			return;
		}
		fwrite(packed, 1, sizeof packed - z->avail_out, s->out);
	} while (z->avail_out == 0);
}

static void pack_zstd(struct packed_stream *s, bool last)
{
	uint8_t packed[16 * 1024];
	ZSTD_inBuffer in = {s->buffer, s->used, 0};
	size_t left;
	do {
		ZSTD_outBuffer out = {packed, sizeof packed, 0};
		left = ZSTD_compressStream2(s->state, &out, &in,
					    last ? ZSTD_e_end : ZSTD_e_continue);
		if (ZSTD_isError(left)) {
			s->failed = true;
			return;
		}
		fwrite(packed, 1, out.pos, s->out);
	} while (in.pos < in.size || (last && left));
}

static void pack(struct packed_stream *s, bool last)
{
	if (!s->failed && !ferror(s->out)) {
		if (s->packing == PACKED_GZIP)
			pack_gzip(s, last);
		else if (s->packing == PACKED_ZSTD)
			pack_zstd(s, last);
		else
			fwrite(s->buffer, 1, s->used, s->out);
	}
	s->used = 0;
}

void packed_flush(struct packed_stream *s)
{
	pack(s, false);
}

void packed_write(struct packed_stream *s, const void *data, size_t length)
{
	const uint8_t *from = data;
	while (length) {
		if (s->used == sizeof s->buffer)
			packed_flush(s);
		size_t room = sizeof s->buffer - s->used, n = length < room ? length : room;
		memcpy(s->buffer + s->used, from, n);
		s->used += n;
		from += n;
		length -= n;
	}
}

void packed_text(struct packed_stream *s, const char *text)
{
	packed_write(s, text, strlen(text));
}

int packed_close(struct packed_stream *s)
{
	pack(s, true);
	if (s->packing == PACKED_GZIP && s->state) {
		deflateEnd(s->state);
		free(s->state);
	} else if (s->packing == PACKED_ZSTD) {
		ZSTD_freeCStream(s->state);
	}
	s->state = NULL;
	if (s->failed)
		return HEFT_ENOMEM;
	return ferror(s->out) ? HEFT_EIO : 0;
}
