/* Recognises a Go program by the section that `go version` reads. A stripped program has no symbols of the
 * runtime, but it has this section. */
#include "symbol/go_file.h"

#include "symbol/elf_file.h"
#include "symbol/elf_section.h"

bool go_file_is(const char *path)
{
	struct elf_file file;
	uint64_t address;
	if (elf_file_open(&file, path) != ELF_FILE_OPEN)
		return false;
	bool is = elf_section_address(file.elf, ".go.buildinfo", &address);
	elf_file_close(&file);
	return is;
}
