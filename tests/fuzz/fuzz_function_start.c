/* Fuzzes the reader of unwind tables that finds where functions begin: the input is .eh_frame. */
#include "symbol/function_start.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { QUERIES = 256 };
	/* A copy of exactly this size, so that one byte too far is noticed. */
	uint8_t *copy = malloc(size ? size : 1);
	struct symbol_query queries[QUERIES];
	if (!copy)
		return 0;
	memcpy(copy, data, size);
	memset(queries, 0, sizeof queries);
	for (uint64_t i = 0; i < QUERIES; i++)
		queries[i].address = 0x1000 + i * 7;
	queries[QUERIES - 1].address = UINT64_MAX;
	/* Where it lies in the program that the corpus is of. */
	const struct unwind_bytes u = {copy, size, 0x20b8};
	function_starts_in(&u, queries, QUERIES);
	for (size_t i = 0; i < QUERIES; i++) {
		const struct symbol_query *q = &queries[i];
		if (q->function_bytes && (q->address < q->function_start ||
					  q->address - q->function_start >= q->function_bytes))
			abort();
	}
	free(copy);
	return 0;
}

#include "fuzz_corpus.h"
