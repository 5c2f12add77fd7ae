/* Recognises a Go program by the section that `go version` reads. A stripped program has no symbols of the
 * runtime, but it has this section.
 *
 * The file is read, not mapped: somebody may replace it meanwhile. */
#include "symbol/go_file.h"

#include "symbol/elf_section.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

bool go_file_is(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	uint64_t address;
	if (fd < 0)
		return false;
	elf_version(EV_CURRENT);
	Elf *elf = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? elf_begin(fd, ELF_C_READ, NULL)
							      : NULL;
	bool is = elf && elf_kind(elf) == ELF_K_ELF &&
		  elf_section_address(elf, ".go.buildinfo", &address);
	if (elf)
		elf_end(elf);
	close(fd);
	return is;
}
