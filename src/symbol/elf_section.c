/* Sections by name. Debug sections may be packed in two ways: by a flag of the
 * section, or (older) by a name that begins with ".z". libelf unpacks both, in
 * place, so libdw and this code share the work whoever comes first. */
#include "symbol/elf_section.h"

#include <gelf.h>
#include <stdbool.h>
#include <string.h>

static bool is_called(const char *name, const char *wanted)
{
	if (strcmp(name, wanted) == 0)
		return true;
	return wanted[0] == '.' && name[0] == '.' && name[1] == 'z' &&
	       strcmp(name + 2, wanted + 1) == 0;
}

/* NULL: there is no such section, or none with bytes. */
static Elf_Scn *find_section(Elf *elf, const char *wanted, GElf_Shdr *shdr, const char **name)
{
	size_t strings;
	if (elf_getshdrstrndx(elf, &strings) != 0)
		return NULL;
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
		if (!gelf_getshdr(scn, shdr) || shdr->sh_type == SHT_NOBITS)
			continue;
		*name = elf_strptr(elf, strings, shdr->sh_name);
		if (*name && is_called(*name, wanted))
			return scn;
	}
	return NULL;
}

struct elf_bytes elf_section_bytes(Elf *elf, const char *wanted)
{
	const struct elf_bytes none = {0};
	const char *name;
	GElf_Shdr shdr;
	Elf_Scn *scn = find_section(elf, wanted, &shdr, &name);
	if (!scn || ((shdr.sh_flags & SHF_COMPRESSED) && elf_compress(scn, 0, 0) < 0))
		return none;
	Elf_Data *data = elf_rawdata(scn, NULL);
	if (data && data->d_buf && data->d_size > 4 && name[1] == 'z' &&
	    memcmp(data->d_buf, "ZLIB", 4) == 0)
		data = elf_compress_gnu(scn, 0, 0) < 0 ? NULL : elf_rawdata(scn, NULL);
	if (!data || !data->d_buf)
		return none;
	return (struct elf_bytes){data->d_buf, data->d_size};
}

bool elf_section_address(Elf *elf, const char *wanted, uint64_t *address)
{
	const char *name;
	GElf_Shdr shdr;
	bool found = find_section(elf, wanted, &shdr, &name);
	*address = found ? shdr.sh_addr : 0;
	return found;
}
