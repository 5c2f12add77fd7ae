/* Facts of an ELF executable, read before it is run. The file is hostile input: every offset and
 * count is checked against the file's size before it is followed, additions cannot wrap because
 * operands are compared by subtraction, and structures are copied out instead of cast, so nothing
 * depends on alignment.
 *
 * Why the symbol tables are read: the dynamic loader searches the executable before preloaded
 * libraries. A program with an allocator linked in (jemalloc in many Rust programs, mozglue, a
 * malloc of its own) therefore never calls a preloaded malloc, and would look like a program that
 * does not allocate. It must be named before it runs. */
#include "session/elf_facts.h"

#include "session/allocator_names.h"

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

/* Called by every module built with one, whether its runtime is linked in or shared. */
static const struct {
	const char *symbol, *name;
} sanitizers[] = {
	{"__asan_init", "AddressSanitizer"},
	{"__tsan_init", "ThreadSanitizer"},
	{"__msan_init", "MemorySanitizer"},
};

/* Searching text for messages reads the whole file: only where that is quick. */
#define MESSAGE_SEARCH_MAX ((size_t)256 << 20)
/* Tables may lie over each other and claim anything, so the work is bounded by numbers of its own. A browser
 * has two million symbols; a file has one table of each kind, and its notes are a few hundred bytes. */
enum { MOST_SYMBOLS = 1 << 24, LONGEST_NAME = 4096, MOST_NOTE_BYTES = 1 << 20 };

struct symbol_scan {
	bool has_malloc;
	struct elf_own_new news;
	bool is_python; /* CPython carries mimalloc from 3.13 on, and does not use it unless told to */
	const char *sanitizer;
	struct allocator_names defined, needed; /* needed: called, but of a shared library */
};

static bool is_word(const char *name, size_t length, const char *word)
{
	return length == strlen(word) && memcmp(name, word, length) == 0;
}

/* operator new and new[], in all their forms */
static bool is_new(const char *name, size_t length)
{
	return length >= 5 && (memcmp(name, "_Znwm", 5) == 0 || memcmp(name, "_Znam", 5) == 0) &&
	       (length == 5 || name[5] == 'R' || name[5] == 'S');
}

static void add_new(struct elf_own_new *n, const Elf64_Sym *sym)
{
	if (n->count < ELF_NEW_FUNCTIONS && sym->st_size &&
	    sym->st_value <= UINT64_MAX - sym->st_size)
		n->functions[n->count++] = (struct elf_range){sym->st_value,
							      sym->st_value + sym->st_size};
}

static void take_new(struct elf_facts *facts, const struct elf_own_new *found)
{
	if (!found->count)
		return;
	memcpy(facts->own_new.functions, found->functions, sizeof found->functions);
	facts->own_new.count = found->count;
}

static void scan_symbols(const struct image *im, const Elf64_Shdr *table, const Elf64_Shdr *names,
			 struct symbol_scan *scan)
{
	if (table->sh_entsize != sizeof(Elf64_Sym) ||
	    !inside(im, table->sh_offset, table->sh_size) ||
	    !inside(im, names->sh_offset, names->sh_size))
		return;
	const char *strings = (const char *)im->data + names->sh_offset;
	uint64_t count = table->sh_size / sizeof(Elf64_Sym);

	if (count > MOST_SYMBOLS)
		count = MOST_SYMBOLS;
	for (uint64_t i = 0; i < count; i++) {
		Elf64_Sym sym;

		memcpy(&sym, im->data + table->sh_offset + i * sizeof(sym), sizeof(sym));
		if (sym.st_name >= names->sh_size)
			continue;
		const char *name = strings + sym.st_name;
		size_t left = names->sh_size - sym.st_name;
		if (left > LONGEST_NAME)
			left = LONGEST_NAME;
		size_t length = strnlen(name, left);
		unsigned type = ELF64_ST_TYPE(sym.st_info);

		if (length == left) /* it does not end inside the table, or is none of ours */
			continue;
		for (size_t p = 0; *name == '_' && p < sizeof(sanitizers) / sizeof(*sanitizers);
		     p++)
			if (is_word(name, length, sanitizers[p].symbol))
				scan->sanitizer = sanitizers[p].name;
		if (sym.st_shndx == SHN_UNDEF) {
			/* A weak one is a question whether there is such an allocator. */
			if (ELF64_ST_BIND(sym.st_info) == STB_GLOBAL)
				allocator_names_see(&scan->needed, name, length);
			continue;
		}
		if (type != STT_FUNC && type != STT_GNU_IFUNC)
			continue;
		if (is_word(name, length, "malloc"))
			scan->has_malloc = true;
		if (is_new(name, length))
			add_new(&scan->news, &sym);
		if (is_word(name, length, "PyMem_RawMalloc"))
			scan->is_python = true;
		allocator_names_see(&scan->defined, name, length);
	}
}

