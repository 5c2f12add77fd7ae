/* Inside src/symbol (and its tests): answers that were worked out before, one file a build id and path. */
#ifndef HEFT_SYMBOL_SYMBOL_CACHE_H
#define HEFT_SYMBOL_SYMBOL_CACHE_H

#include "symbol/symbol.h"
#include "symbol/symbol_evidence.h"

enum { SYMBOL_CACHE_LONGEST_ID = 64, SYMBOL_CACHE_NAME = 2 * SYMBOL_CACHE_LONGEST_ID + 1 + 16 + 1 };
/* All files together; when there is more, those not used for longest go, down to three quarters. */
#define SYMBOL_CACHE_MOST_BYTES (UINT64_C(256) << 20)

struct symbol_cache;
/* NULL: there is none, or none that can be trusted: damaged, another version's, another user's. */
struct symbol_cache *symbol_cache_open(const char *folder, const char *path, const uint8_t *id,
				       size_t length);
/* The same for bytes in memory, which are copied. */
struct symbol_cache *symbol_cache_parse(const void *bytes, size_t size, const uint8_t *id,
					size_t length);
void symbol_cache_close(struct symbol_cache *c);

enum symbol_debug symbol_cache_debug(const struct symbol_cache *c);
const struct symbol_origin *symbol_cache_origin(const struct symbol_cache *c);
const char *symbol_cache_lacking(const struct symbol_cache *c); /* as symbol_outcome's, or NULL */
const struct symbol_evidence *symbol_cache_evidence(const struct symbol_cache *c);
/* Answers sorted queries; answered[i] is set for those it knows. Returns 0 or HEFT_ENOMEM. */
int symbol_cache_answer(struct symbol_cache *c, struct name_pool *pool,
			struct symbol_query *queries, bool *answered, size_t count);
/* Returns all it knows, sorted; the caller frees it. NULL: no memory. */
struct symbol_query *symbol_cache_everything(struct symbol_cache *c, struct name_pool *pool,
					     size_t *count);

/* What the cache will keep of a module */
struct symbol_cache_entry {
	const char *path;
	struct symbol_origin origin; /* of the file that was read, by its descriptor */
	const uint8_t *build_id;
	size_t build_id_len;
	enum symbol_debug debug;
	const char *lacking;
	const struct symbol_evidence *evidence;
	const struct symbol_query *queries; /* sorted by address; strings are in one pool */
	size_t count;
};
/* Writes the entry and what `old` (NULL: nothing) has besides; a reader sees the old file or the
 * new one. A folder that cannot be written to is no error. Returns whether it was written. */
bool symbol_cache_write(const char *folder, const struct symbol_cache_entry *entry,
			struct symbol_cache *old, struct name_pool *pool);
/* The name of a module's file in the folder. */
void symbol_cache_name(char name[SYMBOL_CACHE_NAME], const char *path, const uint8_t *id,
		       size_t length);
/* Keeps the folder within its bound. */
void symbol_cache_trim(const char *folder, uint64_t most_bytes);

#endif
