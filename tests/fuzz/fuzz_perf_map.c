/* Fuzzes the reader of perf maps: any text, and addresses in and around what it names. */
#include "symbol/perf_map.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct perf_map *map = perf_map_parse((const char *)data, size);
	struct name_pool *pool = name_pool_new();
	const uint64_t addresses[] = {0,      1,      0x1000,     0x1001,         0x10ff,
				      0x1100, 0x2000, UINT64_MAX, UINT64_MAX - 1, 1ull << 63};
	for (size_t i = 0; map && pool && i < sizeof addresses / sizeof *addresses; i++) {
		const char *name;
		if (perf_map_name(map, pool, addresses[i], &name) == 0 && name && !*name)
			abort(); /* a name is never empty */
	}
	name_pool_free(pool);
	perf_map_close(map);
	return 0;
}

#include "fuzz_corpus.h"