/* Calls `look` with every segment that is only read, until it finds something: that is where texts
 * are, a third of a compiler's 30 MB. A program laid out without such segments is searched whole. */
static void each_text(const struct image *im, const Elf64_Ehdr *eh, struct elf_facts *facts,
		      bool (*look)(const uint8_t *, size_t, struct elf_facts *))
{
	bool searched = false;
	size_t left = MESSAGE_SEARCH_MAX;
	if (im->size > MESSAGE_SEARCH_MAX)
		return;
	for (unsigned i = 0; i < eh->e_phnum && eh->e_phentsize == sizeof(Elf64_Phdr); i++) {
		Elf64_Phdr ph;

		if (!copy_out(im, eh->e_phoff + i * sizeof(ph), &ph, sizeof(ph)))
			return;
		if (ph.p_type != PT_LOAD || ph.p_flags != PF_R ||
		    !inside(im, ph.p_offset, ph.p_filesz))
			continue;
		searched = true;
		if (ph.p_filesz > left)
			return;
		left -= ph.p_filesz;
		if (look(im->data + ph.p_offset, ph.p_filesz, facts))
			return;
	}
	if (!searched)
		look(im->data, im->size, facts);
}

static bool look_for_words(const uint8_t *data, size_t size, struct elf_facts *facts)
{
	facts->allocator = allocator_by_words(data, size, &facts->dumps);
	if (facts->allocator && facts->own_malloc == ELF_MALLOC_SHARED)
		facts->own_malloc = ELF_MALLOC_LIKELY;
	return facts->allocator;
}

static bool look_for_conf(const uint8_t *data, size_t size, struct elf_facts *facts)
{
	return allocator_conf_name(data, size, facts->conf_name, sizeof(facts->conf_name));
}

/* Section headers are not needed to run a program: when they are missing or damaged, nothing is
 * known about its symbols, and that is no error. */
static bool scan_tables(const struct image *im, const Elf64_Ehdr *eh, struct symbol_scan *exported,
			struct symbol_scan *internal)
{
	bool has_symtab = false, has_dynsym = false;
	unsigned count = eh->e_shnum;

	if (eh->e_shentsize != sizeof(Elf64_Shdr) ||
	    !inside(im, eh->e_shoff, (uint64_t)count * sizeof(Elf64_Shdr)))
		count = 0;
	for (unsigned i = 0; i < count; i++) {
		Elf64_Shdr table, names;

		memcpy(&table, im->data + eh->e_shoff + i * sizeof(table), sizeof(table));
		if ((table.sh_type != SHT_SYMTAB || has_symtab) &&
		    (table.sh_type != SHT_DYNSYM || has_dynsym))
			continue;
		if (table.sh_link >= count)
			continue;
		memcpy(&names, im->data + eh->e_shoff + table.sh_link * sizeof(names),
		       sizeof(names));
		if (names.sh_type != SHT_STRTAB)
			continue;
		if (table.sh_type == SHT_DYNSYM) {
			has_dynsym = true;
			scan_symbols(im, &table, &names, exported);
		} else {
			has_symtab = true;
			scan_symbols(im, &table, &names, internal);
		}
	}
	return has_symtab;
}

static void name_allocator(struct elf_facts *facts, enum elf_own_malloc how,
			   const struct allocator_names *n)
{
	facts->own_malloc = how;
	facts->allocator = n->allocator;
	facts->dumps = n->dumps;
	snprintf(facts->malloc_name, sizeof(facts->malloc_name), "%s", n->entry);
}

static void find_own_malloc(const struct image *im, const Elf64_Ehdr *eh, struct elf_facts *facts)
{
	struct symbol_scan exported = {0}, internal = {0};
	bool has_symtab = scan_tables(im, eh, &exported, &internal);

	allocator_names_end(&internal.defined, false);
	allocator_names_end(&exported.defined, false);
	allocator_names_end(&exported.needed, true);
	if (exported.is_python || internal.is_python)
		internal.defined.allocator = exported.defined.allocator = NULL;
	const struct allocator_names *known = internal.defined.allocator ? &internal.defined
									 : &exported.defined;

	facts->sanitizer = exported.sanitizer;
	take_new(facts, &exported.news);
	take_new(facts, &internal.news);
	facts->has_symbols = has_symtab;
	facts->exports_malloc = exported.has_malloc;
	if (exported.has_malloc || internal.has_malloc || known->allocator)
		name_allocator(facts,
			       exported.has_malloc ? ELF_MALLOC_EXPORTED : ELF_MALLOC_INTERNAL,
			       known);
	else if (exported.needed.allocator)
		name_allocator(facts, ELF_MALLOC_NEEDED, &exported.needed);
	if (!has_symtab && !facts->allocator && !exported.is_python)
		each_text(im, eh, facts, look_for_words);
	if (exported.has_malloc || internal.has_malloc)
		strcpy(facts->malloc_name, "malloc");
	if (facts->allocator && strcmp(facts->allocator, "jemalloc") == 0)
		each_text(im, eh, facts, look_for_conf);
}

