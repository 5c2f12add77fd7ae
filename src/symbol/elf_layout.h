/* Where the parts of an ELF file lie, and which file it is. With it, addresses of a running process, which are
 * known only by its mappings, become addresses as in the file. */
#ifndef HEFT_SYMBOL_ELF_LAYOUT_H
#define HEFT_SYMBOL_ELF_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

enum { ELF_LAYOUT_ID_MAX = 64, ELF_LAYOUT_LOADS = 32 };

/* A PT_LOAD segment */
struct elf_load {
	uint64_t offset, address, file_bytes;
	bool executable;
};

struct elf_layout {
	uint8_t build_id[ELF_LAYOUT_ID_MAX];
	uint32_t build_id_len; /* 0: has none */
	struct elf_load loads[ELF_LAYOUT_LOADS];
	uint32_t load_count;
};

/* False: the file is not there, may not be read, or is no ELF file. */
bool elf_layout_read(const char *path, struct elf_layout *layout);
/* *slide becomes what to subtract from run-time addresses in a mapping of the file to get addresses as in the file.
 * The mapping is [start, end) and shows the file from `offset` on. False: no segment is mapped so. */
bool elf_layout_slide(const struct elf_layout *layout, uint64_t start, uint64_t end,
		      uint64_t offset, uint64_t *slide);

#endif
