/* Headers and checksums of the recording file. The checksum covers the block's
 * offset too: a block that was copied or moved to another place, or that is left
 * from an earlier file, is not taken for a valid one. */
#include "trace/trace_block.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

void trace_file_header_fill(struct trace_file_header *h)
{
	memset(h, 0, sizeof *h);
	memcpy(h->magic, TRACE_FILE_MAGIC, sizeof h->magic);
	h->version = TRACE_VERSION;
	h->header_bytes = sizeof *h;
	h->checksum = XXH64(h, offsetof(struct trace_file_header, checksum), 0);
}

const char *trace_file_header_check(const struct trace_file_header *h)
{
	if (memcmp(h->magic, TRACE_FILE_MAGIC, sizeof h->magic))
		return "the first bytes of a heft recording";
	_Static_assert(TRACE_VERSION_OLDEST == 2 && TRACE_VERSION == 4, "as the words say");
	if (h->version < TRACE_VERSION_OLDEST || h->version > TRACE_VERSION)
		return "a recording of format version 2, 3 or 4: this one was written by another "
		       "heft";
	if (h->checksum != XXH64(h, offsetof(struct trace_file_header, checksum), 0) ||
	    h->header_bytes != sizeof *h || h->zero)
		return "a file header that matches its checksum";
	return NULL;
}

uint64_t trace_block_checksum(const struct trace_block_header *h, uint64_t offset,
			      const void *payload)
{
	uint64_t seed = XXH64(h, offsetof(struct trace_block_header, checksum), offset);
	return XXH64(payload, h->stored_bytes, seed);
}

uint32_t trace_block_limit(unsigned type)
{
	return type == TRACE_BLOCK_META || type == TRACE_BLOCK_DEFINITIONS ||
			       type == TRACE_BLOCK_RSS || type == TRACE_BLOCK_ANONYMOUS ||
			       type == TRACE_BLOCK_LEDGER || type == TRACE_BLOCK_HEAP
		       ? TRACE_TABLE_LIMIT
		       : TRACE_BLOCK_LIMIT;
}

const char *trace_block_header_check(const struct trace_block_header *h)
{
	if (h->magic != TRACE_BLOCK_MAGIC)
		return "the start of a block (\"HBLK\")";
	if (h->type == 0 || h->zero || (h->flags & ~TRACE_BLOCK_ZSTD))
		return "a block header with a known type and flags";
	if (h->raw_bytes > trace_block_limit(h->type))
		return "a block within the limits (16 MiB for tables, 64 MiB for others)";
	if (h->flags & TRACE_BLOCK_ZSTD ? h->stored_bytes >= h->raw_bytes
					: h->stored_bytes != h->raw_bytes)
		return "a stored length that fits the block's length";
	if (h->first_ns > h->last_ns)
		return "a block that ends after it began";
	return NULL;
}

const char *trace_block_name(unsigned type)
{
	static const char *const names[TRACE_BLOCK_TYPES] = {
		[TRACE_BLOCK_META] = "meta",
		[TRACE_BLOCK_DEFINITIONS] = "definitions",
		[TRACE_BLOCK_EVENTS] = "events",
		[TRACE_BLOCK_RSS] = "rss",
		[TRACE_BLOCK_CHECKPOINT] = "checkpoint",
		[TRACE_BLOCK_BEHAVIOUR] = "behaviour",
		[TRACE_BLOCK_SAMPLES] = "samples",
		[TRACE_BLOCK_PEAK] = "peak",
		[TRACE_BLOCK_ANONYMOUS] = "anonymous memory",
		[TRACE_BLOCK_LEDGER] = "ledger",
		[TRACE_BLOCK_HEAP] = "heap",
		[TRACE_BLOCK_MAPPINGS] = "mappings",
		[TRACE_BLOCK_REMARKS] = "remarks",
		[TRACE_BLOCK_TALLY] = "tally",
		[TRACE_BLOCK_INDEX] = "index",
		[TRACE_BLOCK_END] = "end",
	};
	return type < TRACE_BLOCK_TYPES && names[type] ? names[type] : "unknown";
}
