/* Fuzzes the reader of cached symbols. Version, maker and checksum are made right first, so that
 * damage reaches what they protect; then every answer is asked for, and the evidence is weighed. */
#include "symbol/symbol_cache.h"
#include "symbol/symbol_cache_format.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cached_header h;
	uint8_t *copy = malloc(size ? size : 1);
	if (!copy)
		return 0;
	memcpy(copy, data, size);
	if (size >= sizeof h) {
		memcpy(&h, copy, sizeof h);
		memcpy(h.magic, CACHE_MAGIC, sizeof h.magic);
		h.version = CACHE_VERSION;
		h.maker = cache_maker();
		h.build_id_len = 20;
		h.checksum = cache_checksum(&h, copy + sizeof h, size - sizeof h);
		memcpy(copy, &h, sizeof h);
	}
	struct symbol_cache *c = symbol_cache_parse(copy, size,
						    size >= sizeof h ? h.build_id : copy, 20);
	struct name_pool *pool = name_pool_new();
	if (c && pool) {
		size_t count = 0, length = 0;
		struct symbol_query *all = symbol_cache_everything(c, pool, &count);
		bool *answered = calloc(count + 1, sizeof *answered);
		if (all && answered) {
			symbol_cache_answer(c, pool, all, answered, count);
			for (size_t i = 0; i < count; i++) {
				if (!answered[i])
					abort();
				for (uint32_t k = 0; k < all[i].frame_count; k++) {
					const struct symbol_frame *f = &all[i].frames[k];
					length += f->function ? strlen(f->function) : 0;
					length += f->file ? strlen(f->file) : 0;
				}
			}
		}
		length += symbol_cache_lacking(c) ? strlen(symbol_cache_lacking(c)) : 0;
		length += symbol_evidence_holds(symbol_cache_evidence(c), "http://x", NULL);
		if (length == SIZE_MAX)
			abort();
		free(all);
		free(answered);
	}
	name_pool_free(pool);
	symbol_cache_close(c);
	free(copy);
	return 0;
}

#include "fuzz_corpus.h"
