/* A module as it stands in the memory of a running process: its ELF header, segments and build id. */
#ifndef HEFT_ATTACH_TARGET_IMAGE_H
#define HEFT_ATTACH_TARGET_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TARGET_IMAGE_SEGMENTS = 64, TARGET_BUILD_ID_MOST = 64, TARGET_HEADER_BYTES = 4096 };

/* Who reads the memory. False: not all of it is there. */
struct target_memory {
	bool (*read)(void *context, uint64_t at, void *to, size_t bytes);
	void *context;
};

struct target_segment {
	uint64_t address, bytes; /* as in the file; bytes in memory */
	bool execute, write;
};

struct target_image {
	uint64_t header_at; /* where the ELF header stands in memory */
	uint64_t bias;      /* run-time addresses minus addresses as in the file */
	struct target_segment segments[TARGET_IMAGE_SEGMENTS];
	uint32_t segment_count;
	uint64_t dynamic, dynamic_bytes; /* as in the file; 0 bytes: statically linked */
	uint8_t build_id[TARGET_BUILD_ID_MOST];
	uint32_t build_id_len; /* 0: has none */
	/* The ELF header and the program headers. */
	uint8_t header[TARGET_HEADER_BYTES];
	uint32_t header_bytes;
};

/* False: no module of this architecture stands there. */
bool target_image_read(struct target_image *im, const struct target_memory *memory,
		       uint64_t header_at);
/* The segment with code that has an address as in the file; NULL: none. */
const struct target_segment *target_image_code(const struct target_image *im, uint64_t address);

#endif
