/* The blob as it lies in a file of ours, made ready for an address. */
#ifndef HEFT_ATTACH_BLOB_IMAGE_H
#define HEFT_ATTACH_BLOB_IMAGE_H

#include "hosted/error.h"
#include "wire/blob.h"

#include <stddef.h>

enum { BLOB_PARTS = 8 };

struct blob_image {
	uint8_t *bytes;      /* all that is not zero at first; owned */
	size_t filled, size; /* of these; of the blob in memory, whole pages */
	uint64_t at;         /* where it will lie; 0: not decided */
	unsigned count;
	struct blob_part {
		uint64_t from, to; /* offsets, whole pages */
		int protection;    /* as of mmap */
	} parts[BLOB_PARTS];
	/* Offsets */
	uint64_t shared; /* of its struct wire_blob */
	uint64_t eh_frame_hdr, headers, relocations;
	uint32_t header_count, relocation_count;
};

int blob_image_read(struct blob_image *b, const char *path, struct heft_error *err);
void blob_image_fini(struct blob_image *b);
/* Moves it to an address, once, and fills in what the blob must know of itself. */
void blob_image_place(struct blob_image *b, uint64_t at);
/* Adds memory behind it, to be read only; before it is placed. Returns its offset. */
uint64_t blob_image_extend(struct blob_image *b, size_t bytes);
/* In `bytes`; until the image is freed. */
struct wire_blob *blob_image_shared(const struct blob_image *b);

#endif
