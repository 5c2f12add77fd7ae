/* Fuzzes files of suppressions: the input is one, and what follows its first NUL byte is a name that each of its lines is
 * compared with. Whatever it holds, it is read or refused with a message; a pattern of plain characters matches where
 * they are in the name, and nowhere else. Without libFuzzer: runs over the files and folders given, and over damaged copies
 * of each. */
#include "profile/leak_suppressions.h"

#include "hosted/error.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 1 << 14 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void match(char *pattern, const char *name)
{
	bool matches = leak_pattern_matches(pattern, name);
	if (!*name && matches)
		abort();
	if (*name && *pattern && !strpbrk(pattern, "^*$") &&
	    matches != (strstr(name, pattern) != NULL))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct leak_suppressions *s;
	struct heft_error err = {0};
	if (size > LARGEST)
		return 0;
	const uint8_t *nul = memchr(data, 0, size);
	size_t length = nul ? (size_t)(nul - data) : size, behind = nul ? size - length - 1 : 0;
	/* Exact copies, so that one byte too far is noticed. */
	char *text = malloc(length + 1), *name = malloc(behind + 1);
	if (!text || !name)
		abort();
	memcpy(text, data, length);
	if (nul)
		memcpy(name, nul + 1, behind);
	text[length] = name[behind] = 0;
	int rc = leak_suppressions_parse(&s, "file", text, &err);
	if ((rc == 0) != (s != NULL) || (rc && (rc != HEFT_EUSAGE || !err.message[0])))
		abort();
	leak_suppressions_free(s);
	char *rest = text;
	for (char *line; (line = strsep(&rest, "\n"));)
		match(line + (strncmp(line, "leak:", 5) ? 0 : 5), name);
	free(text);
	free(name);
	return 0;
}

#include "fuzz_corpus.h"
