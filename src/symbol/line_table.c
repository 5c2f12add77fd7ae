/* The line number program (DWARF 2 to 5) run once for all addresses of a unit.
 *
 * libdw keeps every row of a unit in a list of its own allocations and sorts them,
 * which took a third of the time and most of the memory of a lookup. Here no row
 * is kept: as the program runs, each pair of neighbouring rows is a range of
 * addresses, and the questions that lie in it are answered with the first row.
 *
 * The rule is libdw's: the last row at or before the address, in the sequence
 * that covers it.
 *
 * Invariants: the tables are input; every read goes through the cursor, which
 * stops at the end and remembers that it did. What is rare (several operations an
 * instruction, strings by index) makes the reader give up, not guess. */
#include "symbol/line_table.h"

#include "hosted/vector.h"

#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FILES = 1 << 20, MOST_FORMATS = 16 };

struct cursor {
	const uint8_t *at, *end;
	bool bad;
};

static uint64_t fixed(struct cursor *c, size_t bytes)
{
	uint64_t value = 0;
	if ((size_t)(c->end - c->at) < bytes) {
		c->bad = true;
		c->at = c->end;
		return 0;
	}
	memcpy(&value, c->at, bytes);
	c->at += bytes;
	return value;
}

static uint64_t uleb(struct cursor *c)
{
	uint64_t value = 0;
	for (unsigned shift = 0; c->at < c->end; shift += 7) {
		uint8_t byte = *c->at++;
		if (shift < 64)
			value |= (uint64_t)(byte & 127) << shift;
		if (!(byte & 128))
			return value;
	}
	c->bad = true;
	return 0;
}

static int64_t sleb(struct cursor *c)
{
	uint64_t value = 0;
	for (unsigned shift = 0; c->at < c->end;) {
		uint8_t byte = *c->at++;
		if (shift < 64)
			value |= (uint64_t)(byte & 127) << shift;
		shift += 7;
		if (!(byte & 128)) {
			if ((byte & 64) && shift < 64)
				value |= ~UINT64_C(0) << shift;
			return (int64_t)value;
		}
	}
	c->bad = true;
	return 0;
}

static const char *string(struct cursor *c)
{
	const uint8_t *end = memchr(c->at, 0, (size_t)(c->end - c->at));
	const char *text = (const char *)c->at;
	if (!end) {
		c->bad = true;
		c->at = c->end;
		return "";
	}
	c->at = end + 1;
	return text;
}

static const char *string_at(const uint8_t *section, size_t size, uint64_t offset)
{
	if (!section || offset >= size || !memchr(section + offset, 0, size - offset))
		return NULL;
	return (const char *)section + offset;
}

struct header {
	unsigned version, offset_bytes, address_bytes, minimum, operations, line_range, opcode_base;
	int line_base;
	const uint8_t *lengths; /* of standard opcodes, from 1 on */
	struct cursor program;
};

static bool add_file(struct line_table *t, const char *folder, const char *name)
{
	if (t->file_count >= MOST_FILES || !array_reserve(t->files, t->file_count, t->capacity, 1))
		return false;
	t->files[t->file_count++] = (struct line_file){folder, name};
	return true;
}

/* Versions 2 to 4: folders, then files, both ended by an empty name; numbered from 1. */
static bool read_files_old(struct line_table *t, struct cursor *c)
{
	struct line_table folders = {0};
	bool fine = add_file(&folders, NULL, NULL) && add_file(t, NULL, NULL);
	const char *name;
	while (fine && !c->bad && *(name = string(c)))
		fine = add_file(&folders, NULL, name);
	while (fine && !c->bad && *(name = string(c))) {
		uint64_t folder = uleb(c);
		uleb(c); /* time */
		uleb(c); /* size */
		fine = folder < folders.file_count && add_file(t, folders.files[folder].name, name);
	}
	free(folders.files);
	return fine && !c->bad;
}

/* One field of a version 5 table; false: a form that is not understood. */
static bool read_form(struct cursor *c, const struct line_sections *s, const struct header *h,
		      uint64_t form, const char **text, uint64_t *number)
{
	*text = NULL;
	*number = 0;
	switch (form) {
	case DW_FORM_string: *text = string(c); return true;
	case DW_FORM_line_strp:
		*text = string_at(s->line_str, s->line_str_size, fixed(c, h->offset_bytes));
		return *text != NULL;
	case DW_FORM_strp:
		*text = string_at(s->str, s->str_size, fixed(c, h->offset_bytes));
		return *text != NULL;
	case DW_FORM_udata: *number = uleb(c); return true;
	case DW_FORM_data1: *number = fixed(c, 1); return true;
	case DW_FORM_data2: *number = fixed(c, 2); return true;
	case DW_FORM_data4: *number = fixed(c, 4); return true;
	case DW_FORM_data8: *number = fixed(c, 8); return true;
	case DW_FORM_data16:
		fixed(c, 8);
		fixed(c, 8);
		return true;
	case DW_FORM_block: {
		uint64_t length = uleb(c);
		if (length > (uint64_t)(c->end - c->at))
			return false;
		c->at += length;
		return true;
	}
	default: return false;
	}
}

