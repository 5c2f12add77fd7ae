/* Takes units out of .dwp and .dwo files. Packages are read by hand because elfutils before 0.192 cannot read
 * them, and later ones read beyond the end of a damaged one; .dwo files, because libdw opens them by name and
 * would wait for a FIFO.
 *
 * The parts of a unit, with the addresses of the skeleton's file, become a small ELF file in memory that looks
 * like an ordinary one, and libdw reads that.
 *
 *  - All units of a package share .debug_str, which is large. Only the strings that the unit's
 *    .debug_str_offsets names are copied, and the offsets are renewed.
 *  - .debug_addr and .debug_ranges stay in the linked file. They are copied from where the skeleton says that
 *    its part begins, so that the base is 0. Nothing says where the part ends, but an address or range takes
 *    at least a byte of the unit, so the unit's size is a bound.
 *  - Range lists count from the skeleton's low pc, which a split unit does not have. It is put in where there
 *    is space without moving anything: a version 5 unit becomes a plain one, whose header is 8 bytes shorter,
 *    and a version 4 unit loses its id.
 *
 * Invariants: the index and all sections are input and checked; nothing in the
 * unit moves, since its parts refer to each other by offset. */
#include "symbol/split_package.h"

#include "hosted/vector.h"
#include "symbol/dwarf_cursor.h"
#include "symbol/elf_file.h"
#include "symbol/elf_section.h"

#include <dwarf.h>
#include <elf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum part { INFO, ABBREV, LINE, STR_OFFSETS, RNGLISTS, STR, ADDR, RANGES, PARTS };
/* The images of all units of one file together */
#define MOST_IMAGE_BYTES (UINT64_C(2) << 30)
static const char *const part_names[PARTS] = {
	".debug_info",     ".debug_abbrev", ".debug_line", ".debug_str_offsets",
	".debug_rnglists", ".debug_str",    ".debug_addr", ".debug_ranges",
};
/* Column numbers of the index, which changed with version 5. */
static const uint32_t columns_v2[PARTS] = {1, 3, 4, 6, 0, 0, 0, 0};
static const uint32_t columns_v5[PARTS] = {1, 3, 4, 6, 8, 0, 0, 0};

struct split_sections {
	struct elf_bytes index, of[PARTS]; /* owned by an Elf */
};

struct split_package {
	struct elf_file file;
	struct split_sections sections;
};

static uint32_t u32_at(const uint8_t *p)
{
	uint32_t v;
	memcpy(&v, p, 4);
	return v;
}

/* The version of a unit, from its header. */
static unsigned version_of(const struct elf_bytes *info)
{
	uint16_t version;
	memcpy(&version, info->data + 4, sizeof version);
	return version;
}

static bool read_sections(Elf *elf, struct split_sections *s)
{
	s->index = elf_section_bytes(elf, ".debug_cu_index");
	for (int i = 0; i <= STR; i++) {
		char name[32];
		snprintf(name, sizeof name, "%s.dwo", part_names[i]);
		s->of[i] = elf_section_bytes(elf, name);
	}
	return s->of[INFO].data && s->of[ABBREV].data;
}

struct split_package *split_package_open(const char *file, struct symbol_evidence *evidence)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof path, "%s.dwp", file);
	struct split_package *p = calloc(1, sizeof *p);
	if (!p || n < 0 || (size_t)n >= sizeof path) {
		free(p);
		return NULL;
	}
	symbol_evidence_look(evidence, path);
	if (elf_file_open(&p->file, path) == ELF_FILE_OPEN &&
	    read_sections(p->file.elf, &p->sections) && p->sections.index.data)
		return p;
	split_package_close(p);
	return NULL;
}

static void close_unit(struct opened_unit *u)
{
	dwarf_end(u->dw);
	elf_end(u->elf);
	free(u->image);
}

void split_units_fini(struct split_units *units)
{
	for (size_t i = 0; i < units->count; i++)
		close_unit(&units->items[i]);
	vector_free(units);
}

