/* Finds names in .symtab and .dynsym, for many addresses in one pass.
 *
 * The table is not sorted: a program asks for some thousand addresses and a
 * large table has a million symbols, so each symbol is placed among the sorted
 * addresses instead: O(symbols x log addresses), no memory that grows with the
 * table.
 *
 * The rule for an address: the nearest sized symbol that begins at or before it,
 * if the address lies within its size. Hand-written assembly has symbols of size 0:
 * where no sized one fits, the nearest of those stands for what follows it, up to
 * the next symbol and within its own section. (Labels inside a function have size
 * 0 too: the function is meant.) */
#include "symbol/symbol_sources.h"

#include "hosted/sorted.h"

#include <gelf.h>
#include <stdlib.h>

struct candidate {
	uint64_t start, end; /* what the symbol covers */
	const char *name;
	int rank;
};

/* Ranks the symbols at one address: a function is above a label, a plain name above one with an underscore
 * (fopen is _IO_fopen too), global above weak above local. */
static int rank_of(const GElf_Sym *sym, const char *name)
{
	int rank = 0;
	switch (GELF_ST_BIND(sym->st_info)) {
	case STB_GLOBAL:
	case STB_GNU_UNIQUE: rank = 2; break;
	case STB_WEAK: rank = 1; break;
	default: rank = 0;
	}
	if (name[0] != '_' || name[1] == 'Z' || name[1] == 'R')
		rank += 3;
	if (GELF_ST_TYPE(sym->st_info) != STT_NOTYPE)
		rank += 6;
	return rank;
}

/* Where code of the symbol's section ends; 0: the section holds no code. */
static uint64_t code_end(Elf *elf, const GElf_Sym *sym)
{
	GElf_Shdr shdr;
	if (sym->st_shndx == SHN_UNDEF || sym->st_shndx >= SHN_LORESERVE)
		return 0;
	Elf_Scn *scn = elf_getscn(elf, sym->st_shndx);
	if (!scn || !gelf_getshdr(scn, &shdr) || !(shdr.sh_flags & SHF_EXECINSTR))
		return 0;
	return shdr.sh_addr + shdr.sh_size;
}

/* best[2 * i] is the nearest sized symbol at or before queries[i] (and after the query before it),
 * best[2 * i + 1] the nearest unsized one. */
static void scan(Elf *elf, Elf_Data *data, const GElf_Shdr *shdr,
		 const struct symbol_query *queries, struct candidate *best, size_t count)
{
	size_t symbols = shdr->sh_entsize ? data->d_size / shdr->sh_entsize : 0;
	if (symbols > INT32_MAX)
		symbols = INT32_MAX;
	uint64_t last_end = 0;
	unsigned last_section = SHN_UNDEF;
	for (size_t i = 0; i < symbols; i++) {
		GElf_Sym sym;
		if (!gelf_getsym(data, (int)i, &sym))
			break;
		unsigned type = GELF_ST_TYPE(sym.st_info);
		if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
			continue;
		if (sym.st_shndx == SHN_UNDEF || sym.st_value > queries[count - 1].address)
			continue;
		size_t at = count_before(q, count, queries[q].address < sym.st_value);
		if (at == count)
			continue;
		if (sym.st_shndx != last_section) {
			last_section = sym.st_shndx;
			last_end = code_end(elf, &sym);
		}
		if (!last_end && type == STT_NOTYPE)
			continue;
		uint64_t end = sym.st_value + sym.st_size;
		if (!sym.st_size)
			end = last_end;
		else if (end < sym.st_value)
			end = UINT64_MAX;
		struct candidate *c = &best[2 * at + !sym.st_size];
		if (c->name && c->start > sym.st_value)
			continue;
		const char *name = elf_strptr(elf, shdr->sh_link, sym.st_name);
		if (!name || !*name || *name == '$')
			continue;
		int rank = rank_of(&sym, name);
		if (c->name && c->start == sym.st_value && c->rank >= rank)
			continue;
		*c = (struct candidate){sym.st_value, end, name, rank};
	}
}

void symbol_table_lookup(Elf *elf, uint32_t section_type, const struct symbol_query *queries,
			 const char **names, size_t count)
{
	if (!count)
		return;
	struct candidate *best = calloc(2 * count, sizeof *best);
	if (!best)
		return;
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
		GElf_Shdr shdr;
		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type != section_type)
			continue;
		Elf_Data *data = elf_getdata(scn, NULL);
		if (data)
			scan(elf, data, &shdr, queries, best, count);
	}
	/* scan() put each symbol at the first address that it may cover, so the nearest symbol before
	 * an address is the last one put there or earlier. */
	const struct candidate *sized = NULL, *unsized = NULL;
	for (size_t i = 0; i < count; i++) {
		uint64_t address = queries[i].address;
		if (best[2 * i].name)
			sized = &best[2 * i];
		if (best[2 * i + 1].name)
			unsized = &best[2 * i + 1];
		if (names[i])
			continue;
		if (sized && address < sized->end)
			names[i] = sized->name;
		else if (unsized && address < unsized->end &&
			 (!sized || sized->start <= unsized->start))
			names[i] = unsized->name;
	}
	free(best);
}
