/* Fuzzes demangling: whatever the name is, what comes out is bounded. */
#include "symbol/symbol.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct name_pool *pool = name_pool_new();
	char *name = malloc(size + 1);
	if (!pool || !name)
		abort();
	memcpy(name, data, size);
	name[size] = 0;
	const char *plain = symbol_demangle(pool, name);
	if (!plain || strlen(plain) > 64 * 1024)
		abort();
	free(name);
	name_pool_free(pool);
	return 0;
}

#include "fuzz_corpus.h"
