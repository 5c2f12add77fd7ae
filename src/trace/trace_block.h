/* The frame of the recording file: its header, and the blocks it consists of.
 * Everything here is little-endian and fixed; docs/trace-format.md explains it. */
#ifndef HEFT_TRACE_TRACE_BLOCK_H
#define HEFT_TRACE_TRACE_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_FILE_MAGIC "\x89HEFT\r\n\x1a"
#define TRACE_BLOCK_MAGIC 0x4b4c4248u /* "HBLK" */

enum {
	TRACE_VERSION = 4,
	TRACE_VERSION_OLDEST = 2, /* that is still read */
	TRACE_FILE_HEADER_BYTES = 32,
	TRACE_BLOCK_HEADER_BYTES = 48,
	TRACE_END_PAYLOAD_BYTES = 40,
	/* Uncompressed lengths, and so what a hostile one can cost. */
	TRACE_BLOCK_LIMIT = 64 << 20,
	TRACE_TABLE_LIMIT =
		16 << 20, /* META, DEFINITIONS, RSS, ANONYMOUS, LEDGER, HEAP: they grow in memory */
	TRACE_TALLY_PART = 1 << 12, /* sites, and threads, in one block of a tally */
};

enum trace_block_type {
	TRACE_BLOCK_META = 1,
	TRACE_BLOCK_DEFINITIONS,
	TRACE_BLOCK_EVENTS,
	TRACE_BLOCK_RSS,
	TRACE_BLOCK_CHECKPOINT,
	TRACE_BLOCK_TALLY,
	TRACE_BLOCK_INDEX,
	TRACE_BLOCK_END,
	TRACE_BLOCK_BEHAVIOUR, /* stands directly before the CHECKPOINT or TALLY it belongs to */
	TRACE_BLOCK_SAMPLES,   /* of one process; a later one of the same replaces it */
	TRACE_BLOCK_PEAK,      /* of several sampled processes; a later one replaces it */
	TRACE_BLOCK_ANONYMOUS, /* resident memory that is no file's, beside what was recorded */
	TRACE_BLOCK_LEDGER,    /* where the resident memory of a process was at one moment */
	TRACE_BLOCK_HEAP,      /* what a look at the live blocks of a process told */
	TRACE_BLOCK_MAPPINGS,  /* calls that map memory, in the order of time */
	TRACE_BLOCK_REMARKS,   /* what programs said, in the order of time */
	TRACE_BLOCK_TYPES      /* from here on: of a later minor revision, skipped */
};

enum { TRACE_BLOCK_ZSTD = 1 };

struct trace_block_header {
	uint32_t magic;
	uint8_t type, flags;
	uint16_t zero;
	uint32_t raw_bytes;    /* of the payload, uncompressed */
	uint32_t stored_bytes; /* of the payload in the file: follows the header */
	uint64_t first_ns, last_ns;
	/* EVENTS: events; MAPPINGS: calls; REMARKS: remarks; RSS, ANONYMOUS: samples; CHECKPOINT, TALLY: parts left after it. */
	uint64_t count;
	uint64_t checksum; /* of the 40 bytes before, the block's offset, and the stored payload */
};
_Static_assert(sizeof(struct trace_block_header) == TRACE_BLOCK_HEADER_BYTES, "as on disk");

struct trace_file_header {
	char magic[8];
	uint32_t version;
	uint32_t header_bytes;
	uint64_t zero;
	uint64_t checksum; /* of the 24 bytes before */
};
_Static_assert(sizeof(struct trace_file_header) == TRACE_FILE_HEADER_BYTES, "as on disk");

struct trace_end_payload {
	uint64_t index_offset, tally_offset, duration_ns, events, blocks;
};
_Static_assert(sizeof(struct trace_end_payload) == TRACE_END_PAYLOAD_BYTES, "as on disk");

void trace_file_header_fill(struct trace_file_header *h);
/* NULL, or what was expected. */
const char *trace_file_header_check(const struct trace_file_header *h);
uint32_t trace_block_limit(unsigned type);
/* payload is what is stored, h->stored_bytes of it. */
uint64_t trace_block_checksum(const struct trace_block_header *h, uint64_t offset,
			      const void *payload);
/* The header alone, before anything is read or allocated: NULL, or what was expected. */
const char *trace_block_header_check(const struct trace_block_header *h);
const char *trace_block_name(unsigned type);

#endif
