/* Names from .gopclntab, which a Go program needs at run time and so keeps when it is stripped.
 * src/capture/go_rows.c reads the same tables inside the program, for other purposes; it has
 * the picture of their parts.
 *
 * Where functions begin is counted from `text`. Up to Go 1.25 the header has it; since then, and
 * wherever the file is relocated when it is loaded, only Go's moduledata has it. That is writable
 * data, which we find by the pointers to the tables' parts: they are in the bytes of the file or,
 * in a position-independent program, in its relocations.
 *
 * The file is a stranger's: every offset is checked before it is used. */
#include "symbol/go_functions.h"

#include "symbol/elf_section.h"

#include <gelf.h>
#include <string.h>

enum {
	MAGIC_118 = 0xfffffff0u,
	MAGIC_120 = 0xfffffff1u,
	HEADER = 72,
	/* words of moduledata, in bytes */
	M_NAMES = 8,
	M_FUNCTIONS = 13 * 8,
	M_TEXT = 22 * 8,
	M_BYTES = 23 * 8,
	/* of a function's record */
	F_NAME = 4,
	F_FILES = 20,
	F_LINES = 24,
	F_TABLES = 28,
	F_UNIT = 32,
	INLINED = 2, /* which of the further tables says what was inlined */
	NO_FILE = -1,
	TRIES = 8, /* of what only looks like one, in a file that was made to look so */
};

static bool word_at(const struct go_functions *g, uint64_t at, uint32_t *value)
{
	if (g->size < 4 || at > g->size - 4)
		return false;
	memcpy(value, g->data + at, 4);
	return true;
}

static uint64_t long_at(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, 8);
	return v;
}

struct go_functions go_functions_in(const uint8_t *data, size_t size, uint64_t text)
{
	const struct go_functions none = {0};
	struct go_functions g = {.data = data, .size = size, .text = text};
	uint32_t magic;
	if (size < HEADER || !word_at(&g, 0, &magic) ||
	    (magic != MAGIC_118 && magic != MAGIC_120) || memcmp(data + 4, "\0\0\1\x08", 4) != 0)
		return none;
	g.has_start_lines = magic == MAGIC_120;
	g.count = long_at(data + 8);
	g.names = long_at(data + 32);
	g.units = long_at(data + 40);
	g.files = long_at(data + 48);
	g.values = long_at(data + 56);
	g.functions = long_at(data + 64);
	if (!g.count || g.names > size || g.units > size || g.files > size || g.values > size ||
	    g.functions > size || (size - g.functions) / 8 < g.count)
		return none;
	return g;
}

/* ---- finding them in a file */

/* The word at this address, in the relocations of the file. */
static bool relocated_word(struct elf_bytes rela, uint64_t address, uint64_t *value)
{
	for (size_t at = 0; at + sizeof(Elf64_Rela) <= rela.size; at += sizeof(Elf64_Rela)) {
		Elf64_Rela r;
		memcpy(&r, rela.data + at, sizeof r);
		if (r.r_offset == address && ELF64_R_TYPE(r.r_info) == R_X86_64_RELATIVE) {
			*value = (uint64_t)r.r_addend;
			return true;
		}
	}
	return false;
}

/* In a position-independent file: the text of the moduledata that points to tables at this address; 0: none does. */
static uint64_t text_by_relocations(Elf *elf, const struct go_functions *g, uint64_t address)
{
	struct elf_bytes rela = elf_section_bytes(elf, ".rela.dyn");
	unsigned tries = 0;
	for (size_t at = 0; at + sizeof(Elf64_Rela) <= rela.size; at += sizeof(Elf64_Rela)) {
		Elf64_Rela r;
		uint64_t names, functions, text;
		memcpy(&r, rela.data + at, sizeof r);
		if ((uint64_t)r.r_addend != address)
			continue;
		if (tries++ == TRIES)
			break;
		if (relocated_word(rela, r.r_offset + M_NAMES, &names) &&
		    names == address + g->names &&
		    relocated_word(rela, r.r_offset + M_FUNCTIONS, &functions) &&
		    functions == address + g->functions &&
		    relocated_word(rela, r.r_offset + M_TEXT, &text))
			return text;
	}
	return 0;
}

static uint64_t text_in_section(Elf_Scn *scn, const struct go_functions *g, uint64_t address)
{
	Elf_Data *data = elf_rawdata(scn, NULL);
	for (size_t at = 0; data && data->d_buf && at + M_BYTES <= data->d_size; at += 8) {
		const uint8_t *p = (const uint8_t *)data->d_buf + at;
		if (long_at(p) == address && long_at(p + M_NAMES) == address + g->names &&
		    long_at(p + M_FUNCTIONS) == address + g->functions)
			return long_at(p + M_TEXT);
	}
	return 0;
}

