/* Facts of an ELF executable, read before it is run. The file is hostile input: every offset and
 * count is checked against the file's size before it is followed, additions cannot wrap because
 * operands are compared by subtraction, and structures are copied out instead of cast, so nothing
 * depends on alignment.
 *
 * Why the symbol tables are read: the dynamic loader searches the executable before preloaded
 * libraries. A program with an allocator linked in (jemalloc in many Rust programs, mozglue, a
 * malloc of its own) therefore never calls a preloaded malloc, and would look like a program that
 * does not allocate. It must be named before it runs. */
#include "record/elf_facts.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>

struct image {
	const uint8_t *data;
	size_t size;
};

static bool inside(const struct image *im, uint64_t offset, uint64_t length)
{
	return offset <= im->size && length <= im->size - offset;
}

static bool copy_out(const struct image *im, uint64_t offset, void *to, size_t length)
{
	if (!inside(im, offset, length))
		return false;
	memcpy(to, im->data + offset, length);
	return true;
}

static const char *machine_name(unsigned machine, unsigned class)
{
	switch (machine) {
	case EM_386: return "32-bit x86 (i386)";
	case EM_X86_64: return class == ELFCLASS32 ? "x32 (32-bit x86-64)" : "x86-64";
	case EM_AARCH64: return "64-bit ARM (aarch64)";
	case EM_ARM: return "32-bit ARM";
	case EM_RISCV: return "RISC-V";
	case EM_PPC64: return "64-bit PowerPC";
	case EM_S390: return "IBM Z (s390)";
	case EM_MIPS: return "MIPS";
	case 258: return "LoongArch";
	default: return "another architecture";
	}
}

struct allocator_symbol {
	const char *symbol, *allocator;
};

/* Entry points of allocators under names that a preloaded malloc does not have. */
static const struct allocator_symbol prefixed[] = {
	{"_rjem_malloc", "jemalloc"},	    {"je_malloc", "jemalloc"},
	{"_rjem_je_malloc", "jemalloc"},    {"mi_malloc", "mimalloc"},
	{"tc_malloc", "tcmalloc"},	    {"sn_malloc", "snmalloc"},
	{"rpmalloc", "rpmalloc"},	    {"sn_rust_alloc", "snmalloc"},
	{"TCMallocInternalMalloc", "tcmalloc"}, {"moz_arena_malloc", "mozjemalloc"},
};

/* Called by every module built with one, whether its runtime is linked in or shared. */
static const struct allocator_symbol sanitizers[] = {
	{"__asan_init", "AddressSanitizer"},
	{"__tsan_init", "ThreadSanitizer"},
	{"__msan_init", "MemorySanitizer"},
};

/* Words that only a copy of the allocator itself carries; none begins with its colon. */
static const struct allocator_symbol messages[] = {
	{"<jemalloc>: ", "jemalloc"},
	{"mimalloc: error: ", "mimalloc"},
	{"tcmalloc: large alloc ", "tcmalloc"},
};

/* Searching text for messages reads the whole file: only where that is quick. */
#define MESSAGE_SEARCH_MAX ((size_t)256 << 20)

struct symbol_scan {
	bool has_malloc;
	const struct allocator_symbol *prefixed, *sanitizer;
};

/* Whether the string at `offset` of a table of `size` bytes equals `word`. */
static bool string_is(const char *strings, uint64_t size, uint64_t offset, const char *word)
{
	size_t length = strlen(word);

	return offset < size && size - offset > length &&
	       memcmp(strings + offset, word, length + 1) == 0;
}

/* Whether a symbol with this name may be one of those above: nearly all are told by two letters. */
static bool may_matter(const char *strings, uint64_t size, uint64_t offset)
{
	if (offset >= size || size - offset < 2)
		return false;
	char first = strings[offset], second = strings[offset + 1];
	return first == '_' ? second == '_' || second == 'r' : strchr("mjtsrT", first) && first;
}

static void scan_symbols(const struct image *im, const Elf64_Shdr *table, const Elf64_Shdr *names,
			 struct symbol_scan *scan)
{
	if (table->sh_entsize != sizeof(Elf64_Sym) || !inside(im, table->sh_offset, table->sh_size) ||
	    !inside(im, names->sh_offset, names->sh_size))
		return;
	const char *strings = (const char *)im->data + names->sh_offset;
	uint64_t count = table->sh_size / sizeof(Elf64_Sym);