/* Version 5: a description of the entries, then the entries; numbered from 0. */
static bool read_entries(struct line_table *t, struct cursor *c, const struct line_sections *s,
			 const struct header *h, const struct line_table *folders)
{
	uint64_t kinds[MOST_FORMATS], forms[MOST_FORMATS];
	unsigned formats = (unsigned)fixed(c, 1);
	if (formats > MOST_FORMATS)
		return false;
	for (unsigned i = 0; i < formats; i++) {
		kinds[i] = uleb(c);
		forms[i] = uleb(c);
	}
	uint64_t count = uleb(c);
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

static bool read_files(struct line_table *t, struct cursor *c, const struct line_sections *s,
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
	struct cursor c = {s->line + offset, s->line + s->line_size, false};
	uint64_t length = fixed(&c, 4);
	h->offset_bytes = 4;
	if (length == 0xffffffff) {
		length = fixed(&c, 8);
		h->offset_bytes = 8;
	}
	if (c.bad || length > (uint64_t)(c.end - c.at))
		return false;
	c.end = c.at + length;
	h->version = (unsigned)fixed(&c, 2);
	if (h->version < 2 || h->version > 5)
		return false;
	h->address_bytes = 8;
	if (h->version == 5) {
		h->address_bytes = (unsigned)fixed(&c, 1);
		if (fixed(&c, 1) != 0) /* segments */
			return false;
	}
	uint64_t header_length = fixed(&c, h->offset_bytes);
	if (c.bad || header_length > (uint64_t)(c.end - c.at))
		return false;
	h->program = (struct cursor){c.at + header_length, c.end, false};
	c.end = h->program.at;
	h->minimum = (unsigned)fixed(&c, 1);
	h->operations = h->version >= 4 ? (unsigned)fixed(&c, 1) : 1;
	fixed(&c, 1); /* is_stmt at the start: every row counts here */
	h->line_base = (int8_t)fixed(&c, 1);
	h->line_range = (unsigned)fixed(&c, 1);
	h->opcode_base = (unsigned)fixed(&c, 1);
	h->lengths = c.at;
	if (!h->opcode_base || !h->line_range || h->operations != 1 ||
	    (size_t)(c.end - c.at) < h->opcode_base - 1)
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
};

static size_t first_not_below(const struct line_answer *answers, size_t count, uint64_t address)
{
	size_t low = 0, high = count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (answers[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Answers what lies between the row before and this one. *next is the first question that is not
 * before the last row. */
static void emit(struct line_answer *answers, size_t count, size_t *next, struct row *last,
		 uint64_t address, uint64_t file, int64_t line)
{
	if (!last->in_sequence) {
		/* Code that the linker dropped is left at 0, over what really is there. */
		last->dropped = address < 2;
		*next = first_not_below(answers, count, address);
	} else if (address < last->address) {
		*next = first_not_below(answers, count, address);
	}
	for (; *next < count && answers[*next].address < address; (*next)++) {
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
	struct cursor c = h->program;
	struct row last = {0};
	size_t next = 0;
	uint64_t address = 0, file = 1;
	int64_t line = 1;
	while (c.at < c.end && !c.bad) {
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
			uint64_t length = uleb(&c);
			if (!length || length > (uint64_t)(c.end - c.at))
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
				address = fixed(&c, length - 1);
			} else if (extended == DW_LNE_define_file) {
				return false;
			}
			c.at = after;
			break;
		}
		case DW_LNS_copy: emit(answers, count, &next, &last, address, file, line); break;
		case DW_LNS_advance_pc: address += uleb(&c) * h->minimum; break;
		case DW_LNS_advance_line:
			line = (int64_t)((uint64_t)line + (uint64_t)sleb(&c));
			break;
		case DW_LNS_set_file: file = uleb(&c); break;
		case DW_LNS_const_add_pc:
			address += (uint64_t)((255 - h->opcode_base) / h->line_range) * h->minimum;
			break;
		case DW_LNS_fixed_advance_pc: address += fixed(&c, 2); break;
		default: /* a column, a flag, or one that is not known: its length is told */
			for (unsigned i = 0; i < h->lengths[opcode - 1]; i++)
				uleb(&c);
			break;
		}
	}
	return !c.bad;
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
	line_table_fini(t);
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
