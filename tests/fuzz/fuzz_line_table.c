/* Fuzzes the reader of line tables: the input is .debug_line, and the string sections too. */
#include "symbol/line_table.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* A copy of exactly this size, so that one byte too far is noticed. */
	uint8_t *copy = malloc(size ? size : 1);
	struct line_answer answers[64];
	struct line_table t;
	if (!copy)
		return 0;
	memcpy(copy, data, size);
	const struct line_sections s = {copy, copy, copy, size, size, size};
	for (uint64_t offset = 0; offset < size; offset += 1 + size / 4) {
		memset(answers, 0, sizeof answers);
		for (size_t i = 0; i < 64; i++)
			answers[i].address = 0x1100 + i * 3;
		if (!line_table_read(&t, &s, offset, answers, 64))
			continue;
		for (uint32_t i = 0; i < t.file_count && i < 1000; i++) {
			char path[64];
			line_table_path(&t, i, "/folder", path, sizeof path);
		}
		line_table_fini(&t);
	}
	free(copy);
	return 0;
}

#include "fuzz_corpus.h"