	for (uint64_t i = 0; i < count; i++) {
		Elf64_Sym sym;

		memcpy(&sym, im->data + table->sh_offset + i * sizeof(sym), sizeof(sym));
		if (!may_matter(strings, names->sh_size, sym.st_name))
			continue;
		unsigned type = ELF64_ST_TYPE(sym.st_info);

		for (size_t p = 0; p < sizeof(sanitizers) / sizeof(*sanitizers); p++)
			if (string_is(strings, names->sh_size, sym.st_name, sanitizers[p].symbol))
				scan->sanitizer = &sanitizers[p];
		if (sym.st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_GNU_IFUNC))
			continue;
		if (string_is(strings, names->sh_size, sym.st_name, "malloc"))
			scan->has_malloc = true;
		for (size_t p = 0; !scan->prefixed && p < sizeof(prefixed) / sizeof(*prefixed); p++)
			if (string_is(strings, names->sh_size, sym.st_name, prefixed[p].symbol))
				scan->prefixed = &prefixed[p];
	}
}

/* Looking for one letter that all messages have goes through megabytes in a millisecond. */
static bool message_in(const uint8_t *data, size_t size, struct elf_facts *facts)
{
	const uint8_t *end = data + size, *at = data;
	while ((at = memchr(at, ':', (size_t)(end - at)))) {
		for (size_t m = 0; m < sizeof(messages) / sizeof(*messages); m++) {
			const char *text = messages[m].symbol;
			size_t before = (size_t)(strchr(text, ':') - text), length = strlen(text);
			if ((size_t)(at - data) < before || at[-1] != (uint8_t)text[before - 1] ||
			    (size_t)(end - at) < length - before ||
			    memcmp(at - before, text, length) != 0)
				continue;
			facts->own_malloc = ELF_MALLOC_LIKELY;
			facts->allocator = messages[m].allocator;
			snprintf(facts->malloc_name, sizeof(facts->malloc_name), "%s",
				 messages[m].allocator);
			return true;
		}
		at++;
	}
	return false;
}

/* Texts are in the segments that are only read: a third of a compiler's 30 MB. A program laid out
 * without such segments is searched whole. */
static void find_messages(const struct image *im, const Elf64_Ehdr *eh, struct elf_facts *facts)
{
	bool searched = false;
	if (im->size > MESSAGE_SEARCH_MAX)
		return;
	for (unsigned i = 0; i < eh->e_phnum && eh->e_phentsize == sizeof(Elf64_Phdr); i++) {
		Elf64_Phdr ph;
		uint64_t at = eh->e_phoff + i * sizeof(ph);

		if (!inside(im, at, sizeof(ph)))
			return;
		memcpy(&ph, im->data + at, sizeof(ph));
		if (ph.p_type != PT_LOAD || ph.p_flags != PF_R || !inside(im, ph.p_offset, ph.p_filesz))
			continue;
		searched = true;
		if (message_in(im->data + ph.p_offset, ph.p_filesz, facts))
			return;
	}
	if (!searched)
		message_in(im->data, im->size, facts);
}

/* Section headers are not needed to run a program: when they are missing or damaged, nothing is
 * known about its symbols, and that is no error. */
static void find_own_malloc(const struct image *im, const Elf64_Ehdr *eh, struct elf_facts *facts)
{
	struct symbol_scan exported = {0}, internal = {0};
	bool has_symtab = false;
	unsigned count = eh->e_shnum;

	if (eh->e_shentsize != sizeof(Elf64_Shdr) ||
	    !inside(im, eh->e_shoff, (uint64_t)count * sizeof(Elf64_Shdr)))
		count = 0;
	for (unsigned i = 0; i < count; i++) {
		Elf64_Shdr table, names;

		memcpy(&table, im->data + eh->e_shoff + i * sizeof(table), sizeof(table));
		if ((table.sh_type != SHT_SYMTAB && table.sh_type != SHT_DYNSYM) ||
		    table.sh_link >= count)
			continue;
		memcpy(&names, im->data + eh->e_shoff + table.sh_link * sizeof(names),
		       sizeof(names));
		if (names.sh_type != SHT_STRTAB)
			continue;
		if (table.sh_type == SHT_DYNSYM) {
			scan_symbols(im, &table, &names, &exported);
		} else {
			has_symtab = true;
			scan_symbols(im, &table, &names, &internal);
		}
	}
	if (exported.sanitizer)
		facts->sanitizer = exported.sanitizer->allocator;
	const struct allocator_symbol *known =
		internal.prefixed ? internal.prefixed : exported.prefixed;

	facts->allocator = known ? known->allocator : NULL;
	if (exported.has_malloc || internal.has_malloc || known) {
		facts->own_malloc = exported.has_malloc ? ELF_MALLOC_EXPORTED : ELF_MALLOC_INTERNAL;
		snprintf(facts->malloc_name, sizeof(facts->malloc_name), "%s",
			 exported.has_malloc || internal.has_malloc ? "malloc" : known->symbol);
	} else if (!has_symtab) {
		find_messages(im, eh, facts);
	}
}