void split_package_close(struct split_package *p)
{
	if (!p)
		return;
	elf_file_close(&p->file);
	free(p);
}

/* Finds the unit's parts of the package's sections. */
static bool find_parts(const struct split_sections *s, uint64_t id, struct elf_bytes *parts)
{
	const uint8_t *at = s->index.data;
	size_t size = s->index.size;
	if (size < 16)
		return false;
	uint32_t version = u32_at(at) & 0xffff, columns = u32_at(at + 4), units = u32_at(at + 8),
		 slots = u32_at(at + 12);
	if ((version != 2 && version != 5) || !slots || (slots & (slots - 1)) || columns > 16 ||
	    slots > size / 12 || units > size / 4 ||
	    16 + 12 * (uint64_t)slots + 4 * (uint64_t)columns * (1 + 2 * (uint64_t)units) > size)
		return false;
	const uint8_t *ids = at + 16, *rows = ids + 8 * (size_t)slots;
	const uint8_t *names = rows + 4 * (size_t)slots;
	const uint8_t *offsets = names + 4 * (size_t)columns;
	const uint8_t *sizes = offsets + 4 * (size_t)columns * units;
	const uint32_t *wanted = version == 5 ? columns_v5 : columns_v2;
	uint32_t row = 0;
	uint64_t step = ((id >> 32) & (slots - 1)) | 1, slot = id & (slots - 1);
	for (uint32_t tries = 0; tries < slots; tries++, slot = (slot + step) & (slots - 1)) {
		uint64_t found;
		memcpy(&found, ids + 8 * slot, 8);
		row = u32_at(rows + 4 * slot);
		if (found == id || !row)
			break;
		row = 0;
	}
	if (!row || row > units)
		return false;
	for (uint32_t c = 0; c < columns; c++)
		for (int part = 0; part <= RNGLISTS; part++) {
			if (!wanted[part] || u32_at(names + 4 * (size_t)c) != wanted[part])
				continue;
			size_t cell = 4 * ((size_t)columns * (row - 1) + c);
			uint32_t offset = u32_at(offsets + cell), length = u32_at(sizes + cell);
			const struct elf_bytes *whole = &s->of[part];
			if (!whole->data || offset > whole->size || length > whole->size - offset)
				return false;
			parts[part] = (struct elf_bytes){whole->data + offset, length};
		}
	return parts[INFO].size > 11 && parts[ABBREV].size;
}

/* The same for a .dwo file, which has one unit beside units of types. Those of version 5 have their id
 * in the header; those of version 4 are alone in their section. */
static bool find_only(const struct split_sections *s, uint64_t id, struct elf_bytes *parts)
{
	struct dwarf_cursor c = {s->of[INFO].data, s->of[INFO].data + s->of[INFO].size, false};
	memcpy(parts, s->of, sizeof s->of);
	while (dwarf_left(&c) > 24) {
		const uint8_t *start = c.at;
		unsigned offset_bytes;
		uint64_t length = dwarf_length(&c, &offset_bytes), found;
		if (c.bad || offset_bytes != 4 || length < 20 || length > dwarf_left(&c))
			return false;
		parts[INFO] = (struct elf_bytes){(uint8_t *)start, 4 + (size_t)length};
		c.at += length;
		memcpy(&found, start + 12, sizeof found);
		if (version_of(&parts[INFO]) < 5 ||
		    (start[6] == DW_UT_split_compile && found == id))
			return true;
	}
	return false;
}

