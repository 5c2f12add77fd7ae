/* Fuzzes the question of /debug/pprof/symbol: any text. Names come out on lines of their own. */
#include "pprof/pprof_text.h"

#include "../unit/fake_source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct profile *p;
	char *text = malloc(size + 1), *out_text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&out_text, &length);
	if (!p)
		p = fake_profile(1, 1);
	if (!text || !out)
		abort();
	memcpy(text, data, size);
	text[size] = 0;
	if (pprof_write_symbols(out, p, text) < 0 || fclose(out) != 0)
		abort();
	if (strncmp(out_text, "num_symbols: 1\n", 15) != 0)
		abort();
	for (const char *line = out_text + 15; *line; line = strchr(line, '\n') + 1)
		if (strncmp(line, "0x", 2) != 0)
			abort();
	free(out_text);
	free(text);
	return 0;
}

#include "fuzz_corpus.h"
