/* What tests look up in ELF files. */
#ifndef HEFT_TESTS_ELF_FIXTURE_H
#define HEFT_TESTS_ELF_FIXTURE_H

#include "unit_test.h"

#include <gelf.h>
#include <string.h>

/* The value of a symbol in .symtab of an unstripped program. */
static inline uint64_t elf_symbol_value(Elf *elf, const char *symbol)
{
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
		GElf_Shdr shdr;
		GElf_Sym sym;
		gelf_getshdr(scn, &shdr);
		if (shdr.sh_type != SHT_SYMTAB)
			continue;
		Elf_Data *data = elf_getdata(scn, NULL);
		for (int i = 0; gelf_getsym(data, i, &sym); i++)
			if (strcmp(elf_strptr(elf, shdr.sh_link, sym.st_name), symbol) == 0)
				return sym.st_value;
	}
	fail_msg("no symbol %s", symbol);
	return 0;
}

#endif