void elf_facts_add_debug(const uint8_t *file, size_t size, struct elf_facts *facts)
{
	struct image im = {file, size};
	struct symbol_scan exported = {0}, internal = {0};
	Elf64_Ehdr eh;

	if (!copy_out(&im, 0, &eh, sizeof(eh)) || memcmp(file, ELFMAG, SELFMAG) != 0 ||
	    file[EI_CLASS] != ELFCLASS64 || file[EI_DATA] != ELFDATA2LSB ||
	    !scan_tables(&im, &eh, &exported, &internal))
		return;
	allocator_names_end(&internal.defined, false);
	facts->has_symbols = true;
	take_new(facts, &internal.news);
	if (!internal.defined.allocator || internal.is_python) {
		if (facts->own_malloc == ELF_MALLOC_LIKELY) /* they are only words */
			facts->own_malloc = ELF_MALLOC_SHARED;
	} else if (facts->own_malloc == ELF_MALLOC_EXPORTED) {
		facts->allocator = internal.defined.allocator;
		facts->dumps = internal.defined.dumps;
	} else {
		name_allocator(facts, ELF_MALLOC_INTERNAL, &internal.defined);
	}
}

static bool needs_library(const struct image *im, const Elf64_Ehdr *eh)
{
	for (unsigned i = 0; i < eh->e_phnum; i++) {
		Elf64_Phdr ph;
		Elf64_Dyn entry;

		if (!copy_out(im, eh->e_phoff + i * sizeof(ph), &ph, sizeof(ph)))
			return true;
		if (ph.p_type != PT_DYNAMIC || !inside(im, ph.p_offset, ph.p_filesz))
			continue;
		for (uint64_t at = 0; at + sizeof(entry) <= ph.p_filesz; at += sizeof(entry)) {
			if (!copy_out(im, ph.p_offset + at, &entry, sizeof(entry)) ||
			    entry.d_tag == DT_NEEDED)
				return true;
			if (entry.d_tag == DT_NULL)
				break;
		}
	}
	return false;
}

/* The build id, by which a file with its symbols is found; and whether Go has built it. */
static void read_notes(const struct image *im, const Elf64_Ehdr *eh, struct elf_facts *facts)
{
	uint64_t notes = 0;

	for (unsigned i = 0; i < eh->e_phnum; i++) {
		Elf64_Phdr ph;
		Elf64_Nhdr note;

		if (!copy_out(im, eh->e_phoff + i * sizeof(ph), &ph, sizeof(ph)))
			return;
		uint64_t at = ph.p_offset, left = ph.p_filesz;

		if (ph.p_type != PT_NOTE || !inside(im, at, left))
			continue;
		if (left > MOST_NOTE_BYTES - notes)
			return;
		notes += left;
		while (left >= sizeof(note) && copy_out(im, at, &note, sizeof(note))) {
			uint64_t name = (note.n_namesz + 3ull) & ~3ull;
			uint64_t whole = sizeof(note) + name + ((note.n_descsz + 3ull) & ~3ull);

			if (whole > left)
				break;
			const uint8_t *word = im->data + at + sizeof(note);

			if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
			    note.n_descsz <= sizeof(facts->build_id) &&
			    memcmp(word, "GNU", 4) == 0 && !facts->build_id_bytes) {
				facts->build_id_bytes = note.n_descsz;
				memcpy(facts->build_id, word + name, note.n_descsz);
			}
			if (note.n_namesz == 4 && memcmp(word, "Go\0", 4) == 0)
				facts->go_alone = facts->kind == ELF_DYNAMIC &&
						  !needs_library(im, eh);
			at += whole;
			left -= whole;
		}
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
		if (ph.p_type == PT_LOAD && ph.p_flags & PF_X && !facts->own_new.code_bytes) {
			facts->own_new.code_address = ph.p_vaddr;
			facts->own_new.code_bytes = ph.p_filesz;
			facts->own_new.code_offset = ph.p_offset;
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
		facts->interpreter[ph.p_filesz - 1] = 0; /* the file may have changed since */
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
		facts->what = type == ET_REL    ? "an object file"
			      : type == ET_CORE ? "a core dump"
						: "not a program";
		return;
	}
	read_segments(&im, &eh, facts);
	/* A shared library has no loader's name either: its caller knows that it is one. */
	if (facts->kind == ELF_DYNAMIC || facts->kind == ELF_STATIC) {
		find_own_malloc(&im, &eh, facts);
		read_notes(&im, &eh, facts);
	}
}
