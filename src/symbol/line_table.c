/* Runs the line number program (DWARF 2 to 5) once for all addresses of a unit.
 *
 * libdw keeps every row of a unit in a list of its own allocations and sorts them,
 * which took a third of the time and most of the memory of a lookup: therefore this
 * is written by hand. No row is kept: as the program runs, each pair of neighbouring rows is a range of
 * addresses, and the questions that lie in it are answered with the first row.
 *
 * The rule is libdw's: the last row at or before the address, in the sequence
 * that covers it.
 *
 * Invariants: the tables are input; every read goes through the cursor, which
 * stops at the end and remembers that it did. The reader gives up at what is rare
 * (several operations an instruction, strings by index), and libdw is asked. */
#include "symbol/line_table.h"

#include "hosted/sorted.h"
#include "hosted/vector.h"
#include "symbol/dwarf_cursor.h"

#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FILES = 1 << 20, MOST_FORMATS = 16 };

static const char *string_at(const uint8_t *section, size_t size, uint64_t offset)
{
	if (!section || offset >= size || !memchr(section + offset, 0, size - offset))
		return NULL;
	return (const char *)section + offset;
}

struct header {
	unsigned version, offset_bytes, address_bytes, minimum, operations, line_range, opcode_base;
	int line_base;
	const uint8_t *lengths; /* operands of each standard opcode, from 1 on */
	struct dwarf_cursor program;
};

static bool add_file(struct line_table *t, const char *folder, const char *name)
{
	if (t->file_count >= MOST_FILES || !array_reserve(t->files, t->file_count, t->capacity, 1))
		return false;
	t->files[t->file_count++] = (struct line_file){folder, name};
	return true;
}

/* Versions 2 to 4: folders, then files, both ended by an empty name; numbered from 1. */
static bool read_files_old(struct line_table *t, struct dwarf_cursor *c)
{
	struct line_table folders = {0};
	bool fine = add_file(&folders, NULL, NULL) && add_file(t, NULL, NULL);
	const char *name;
	while (fine && !c->bad && *(name = dwarf_string(c)))
		fine = add_file(&folders, NULL, name);
	while (fine && !c->bad && *(name = dwarf_string(c))) {
		uint64_t folder = dwarf_uleb(c);
		dwarf_uleb(c); /* time */
		dwarf_uleb(c); /* size */
		fine = folder < folders.file_count && add_file(t, folders.files[folder].name, name);
	}
	free(folders.files);
	return fine && !c->bad;
}

/* Reads one field of a version 5 table; false: its form is not understood. */
static bool read_form(struct dwarf_cursor *c, const struct line_sections *s, const struct header *h,
		      uint64_t form, const char **text, uint64_t *number)
{
	*text = NULL;
	*number = 0;
	switch (form) {
	case DW_FORM_string: *text = dwarf_string(c); return true;
	case DW_FORM_line_strp:
		*text = string_at(s->line_str, s->line_str_size, dwarf_fixed(c, h->offset_bytes));
		return *text != NULL;
	case DW_FORM_strp:
		*text = string_at(s->str, s->str_size, dwarf_fixed(c, h->offset_bytes));
		return *text != NULL;
	case DW_FORM_udata: *number = dwarf_uleb(c); return true;
	case DW_FORM_data1: *number = dwarf_fixed(c, 1); return true;
	case DW_FORM_data2: *number = dwarf_fixed(c, 2); return true;
	case DW_FORM_data4: *number = dwarf_fixed(c, 4); return true;
	case DW_FORM_data8: *number = dwarf_fixed(c, 8); return true;
	case DW_FORM_data16:
		dwarf_fixed(c, 8);
		dwarf_fixed(c, 8);
		return true;
	case DW_FORM_block: {
		uint64_t length = dwarf_uleb(c);
		if (length > dwarf_left(c))
			return false;
		c->at += length;
		return true;
	}
	default: return false;
	}
}

