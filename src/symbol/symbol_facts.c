/* See symbol_facts.h. The file is opened as all files of strangers are (elf_file.h), and nothing in it is read but its
 * headers and its build id. */
#include "symbol/symbol_facts.h"

#include "hosted/name_pool.h"
#include "symbol/debug_file.h"

#include <elfutils/libdwelf.h>
#include <gelf.h>
#include <stdio.h>
#include <string.h>

static bool has_section(Elf *elf, const char *name)
{
	uint64_t address;
	return elf_section_address(elf, name, &address);
}

static bool has_segment(Elf *elf, uint32_t type)
{
	size_t count = 0;
	GElf_Phdr ph;
	if (elf_getphdrnum(elf, &count))
		return false;
	for (size_t i = 0; i < count && i < INT_MAX; i++)
		if (gelf_getphdr(elf, (int)i, &ph) && ph.p_type == type)
			return true;
	return false;
}

/* Programs are unwound by the index that a segment names; it is there also if sections are not. For a static program,
 * which often has none, heft makes one. */
static bool can_unwind(Elf *elf)
{
	return has_segment(elf, PT_GNU_EH_FRAME) ||
	       (!has_segment(elf, PT_INTERP) && has_section(elf, ".eh_frame"));
}

static bool is_function(const GElf_Sym *symbol)
{
	const int type = GELF_ST_TYPE(symbol->st_info);
	return symbol->st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_GNU_IFUNC);
}

/* Whether its table of all symbols has both functions. */
static bool defines_malloc(Elf *elf)
{
	bool gives = false, takes = false;
	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
		GElf_Shdr header;
		Elf_Data *data;
		GElf_Sym symbol;
		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_SYMTAB ||
		    !(data = elf_getdata(section, NULL)))
			continue;
		for (int i = 0; gelf_getsym(data, i, &symbol) && !(gives && takes); i++) {
			const char *name = is_function(&symbol)
						   ? elf_strptr(elf, header.sh_link, symbol.st_name)
						   : NULL;
			gives |= name && !strcmp(name, "malloc");
			takes |= name && !strcmp(name, "free");
		}
	}
	return gives && takes;
}

static void find_apart(const char *path, Elf *elf, const uint8_t *id, size_t id_length,
		       struct symbol_facts *facts)
{
	struct name_pool *pool = name_pool_new();
	struct symbol_options options = {0};
	struct symbol_search search;
	struct symbol_evidence evidence = {0};
	struct debug_file found = {0};
	if (pool && !symbol_options_from_environment(&options, pool)) {
		options.server_urls = NULL;
		symbol_search_init(&search, &options);
		const struct debug_file_search look = {.session = &search,
						       .evidence = &evidence,
						       .module_path = path,
						       .build_id = id,
						       .build_id_len = id_length};
		if (debug_file_find(&look, elf, &found)) {
			snprintf(facts->apart, sizeof facts->apart, "%s", found.path);
			facts->malloc |= defines_malloc(found.file.elf);
			elf_file_close(&found.file);
		}
	}
	symbol_evidence_fini(&evidence);
	name_pool_free(pool);
}

bool symbol_facts_of(const char *path, struct symbol_facts *facts)
{
	struct elf_file file;
	const void *id = NULL;
	memset(facts, 0, sizeof *facts);
	if (elf_file_open(&file, path) != ELF_FILE_OPEN)
		return false;
	ssize_t id_length = dwelf_elf_gnu_build_id(file.elf, &id);
	facts->build_id = id_length > 0;
	facts->table = has_section(file.elf, ".symtab");
	facts->debug = has_section(file.elf, ".debug_info");
	facts->unwind = can_unwind(file.elf);
	facts->loader = has_segment(file.elf, PT_INTERP);
	facts->go = has_section(file.elf, ".go.buildinfo");
	facts->malloc = defines_malloc(file.elf);
	if (!facts->debug)
		find_apart(path, file.elf, id, id_length > 0 ? (size_t)id_length : 0, facts);
	elf_file_close(&file);
	return true;
}
