/* Fuzzes the reader of Go's tables of functions: the input is .gopclntab. Every address around the corpus' text
 * is asked for, and every string must end in the input. */
#include "symbol/go_functions.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* A copy of exactly this size, so that one byte too far is noticed. */
	uint8_t *copy = malloc(size ? size : 1);
	if (!copy)
		return 0;
	memcpy(copy, data, size);
	struct go_functions g = go_functions_in(copy, size, 0x1000);
	for (uint64_t address = 0xff0; g.data && address < 0x1200; address++) {
		struct go_place place;
		if (!go_functions_find(&g, address, &place))
			continue;
		if (!place.function || !*place.function || strlen(place.function) >= size ||
		    (place.file && (strlen(place.file) >= size || !place.line)))
			abort();
	}
	free(copy);
	return 0;
}

#include "fuzz_corpus.h"