static uint64_t find_text(Elf *elf, const struct go_functions *g, uint64_t address)
{
	uint64_t text = 0;
	GElf_Shdr shdr;
	for (Elf_Scn *scn = NULL; !text && (scn = elf_nextscn(elf, scn));)
		if (gelf_getshdr(scn, &shdr) && shdr.sh_type == SHT_PROGBITS &&
		    shdr.sh_flags & SHF_WRITE && !(shdr.sh_flags & SHF_COMPRESSED))
			text = text_in_section(scn, g, address);
	return text ? text : text_by_relocations(elf, g, address);
}

struct go_functions go_functions_open(Elf *elf)
{
	/* The second is where a linker puts them that relocates the program. */
	static const char *const sections[] = {".gopclntab", ".data.rel.ro.gopclntab",
					       ".data.rel.ro"};
	const struct go_functions none = {0};
	uint64_t address;
	for (unsigned i = 0; i < sizeof sections / sizeof *sections; i++) {
		struct elf_bytes b = elf_section_bytes(elf, sections[i]);
		if (!b.data || !elf_section_address(elf, sections[i], &address))
			continue;
		/* In .data.rel.ro other things come before them. */
		unsigned tries = 0;
		for (size_t at = 0; at + HEADER <= b.size && tries < TRIES; at += 8) {
			struct go_functions g = go_functions_in(b.data + at, b.size - at, 0);
			tries += g.data || i < 2 ? 1 : 0;
			if (g.data && (g.text = find_text(elf, &g, address + at)))
				return g;
		}
	}
	return none;
}

/* ---- asking them */

static bool number_at(const struct go_functions *g, uint64_t *at, uint32_t *value)
{
	*value = 0;
	for (unsigned shift = 0; shift < 35 && *at < g->size; shift += 7) {
		uint8_t b = g->data[(*at)++];
		*value |= (uint32_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			return true;
	}
	return false;
}

/* What one of a function's tables has for the code at `offset` in it. False: nothing. */
static bool value_at(const struct go_functions *g, uint32_t table, uint64_t offset, int32_t *value)
{
	uint64_t at = g->values + table, code = 0;
	uint32_t sum = UINT32_MAX, change, bytes;
	for (bool first = true; table; first = false) {
		if (!number_at(g, &at, &change) || (!change && !first) ||
		    !number_at(g, &at, &bytes))
			return false;
		sum += change & 1 ? ~(change >> 1) : change >> 1;
		code += bytes;
		if (offset < code) {
			*value = (int32_t)sum;
			return true;
		}
	}
	return false;
}

static const char *string_at(const struct go_functions *g, uint64_t at)
{
	if (at >= g->size || !g->data[at] || !memchr(g->data + at, 0, g->size - at))
		return NULL;
	return (const char *)g->data + at;
}

static void find_line(const struct go_functions *g, uint64_t record, uint64_t offset,
		      struct go_place *place)
{
	uint64_t tables = record + (g->has_start_lines ? 44 : 40);
	uint32_t files, lines, count, unit, inlined = 0, name;
	int32_t tree, file, line;
	if (!word_at(g, record + F_FILES, &files) || !word_at(g, record + F_LINES, &lines) ||
	    !word_at(g, record + F_TABLES, &count) || !word_at(g, record + F_UNIT, &unit))
		return;
	if (count > INLINED && !word_at(g, tables + INLINED * 4, &inlined))
		return;
	if (inlined && value_at(g, inlined, offset, &tree) && tree >= 0)
		return;
	if (!value_at(g, files, offset, &file) || file <= NO_FILE ||
	    !value_at(g, lines, offset, &line) || line <= 0 ||
	    !word_at(g, g->units + ((uint64_t)unit + (uint32_t)file) * 4, &name) ||
	    name == UINT32_MAX)
		return;
	place->file = string_at(g, g->files + name);
	place->line = place->file ? (uint32_t)line : 0;
}

bool go_functions_find(const struct go_functions *g, uint64_t address, struct go_place *place)
{
	uint64_t offset = address - g->text, low = 0, high = g->count;
	uint32_t begin, end, at, name;
	*place = (struct go_place){0};
	if (!g->data || address < g->text || !word_at(g, g->functions + g->count * 8, &end) ||
	    offset >= end)
		return false;
	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;
		if (word_at(g, g->functions + middle * 8, &begin) && begin <= offset)
			low = middle;
		else
			high = middle;
	}
	if (!word_at(g, g->functions + low * 8, &begin) || begin > offset ||
	    !word_at(g, g->functions + low * 8 + 4, &at) ||
	    !word_at(g, g->functions + at + F_NAME, &name))
		return false;
	place->function = string_at(g, g->names + name);
	if (place->function)
		find_line(g, g->functions + at, offset - begin, place);
	return place->function != NULL;
}
