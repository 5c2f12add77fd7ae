/* Fuzzes the reader of executables before they run. The input is one in memory, and again the file with its
 * symbols. What comes out are strings with an end. */
#include "session/elf_facts.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_facts facts;
	elf_facts_read(data, size, &facts);
	elf_facts_add_debug(data, size, &facts);
	if (!memchr(facts.interpreter, 0, sizeof facts.interpreter) ||
	    !memchr(facts.malloc_name, 0, sizeof facts.malloc_name) ||
	    !memchr(facts.conf_name, 0, sizeof facts.conf_name) ||
	    facts.build_id_bytes > sizeof facts.build_id)
		abort();
	return 0;
}

#include "fuzz_corpus.h"