/* Finds the declaration of an abbreviation: where its attributes begin and their end mark is. */
static bool find_abbreviation(const struct elf_bytes *abbrev, uint64_t code, size_t *first,
			      size_t *mark)
{
	struct dwarf_cursor c = {abbrev->data, abbrev->data + abbrev->size, false};
	for (;;) {
		uint64_t this = dwarf_uleb(&c), name, form;
		dwarf_uleb(&c);     /* tag */
		dwarf_fixed(&c, 1); /* whether it has children */
		*first = (size_t)(c.at - abbrev->data);
		do {
			*mark = (size_t)(c.at - abbrev->data);
			name = dwarf_uleb(&c);
			form = dwarf_uleb(&c);
			if (form == DW_FORM_implicit_const)
				dwarf_uleb(&c);
			if (!this || c.bad)
				return false;
		} while (name || form);
		if (this == code)
			return true;
	}
}

/* Copies the strings that the unit uses, and makes the offsets fit. Both are newly allocated. */
static bool own_strings(const struct elf_bytes *all, struct elf_bytes *offsets,
			struct elf_bytes *strings, bool has_header)
{
	struct elf_bytes made = {malloc(offsets->size + 1), offsets->size};
	size_t used = 0, capacity = 0;
	char *text = NULL;
	if (!made.data || !array_reserve(text, used, capacity, 4096))
		goto fail;
	if (offsets->size)
		memcpy(made.data, offsets->data, offsets->size);
	for (size_t at = has_header ? 8 : 0; at + 4 <= offsets->size; at += 4) {
		uint32_t offset = u32_at(offsets->data + at);
		if (!all->data || offset >= all->size)
			continue;
		size_t length = strnlen((const char *)all->data + offset, all->size - offset);
		/* Each string is named once or twice, not a million times. */
		if (used + length + 1 > UINT32_MAX || used + length > 8 * all->size + 4096 ||
		    !array_reserve(text, used, capacity, length + 1))
			goto fail;
		memcpy(text + used, all->data + offset, length);
		text[used + length] = 0;
		offset = (uint32_t)used;
		memcpy(made.data + at, &offset, 4);
		used += length + 1;
	}
	*offsets = made;
	*strings = (struct elf_bytes){(uint8_t *)text, used};
	return true;
fail:
	free(made.data);
	free(text);
	return false;
}

/* Makes an ELF file of these sections. NULL: no memory. */
static void *make_image(const struct elf_bytes *parts, size_t *size)
{
	static const char symbols[] = ".shstrtab";
	Elf64_Shdr shdr[PARTS + 2] = {{0}};
	char names[256];
	size_t names_used = 1, total = sizeof(Elf64_Ehdr);
	names[0] = 0;
	for (int i = 0; i <= PARTS; i++) {
		const char *name = i < PARTS ? part_names[i] : symbols;
		size_t length = strlen(name) + 1;
		memcpy(names + names_used, name, length);
		shdr[i + 1].sh_name = (Elf64_Word)names_used;
		names_used += length;
	}
	for (int i = 0; i <= PARTS; i++) {
		size_t bytes = i < PARTS ? parts[i].size : names_used;
		shdr[i + 1].sh_type = i < PARTS ? SHT_PROGBITS : SHT_STRTAB;
		shdr[i + 1].sh_offset = total;
		shdr[i + 1].sh_size = bytes;
		shdr[i + 1].sh_addralign = 1;
		total += (bytes + 7) & ~(size_t)7;
	}
	Elf64_Ehdr eh = {
		.e_type = ET_REL,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_shoff = total,
		.e_ehsize = sizeof eh,
		.e_shentsize = sizeof *shdr,
		.e_shnum = PARTS + 2,
		.e_shstrndx = PARTS + 1,
	};
	memcpy(eh.e_ident, ELFMAG, SELFMAG);
	eh.e_ident[EI_CLASS] = ELFCLASS64;
	eh.e_ident[EI_DATA] = ELFDATA2LSB;
	eh.e_ident[EI_VERSION] = EV_CURRENT;
	*size = total + sizeof shdr;
	uint8_t *image = calloc(1, *size);
	if (!image)
		return NULL;
	memcpy(image, &eh, sizeof eh);
	for (int i = 0; i < PARTS; i++)
		if (parts[i].size)
			memcpy(image + shdr[i + 1].sh_offset, parts[i].data, parts[i].size);
	memcpy(image + shdr[PARTS + 1].sh_offset, names, names_used);
	memcpy(image + total, shdr, sizeof shdr);
	return image;
}

