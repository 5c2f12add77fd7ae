/* Inside the symbol cache: a file's layout. Numbers are the machine's own: a cache does not travel,
 * and a file from elsewhere fails its version.
 *
 *   header
 *   addresses   uint64_t[places], strictly ascending
 *   functions   struct cached_function[places]: 0 for those that have a name
 *   evidence    struct cached_evidence[evidence]
 *   frames      struct cached_frame[frames]
 *   first       uint32_t[places + 1]: place i has frames first[i] .. first[i + 1]
 *   ends        uint32_t[strings]: string i is bytes ends[i - 1] .. ends[i]
 *   bytes       string_bytes of them
 *
 * The checksum covers the header before it and all that follows. */
#ifndef HEFT_SYMBOL_SYMBOL_CACHE_FORMAT_H
#define HEFT_SYMBOL_SYMBOL_CACHE_FORMAT_H

#include "symbol/symbol_evidence.h"

#include <elfutils/libdwfl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <xxhash.h>

#define CACHE_MAGIC "heftsyms"
#define CACHE_NO_STRING UINT32_MAX
enum {
	CACHE_VERSION = 5, /* raised also when answers become better: names, demangling */
	CACHE_MOST_BYTES = 64 << 20,
	CACHE_MOST_EVIDENCE = 4096,
};

struct cached_header {
	char magic[8];
	uint32_t version, debug;        /* enum symbol_debug */
	uint64_t maker;                 /* the versions of heft and elfutils, hashed */
	uint32_t build_id_len, lacking; /* string */
	uint32_t places, frames, strings, evidence;
	uint64_t string_bytes;
	struct symbol_origin origin;
	uint64_t path; /* of the module, hashed */
	uint8_t build_id[64];
	uint64_t checksum;
};

struct cached_function {
	uint64_t start, bytes;
};

struct cached_evidence {
	uint64_t size;
	int64_t time_ns;
	uint32_t kind, path;
};

struct cached_frame {
	uint32_t function, file, line, inlined;
};

/* Another elfutils may read more: zstd, newer DWARF. */
static inline uint64_t cache_maker(void)
{
	const char *elfutils = dwfl_version(NULL);
	return XXH64(HEFT_VERSION, sizeof HEFT_VERSION,
		     XXH64(elfutils, strlen(elfutils), CACHE_VERSION));
}

/* A module of the same build id at another path has a file of its own. */
static inline uint64_t cache_path_hash(const char *path)
{
	return XXH64(path, strlen(path), CACHE_VERSION);
}

static inline uint64_t cache_body_bytes(const struct cached_header *h)
{
	return 8 * (uint64_t)h->places + sizeof(struct cached_function) * (uint64_t)h->places +
	       sizeof(struct cached_evidence) * (uint64_t)h->evidence +
	       sizeof(struct cached_frame) * (uint64_t)h->frames + 4 * ((uint64_t)h->places + 1) +
	       4 * (uint64_t)h->strings + h->string_bytes;
}

static inline uint64_t cache_checksum(const struct cached_header *h, const void *body, size_t size)
{
	return XXH64(body, size, XXH64(h, offsetof(struct cached_header, checksum), 0));
}

#endif