/* Version 5: a description of the entries, then the entries; numbered from 0. */
static bool read_entries(struct line_table *t, struct dwarf_cursor *c,
			 const struct line_sections *s, const struct header *h,
			 const struct line_table *folders)
{
	uint64_t kinds[MOST_FORMATS], forms[MOST_FORMATS];
	unsigned formats = (unsigned)dwarf_fixed(c, 1);
	if (formats > MOST_FORMATS)
		return false;
	for (unsigned i = 0; i < formats; i++) {
		kinds[i] = dwarf_uleb(c);
		forms[i] = dwarf_uleb(c);
	}
	uint64_t count = dwarf_uleb(c);
	if (c->bad || count > MOST_FILES)
		return false;
	for (uint64_t i = 0; i < count && !c->bad; i++) {
		const char *name = NULL, *text;
		uint64_t folder = 0, number;
		for (unsigned k = 0; k < formats; k++) {
			if (!read_form(c, s, h, forms[k], &text, &number))
				return false;
			if (kinds[k] == DW_LNCT_path)
				name = text;
			else if (kinds[k] == DW_LNCT_directory_index)
				folder = number;
		}
		if (!name || (folders && folder >= folders->file_count) ||
		    !add_file(t, folders ? folders->files[folder].name : NULL, name))
			return false;
	}
	return !c->bad;
}

static bool read_files(struct line_table *t, struct dwarf_cursor *c, const struct line_sections *s,
		       const struct header *h)
{
	struct line_table folders = {0};
	if (h->version < 5)
		return read_files_old(t, c);
	bool fine = read_entries(&folders, c, s, h, NULL) && read_entries(t, c, s, h, &folders);
	free(folders.files);
	return fine;
}

static bool read_header(struct line_table *t, const struct line_sections *s, uint64_t offset,
			struct header *h)
{
	if (!s->line || offset >= s->line_size)
		return false;
	struct dwarf_cursor c = {s->line + offset, s->line + s->line_size, false};
	uint64_t length = dwarf_length(&c, &h->offset_bytes);
	if (c.bad || length > dwarf_left(&c))
		return false;
	c.end = c.at + length;
	t->bytes = length;
	h->version = (unsigned)dwarf_fixed(&c, 2);
	if (h->version < 2 || h->version > 5)
		return false;
	h->address_bytes = 8;
	if (h->version == 5) {
		h->address_bytes = (unsigned)dwarf_fixed(&c, 1);
		if (dwarf_fixed(&c, 1) != 0) /* segments */
			return false;
	}
	uint64_t header_length = dwarf_fixed(&c, h->offset_bytes);
	if (c.bad || header_length > dwarf_left(&c))
		return false;
	h->program = (struct dwarf_cursor){c.at + header_length, c.end, false};
	c.end = h->program.at;
	h->minimum = (unsigned)dwarf_fixed(&c, 1);
	h->operations = h->version >= 4 ? (unsigned)dwarf_fixed(&c, 1) : 1;
	dwarf_fixed(&c, 1); /* is_stmt at the start: every row counts here */
	h->line_base = (int8_t)dwarf_fixed(&c, 1);
	h->line_range = (unsigned)dwarf_fixed(&c, 1);
	h->opcode_base = (unsigned)dwarf_fixed(&c, 1);
	h->lengths = c.at;
	if (!h->opcode_base || !h->line_range || h->operations != 1 ||
	    dwarf_left(&c) < h->opcode_base - 1)
		return false;
	c.at += h->opcode_base - 1;
	t->version = (uint16_t)h->version;
	return !c.bad && read_files(t, &c, s, h);
}

struct row {
	uint64_t address;
	uint32_t file;
	int64_t line;
	bool in_sequence; /* a row was emitted, so [address, the next row's) has its file and line */
	bool dropped;
	uint64_t steps; /* answers that were given, again and again included */
};

/* Answers what lies between the row before and this one. *next is the first question that is not
 * before the last row. */
static void emit(struct line_answer *answers, size_t count, size_t *next, struct row *last,
		 uint64_t address, uint64_t file, int64_t line)
{
	if (!last->in_sequence) /* code that the linker dropped is left at 0, over what really is there */
		last->dropped = address < 2;
	if (!last->in_sequence || address < last->address)
		*next = count_before(i, count, answers[i].address < address);
	for (; *next < count && answers[*next].address < address; (*next)++) {
		last->steps++;
		if (last->dropped)
			continue;
		answers[*next].file = last->file;
		answers[*next].line = last->line > 0 && last->line <= UINT32_MAX
					      ? (uint32_t)last->line
					      : 0;
		answers[*next].found = true;
	}
	last->in_sequence = true;
	last->address = address;
	last->file = file <= UINT32_MAX ? (uint32_t)file : UINT32_MAX;
	last->line = line;
}

