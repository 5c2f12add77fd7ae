/* Inside src/symbol: the bytes of a section, unpacked. */
#ifndef HEFT_SYMBOL_ELF_SECTION_H
#define HEFT_SYMBOL_ELF_SECTION_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_bytes {
	uint8_t *data; /* owned by the Elf; NULL: there is no such section */
	size_t size;
};

/* The name is as in an object that is not packed: ".debug_line". */
struct elf_bytes elf_section_bytes(Elf *elf, const char *name);
/* *address becomes the address that the file gives the section. False: there is no such section. */
bool elf_section_address(Elf *elf, const char *name, uint64_t *address);

#endif
