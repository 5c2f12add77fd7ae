/* For src/symbol and src/attach: an ELF file that somebody else may have made, and may change while it is read. */
#ifndef HEFT_SYMBOL_ELF_FILE_H
#define HEFT_SYMBOL_ELF_FILE_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* All zero: none */
struct elf_file {
	Elf *elf;    /* NULL: none */
	bool opened; /* fd is */
	int fd;
	void *map;
	size_t size;
	struct stat st; /* when it was opened */
	/* What its packed sections would have become, had they not been refused; 0: none was. */
	uint64_t refused_bytes;
};

/* Most that the packed sections of one file become: ELF_FILE_UNPACKED_FREE, and beyond that a multiple
 * of what they take in the file. Compilers' sections grow 2 to 8 times, the most repetitive ones
 * (all under 2 MB) 83 times. Never more than ELF_FILE_UNPACKED_MOST. */
#define ELF_FILE_UNPACKED_FREE (UINT64_C(16) << 20)
#define ELF_FILE_UNPACKED_RATIO 32
#define ELF_FILE_UNPACKED_MOST (UINT64_C(4) << 30)

/* Opens a regular file for reading, never a device or a pipe, and waits for nobody. -1: cannot. */
int elf_file_open_regular(const char *path);
enum elf_file_state { ELF_FILE_OPEN, ELF_FILE_MISSING, ELF_FILE_NOT_ELF };
/* Sections that are packed beyond the bound above are hidden. */
enum elf_file_state elf_file_open(struct elf_file *f, const char *path);
/* Whether somebody wrote to the file or cut it since: then its answers may be wrong. */
bool elf_file_changed(const struct elf_file *f);
/* Hides a section from libelf and libdw. */
void elf_file_hide(Elf_Scn *scn);
void elf_file_close(struct elf_file *f);

#endif
