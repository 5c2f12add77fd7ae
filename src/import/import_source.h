/* The bytes of an input file, decompressed as they are read, in a window that
 * moves along. gzip and zstd are recognised by their first bytes, not by a name.
 *
 * A reader takes bytes from `at` up to `end` and asks for more; import_source_line
 * gives it lines. One byte beyond `end` may be read and written.
 *
 * Functions return a negative code if they fail, and then `err` is filled. */
#ifndef HEFT_IMPORT_SOURCE_H
#define HEFT_IMPORT_SOURCE_H

#include "hosted/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct profile_selection;

enum {
	IMPORT_HEAD_BYTES = 4096,  /* what formats are recognised by */
	IMPORT_LINE_MAX = 1 << 20, /* longest line of a text format */
};

struct import_source {
	const char *name;       /* for messages */
	struct heft_error *err; /* what went wrong; may be NULL */
	uint8_t *at, *end;
	bool ended; /* nothing comes after `end` */
	/* Bounds on the decompressed bytes, in all and as a multiple of the compressed ones (beyond the first
	 * 64 MiB). An importer may change them before it reads on. */
	uint64_t max_bytes, max_ratio;
	const struct profile_selection *selection; /* how much time names may take; never NULL */
	/* the rest is the source's own */
	uint8_t *window;
	uint64_t window_offset; /* of its first byte, in the decompressed data */
	uint64_t read_bytes, made_bytes;
	int fd;
	int compression;
	bool input_ended, in_frame;
	uint8_t *input;
	size_t input_at, input_len;
	void *decoder;
};

/* "-" is standard input. */
int import_source_open(struct import_source **out, const char *path, struct heft_error *err);
/* The same for bytes in memory, which are copied. */
int import_source_open_bytes(struct import_source **out, const char *name, const void *bytes,
			     size_t length, struct heft_error *err);
void import_source_close(struct import_source *in);

/* Makes the window hold at least `want` unread bytes (at most IMPORT_LINE_MAX), or all that there
 * are. `at` moves with what it points to. */
int import_source_need(struct import_source *in, size_t want);
/* Reads on, keeping what is unread. 1: there is more than before; 0: the end; or a negative code. */
int import_source_more(struct import_source *in);
/* The next line without its newline, ended by a NUL, valid until the next call. 1, 0 at the end, or
 * a negative code: also if the last line has no newline, for then the file was cut. */
int import_source_line(struct import_source *in, char **line, size_t *length);
/* Reads all that is left, in one piece of at most `max` bytes, which the caller frees. */
int import_source_rest(struct import_source *in, size_t max, uint8_t **bytes, size_t *length);
/* Where a byte of the window stands in the decompressed data. */
uint64_t import_source_offset(const struct import_source *in, const void *byte);
/* "FILE: at offset N (of the decompressed data): WHAT"; returns HEFT_EFORMAT. */
int import_fail(const struct import_source *in, uint64_t offset, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The same for a byte of the window: "FILE: at offset N: expected WHAT". */
int import_expected(const struct import_source *in, const void *byte, const char *what);
int import_no_memory(const struct import_source *in);

#endif