static bool open_image(const struct elf_bytes *parts, struct opened_unit *u, Dwarf_Die *unit)
{
	Dwarf_CU *cu = NULL;
	memset(u, 0, sizeof *u);
	u->image = make_image(parts, &u->bytes);
	u->elf = u->image ? elf_memory(u->image, u->bytes) : NULL;
	u->dw = u->elf ? dwarf_begin_elf(u->elf, DWARF_C_READ, NULL) : NULL;
	if (u->dw && dwarf_get_units(u->dw, NULL, &cu, NULL, NULL, unit, NULL) == 0)
		return true;
	close_unit(u);
	return false;
}

/* Gives the unit a low pc (see above). Allocates new bytes for INFO and ABBREV, which the caller frees. */
static bool put_low_pc(struct elf_bytes *parts, Dwarf_Die *unit, uint64_t low_pc)
{
	struct elf_bytes info = {malloc(parts[INFO].size), parts[INFO].size};
	struct elf_bytes abbrev = {malloc(parts[ABBREV].size + 2), parts[ABBREV].size};
	Dwarf_Die child;
	Dwarf_Attribute id;
	size_t first, mark;
	bool done = false;
	if (!info.data || !abbrev.data)
		goto out;
	memcpy(info.data, parts[INFO].data, info.size);
	memcpy(abbrev.data, parts[ABBREV].data, abbrev.size);
	Dwarf_Off start = dwarf_dieoffset(unit);
	if (start >= info.size)
		goto out;
	struct dwarf_cursor c = {info.data + start, info.data + info.size, false};
	uint64_t code = dwarf_uleb(&c);
	if (c.bad || !find_abbreviation(&abbrev, code, &first, &mark))
		goto out;
	unsigned version = version_of(&info);
	if (version == 5) {
		/* length 4, version 2, type 1, address 1, abbreviations 4, and here an id of 8 */
		if (start != 20 || dwarf_child(unit, &child) != 0)
			goto out;
		Dwarf_Off end = dwarf_dieoffset(&child);
		if (end <= 20 || end > info.size)
			goto out;
		info.data[6] = DW_UT_compile;
		memmove(info.data + 12, info.data + 20, end - 20);
		memcpy(info.data + end - 8, &low_pc, 8);
		memmove(abbrev.data + mark + 2, abbrev.data + mark, abbrev.size - mark);
		abbrev.data[mark] = DW_AT_low_pc;
		abbrev.data[mark + 1] = DW_FORM_addr;
		abbrev.size += 2;
		done = true;
	} else if (dwarf_attr(unit, DW_AT_GNU_dwo_id, &id) && id.form == DW_FORM_data8) {
		/* DW_AT_GNU_dwo_id takes two bytes as a LEB128 number, and so does a padded 0x11 */
		static const uint8_t was[] = {0xb1, 0x42, DW_FORM_data8};
		static const uint8_t is[] = {0x80 | DW_AT_low_pc, 0, DW_FORM_addr};
		uint8_t *pair = memmem(abbrev.data + first, mark - first, was, sizeof was);
		size_t value = 0;
		/* The value is where libdw sees it, relative to the unit's first byte. */
		const uint8_t *base = (const uint8_t *)unit->addr - start;
		if (pair && id.valp > base)
			value = (size_t)(id.valp - base);
		if (!value || value + 8 > info.size)
			goto out;
		memcpy(pair, is, sizeof is);
		memcpy(info.data + value, &low_pc, 8);
		done = true;
	}
out:
	if (!done) {
		free(info.data);
		free(abbrev.data);
		return false;
	}
	parts[INFO] = info;
	parts[ABBREV] = abbrev;
	return true;
}

