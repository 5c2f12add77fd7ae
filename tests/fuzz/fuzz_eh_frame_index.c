/* Fuzzes the index of unwind tables: the input is a section. The corpus is that of the tables themselves (cfi). */
#include "attach/eh_frame_index.h"

#include <stdlib.h>

#define ADDRESS UINT64_C(0x400000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct eh_frame_index x = {0};
	/* From several places on: where an entry begins decides what follows. */
	for (size_t from = 0; from < 16 && from < size; from += 4) {
		x.count = 0;
		if (!eh_frame_index_add(&x, data + from, size - from, ADDRESS, ADDRESS - 4096))
			abort();
		for (size_t i = 0; i < x.count; i++)
			if ((i && x.items[i - 1].code > x.items[i].code) ||
			    x.items[i].entry - 4096 >= size - from)
				abort();
	}
	eh_frame_index_fini(&x);
	return 0;
}

#include "fuzz_corpus.h"