static bool run(const struct header *h, struct line_answer *answers, size_t count)
{
	struct dwarf_cursor c = h->program;
	struct row last = {0};
	size_t next = 0;
	uint64_t address = 0, file = 1;
	int64_t line = 1;
	/* Rows go forward. If they go to and fro over all answers, it is no compiler's table. */
	uint64_t most_steps = 64 * (uint64_t)count + 64 * dwarf_left(&c);
	while (c.at < c.end && !c.bad && last.steps <= most_steps) {
		unsigned opcode = *c.at++;
		if (opcode >= h->opcode_base) {
			unsigned adjusted = opcode - h->opcode_base;
			address += (uint64_t)(adjusted / h->line_range) * h->minimum;
			line = (int64_t)((uint64_t)line +
					 (uint64_t)(h->line_base +
						    (int)(adjusted % h->line_range)));
			emit(answers, count, &next, &last, address, file, line);
			continue;
		}
		switch (opcode) {
		case 0: {
			uint64_t length = dwarf_uleb(&c);
			if (!length || length > dwarf_left(&c))
				return false;
			const uint8_t *after = c.at + length;
			unsigned extended = *c.at++;
			if (extended == DW_LNE_end_sequence) {
				emit(answers, count, &next, &last, address, file, line);
				last.in_sequence = false;
				address = 0;
				file = 1;
				line = 1;
			} else if (extended == DW_LNE_set_address) {
				if (length - 1 != 8 && length - 1 != 4)
					return false;
				address = dwarf_fixed(&c, length - 1);
			} else if (extended == DW_LNE_define_file) {
				return false;
			}
			c.at = after;
			break;
		}
		case DW_LNS_copy: emit(answers, count, &next, &last, address, file, line); break;
		case DW_LNS_advance_pc: address += dwarf_uleb(&c) * h->minimum; break;
		case DW_LNS_advance_line:
			line = (int64_t)((uint64_t)line + (uint64_t)dwarf_sleb(&c));
			break;
		case DW_LNS_set_file: file = dwarf_uleb(&c); break;
		case DW_LNS_const_add_pc:
			address += (uint64_t)((255 - h->opcode_base) / h->line_range) * h->minimum;
			break;
		case DW_LNS_fixed_advance_pc: address += dwarf_fixed(&c, 2); break;
		default: /* a column, a flag, or one that is not known: the header gives its length */
			for (unsigned i = 0; i < h->lengths[opcode - 1]; i++)
				dwarf_uleb(&c);
			break;
		}
	}
	return !c.bad && last.steps <= most_steps;
}

bool line_table_read(struct line_table *t, const struct line_sections *s, uint64_t offset,
		     struct line_answer *answers, size_t count)
{
	struct header h;
	memset(t, 0, sizeof *t);
	if (read_header(t, s, offset, &h) && run(&h, answers, count))
		return true;
	for (size_t i = 0; i < count; i++)
		answers[i].found = false;
	uint64_t bytes = t->bytes;
	line_table_fini(t);
	t->bytes = bytes;
	return false;
}

bool line_table_path(const struct line_table *t, uint32_t file, const char *comp_dir, char *path,
		     size_t size)
{
	if (file >= t->file_count || !t->files[file].name)
		return false;
	const char *name = t->files[file].name, *folder = t->files[file].folder;
	bool absolute = name[0] == '/';
	bool folder_absolute = folder && folder[0] == '/';
	if (absolute || !folder)
		folder = "";
	if (absolute || folder_absolute || !comp_dir)
		comp_dir = "";
	int n = snprintf(path, size, "%s%s%s%s%s", comp_dir, *comp_dir ? "/" : "", folder,
			 *folder ? "/" : "", name);
	return n > 0 && (size_t)n < size;
}

void line_table_fini(struct line_table *t)
{
	free(t->files);
	memset(t, 0, sizeof *t);
}
