/* Executables whose tables lie over each other, so that a small file asks for endless work. The work
 * is compared with that for an ordinary file of the same size, in time of the processor. */
#include "session/elf_facts.h"
#include "unit_test.h"

#include <elf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SYMBOLS = 20000, NAME_BYTES = 1 << 20, TABLES = 4000, SEGMENTS = 60000 };

/* One file: header, segments, symbols, names, sections. */
struct image {
	uint8_t *bytes;
	size_t size;
};

static struct image make_image(unsigned tables, unsigned segments, bool long_names)
{
	size_t phdrs = sizeof(Elf64_Ehdr);
	size_t symbols = phdrs + segments * sizeof(Elf64_Phdr);
	size_t names = symbols + SYMBOLS * sizeof(Elf64_Sym);
	size_t sections = names + NAME_BYTES;
	struct image im = {NULL, sections + (1 + tables) * sizeof(Elf64_Shdr)};
	im.bytes = calloc(1, im.size);
	Elf64_Ehdr *eh = (void *)im.bytes;
	memcpy(eh->e_ident, ELFMAG, SELFMAG);
	eh->e_ident[EI_CLASS] = ELFCLASS64;
	eh->e_ident[EI_DATA] = ELFDATA2LSB;
	eh->e_type = ET_DYN;
	eh->e_machine = EM_X86_64;
	eh->e_phoff = phdrs;
	eh->e_phentsize = sizeof(Elf64_Phdr);
	eh->e_phnum = (Elf64_Half)segments;
	eh->e_shoff = sections;
	eh->e_shentsize = sizeof(Elf64_Shdr);
	eh->e_shnum = (Elf64_Half)(tables + 1);
	for (unsigned i = 0; i < segments; i++)
		((Elf64_Phdr *)(void *)(im.bytes + phdrs))[i] = (Elf64_Phdr){
			.p_type = i % 2 ? PT_NOTE : PT_LOAD, .p_flags = PF_R, .p_filesz = im.size};
	memset(im.bytes + names, 'm', NAME_BYTES - 1);
	for (size_t i = 16; !long_names && i < NAME_BYTES; i += 16)
		im.bytes[names + i] = 0;
	for (unsigned i = 0; i < SYMBOLS; i++)
		((Elf64_Sym *)(void *)(im.bytes + symbols))[i] = (Elf64_Sym){
			.st_name = i,
			.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
			.st_shndx = 1};
	Elf64_Shdr *sh = (void *)(im.bytes + sections);
	sh[0] = (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_offset = names, .sh_size = NAME_BYTES};
	for (unsigned i = 1; i <= tables; i++)
		sh[i] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
				     .sh_offset = symbols,
				     .sh_size = SYMBOLS * sizeof(Elf64_Sym),
				     .sh_entsize = sizeof(Elf64_Sym)};
	return im;
}

/* The nanoseconds that one reading takes. */
static uint64_t cost(unsigned tables, unsigned segments, bool long_names)
{
	struct image im = make_image(tables, segments, long_names);
	struct elf_facts facts;
	struct timespec from, to;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
	elf_facts_read(im.bytes, im.size, &facts);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
	assert_true(facts.kind == ELF_STATIC);
	free(im.bytes);
	return (uint64_t)(to.tv_sec - from.tv_sec) * 1000000000 + (uint64_t)to.tv_nsec -
	       (uint64_t)from.tv_nsec;
}

static uint64_t ordinary(void)
{
	uint64_t least = UINT64_MAX;
	for (int i = 0; i < 5; i++) {
		uint64_t ns = cost(1, 2, false);
		least = ns < least ? ns : least;
	}
	return least + 1000000;
}

TEST(test_many_symbol_tables)
{
	assert_true(cost(TABLES, 2, false) < 100 * ordinary()); /* was 4000 times */
}

/* Every name begins inside the one before it: the work is bounded by 4096 bytes a name. */
TEST(test_names_without_end)
{
	assert_true(cost(1, 2, true) < 200 * ordinary());
}

TEST(test_many_segments_with_text)
{
	assert_true(cost(0, SEGMENTS, false) < 100 * ordinary());
}

UNIT_TESTS(NULL, NULL)
