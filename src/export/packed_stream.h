/* Inside src/export: a stream that is compressed on its way to another one. Errors latch. */
#ifndef HEFT_EXPORT_PACKED_STREAM_H
#define HEFT_EXPORT_PACKED_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum packing { PACKED_PLAIN, PACKED_GZIP, PACKED_ZSTD };
/* By the end of a name: ".gz", ".zst"; NULL and others are plain. */
enum packing packing_of_name(const char *name);

struct packed_stream {
	FILE *out;
	enum packing packing;
	void *state; /* z_stream or ZSTD_CStream */
	bool failed; /* out of memory; errors of `out` latch there */
	size_t used;
	uint8_t buffer[64 * 1024];
};

int packed_open(struct packed_stream *s, FILE *out, enum packing packing); /* 0 or HEFT_ENOMEM */
/* Writes what is left and the trailer. 0, HEFT_ENOMEM or, if `out` failed, HEFT_EIO. */
int packed_close(struct packed_stream *s);
void packed_flush(struct packed_stream *s); /* empties the buffer, when it is full */
void packed_write(struct packed_stream *s, const void *data, size_t length);
void packed_text(struct packed_stream *s, const char *text);

static inline void packed_byte(struct packed_stream *s, uint8_t byte)
{
	if (s->used == sizeof s->buffer)
		packed_flush(s);
	s->buffer[s->used++] = byte;
}

#endif