static uint64_t offset_attribute(Dwarf_Die *die, unsigned name, unsigned other)
{
	Dwarf_Attribute attr;
	Dwarf_Word value;
	if ((dwarf_attr(die, name, &attr) || (other && dwarf_attr(die, other, &attr))) &&
	    dwarf_formudata(&attr, &value) == 0)
		return value;
	return 0;
}

static struct elf_bytes from_offset(struct elf_bytes whole, uint64_t offset, size_t most)
{
	if (!whole.data || offset >= whole.size)
		return (struct elf_bytes){0};
	size_t rest = whole.size - offset;
	return (struct elf_bytes){whole.data + offset, rest < most ? rest : most};
}

/* Makes a unit of its parts and opens it. */
static bool open_unit(struct split_units *units, Dwarf_Die *skeleton, uint64_t id,
		      struct elf_bytes *parts, Dwarf_Die *unit)
{
	struct opened_unit opened;
	Dwarf_Addr low_pc = 0;
	Dwarf *dw = dwarf_cu_getdwarf(skeleton->cu);
	Elf *main = dw ? dwarf_getelf(dw) : NULL;
	if (!main)
		return false;
	unsigned version = version_of(&parts[INFO]);
	struct elf_bytes strings = parts[STR];
	if (!own_strings(&strings, &parts[STR_OFFSETS], &parts[STR], version >= 5))
		return false;
	parts[ADDR] = from_offset(elf_section_bytes(main, ".debug_addr"),
				  offset_attribute(skeleton, DW_AT_addr_base, DW_AT_GNU_addr_base),
				  8 * parts[INFO].size);
	parts[RANGES] = from_offset(elf_section_bytes(main, ".debug_ranges"),
				    offset_attribute(skeleton, DW_AT_GNU_ranges_base, 0),
				    64 * parts[INFO].size);
	bool found = open_image(parts, &opened, unit);
	/* Version 5 has the id in its header. */
	if (found && version < 5 && offset_attribute(unit, DW_AT_GNU_dwo_id, 0) != id) {
		close_unit(&opened);
		found = false;
	}
	if (found && dwarf_lowpc(skeleton, &low_pc) == 0 && low_pc) {
		bool put = put_low_pc(parts, unit, low_pc);
		close_unit(&opened);
		found = put && open_image(parts, &opened, unit);
		if (put) {
			free(parts[INFO].data);
			free(parts[ABBREV].data);
		}
	}
	if (found &&
	    (opened.bytes > MOST_IMAGE_BYTES - units->bytes || !vector_push(units, opened))) {
		close_unit(&opened);
		found = false;
	}
	units->bytes += found ? opened.bytes : 0;
	free(parts[STR_OFFSETS].data);
	free(parts[STR].data);
	return found;
}

bool split_package_unit(const struct split_package *p, struct split_units *units,
			Dwarf_Die *skeleton, uint64_t id, Dwarf_Die *unit)
{
	struct elf_bytes parts[PARTS] = {{0}};
	if (!find_parts(&p->sections, id, parts))
		return false;
	parts[STR] = p->sections.of[STR];
	return open_unit(units, skeleton, id, parts, unit);
}

bool split_file_unit(const char *path, struct split_units *units, Dwarf_Die *skeleton, uint64_t id,
		     Dwarf_Die *unit, uint64_t *refused_bytes)
{
	struct elf_file file;
	struct split_sections sections = {0};
	struct elf_bytes parts[PARTS];
	if (elf_file_open(&file, path) != ELF_FILE_OPEN)
		return false;
	*refused_bytes = file.refused_bytes;
	/* Everything is copied: the file is not needed afterwards. */
	bool found = read_sections(file.elf, &sections) && find_only(&sections, id, parts) &&
		     open_unit(units, skeleton, id, parts, unit);
	elf_file_close(&file);
	return found;
}