/* Fills in kind and interpreter from the program headers. */
static void read_segments(const struct image *im, const Elf64_Ehdr *eh, struct elf_facts *facts)
{
	facts->kind = ELF_STATIC;
	if (eh->e_phnum == 0 || eh->e_phentsize != sizeof(Elf64_Phdr) ||
	    !inside(im, eh->e_phoff, (uint64_t)eh->e_phnum * sizeof(Elf64_Phdr))) {
		facts->kind = ELF_DAMAGED;
		facts->what = "its program headers are not inside the file";
		return;
	}
	for (unsigned i = 0; i < eh->e_phnum; i++) {
		Elf64_Phdr ph;

		memcpy(&ph, im->data + eh->e_phoff + i * sizeof(ph), sizeof(ph));
		if (ph.p_type == PT_LOAD && !inside(im, ph.p_offset, ph.p_filesz)) {
			facts->kind = ELF_DAMAGED;
			facts->what = "it is shorter than its program headers say";
			return;
		}
		if (ph.p_type != PT_INTERP)
			continue;
		if (ph.p_filesz < 2 || ph.p_filesz > sizeof(facts->interpreter) ||
		    !inside(im, ph.p_offset, ph.p_filesz) ||
		    im->data[ph.p_offset + ph.p_filesz - 1] != 0) {
			facts->kind = ELF_DAMAGED;
			facts->what = "the name of its loader is damaged";
			return;
		}
		memcpy(facts->interpreter, im->data + ph.p_offset, (size_t)ph.p_filesz);
		facts->kind = ELF_DYNAMIC;
	}
}

void elf_facts_read(const uint8_t *file, size_t size, struct elf_facts *facts)
{
	struct image im = {file, size};
	Elf64_Ehdr eh;

	memset(facts, 0, sizeof(*facts));
	if (size < SELFMAG || memcmp(file, ELFMAG, SELFMAG) != 0)
		return; /* ELF_NOT_ELF */
	if (size < EI_NIDENT + 4) {
		facts->kind = ELF_DAMAGED;
		facts->what = "it ends in the middle of its header";
		return;
	}
	/* These fields stand at the same place in both classes. */
	bool big = file[EI_DATA] == ELFDATA2MSB;
	unsigned type = big ? (unsigned)(file[16] << 8 | file[17])
			    : (unsigned)(file[17] << 8 | file[16]);
	unsigned machine = big ? (unsigned)(file[18] << 8 | file[19])
			       : (unsigned)(file[19] << 8 | file[18]);

	if (file[EI_CLASS] != ELFCLASS64 || big || machine != EM_X86_64) {
		facts->kind = ELF_OTHER;
		facts->what = machine_name(machine, file[EI_CLASS]);
		return;
	}
	if (!copy_out(&im, 0, &eh, sizeof(eh))) {
		facts->kind = ELF_DAMAGED;
		facts->what = "it ends in the middle of its header";
		return;
	}
	if (type != ET_EXEC && type != ET_DYN) {
		facts->kind = ELF_NO_PROGRAM;
		facts->what = type == ET_REL ? "an object file" : type == ET_CORE ? "a core dump"
									     : "not a program";
		return;
	}
	read_segments(&im, &eh, facts);
	if (facts->kind == ELF_DYNAMIC)
		find_own_malloc(&im, &eh, facts);
}
