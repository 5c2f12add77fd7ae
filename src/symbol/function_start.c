/* Finds where the functions of a stripped program begin, by its unwind tables (.eh_frame). Each entry (FDE)
 * covers one function, so its first address stands for all addresses of that function. Then all sites of a
 * function are under one name, although nobody knows the real one.
 *
 * The entries are read one after the other, and each is searched for among the sorted queries. That takes a few
 * nanoseconds an entry, and no search table (.eh_frame_hdr), which not every file has. An address that no entry
 * covers stays as it is: the function before it may end long before.
 *
 * libdw's walk over the entries (dwarf_next_cfi) leaves their addresses encoded: therefore this is by hand. Only what
 * compilers write is understood: pointers of 2, 4 or 8 bytes, absolute or relative to themselves. The bytes are hostile: every read is checked, every step goes forward. */
#include "symbol/function_start.h"

#include "hosted/sorted.h"
#include "symbol/dwarf_cursor.h"
#include "symbol/elf_section.h"
#include "symbol/symbol_sources.h"

#include <gelf.h>
#include <string.h>

enum { ABSENT = 0xff, RELATIVE = 0x10, INDIRECT = 0x80 };

/* How many bytes a pointer of this encoding has; 0: one that compilers do not use here. */
static size_t encoded_bytes(unsigned encoding)
{
	static const uint8_t bytes[16] = {8, 0, 2, 4, 8, 0, 0, 0, 8, 0, 2, 4, 8};
	return bytes[encoding & 0x0f];
}

static uint64_t take_value(struct dwarf_cursor *c, unsigned encoding)
{
	size_t bytes = encoded_bytes(encoding);
	uint64_t value = dwarf_fixed(c, bytes);
	if (!bytes)
		c->bad = true;
	if ((encoding & 0x08) && bytes < 8 && bytes && value >> (bytes * 8 - 1))
		value |= UINT64_MAX << (bytes * 8);
	return value;
}

/* Opens the entry at `offset`: *body is what follows its id, and *offset becomes the next entry's. False: there are no
 * more. */
static bool open_entry(const struct unwind_bytes *u, size_t *offset, struct dwarf_cursor *body,
		       uint32_t *id, size_t *id_offset)
{
	struct dwarf_cursor c = {u->data + *offset, u->data + u->size, false};
	unsigned offset_bytes;
	uint64_t length = dwarf_length(&c, &offset_bytes);
	if (c.bad || length < 4 || length > dwarf_left(&c))
		return false;
	c.end = c.at + length;
	*offset = (size_t)(c.end - u->data);
	*id_offset = (size_t)(c.at - u->data);
	*id = (uint32_t)dwarf_fixed(&c, 4);
	*body = c;
	return true;
}

/* How the entries of a CIE encode their addresses; ABSENT: not understood. */
static unsigned address_encoding(const struct unwind_bytes *u, size_t offset)
{
	struct dwarf_cursor c;
	uint32_t id;
	size_t id_offset;
	unsigned encoding = 0;
	if (offset >= u->size || !open_entry(u, &offset, &c, &id, &id_offset) || id != 0)
		return ABSENT;
	unsigned version = (unsigned)dwarf_fixed(&c, 1);
	const char *augmentation = dwarf_string(&c);
	size_t length = strlen(augmentation);
	if (c.bad || (version != 1 && version != 3))
		return ABSENT;
	if (!length)
		return 0;
	if (augmentation[0] != 'z')
		return ABSENT;
	dwarf_uleb(&c); /* code and data alignment */
	dwarf_uleb(&c);
	if (version == 1)
		dwarf_fixed(&c, 1); /* return address register */
	else
		dwarf_uleb(&c);
	dwarf_uleb(&c); /* length of what follows */
	for (size_t i = 1; i < length && !c.bad; i++) {
		unsigned of_personality;
		switch (augmentation[i]) {
		case 'R': encoding = (unsigned)dwarf_fixed(&c, 1); return c.bad ? ABSENT : encoding;
		case 'L': dwarf_fixed(&c, 1); break;
		case 'P':
			of_personality = (unsigned)dwarf_fixed(&c, 1);
			take_value(&c, of_personality);
			break;
		case 'S':
		case 'B': break;
		default: return ABSENT;
		}
	}
	return c.bad ? ABSENT : encoding;
}

static bool needs_start(const struct symbol_query *q)
{
	return !q->frame_count || !q->frames[q->frame_count - 1].function;
}

void function_starts_in(const struct unwind_bytes *u, struct symbol_query *queries, size_t count)
{
	size_t known_cie = SIZE_MAX, id_offset;
	unsigned encoding = ABSENT;
	struct dwarf_cursor c;
	uint32_t id;
	for (size_t offset = 0; count && offset < u->size;) {
		if (!open_entry(u, &offset, &c, &id, &id_offset))
			return;
		if (!id || id > id_offset) /* a CIE itself, or damaged */
			continue;
		if (id_offset - id != known_cie) {
			known_cie = id_offset - id;
			encoding = address_encoding(u, known_cie);
		}
		if (encoding == ABSENT || (encoding & INDIRECT) ||
		    ((encoding & 0x70) != RELATIVE && (encoding & 0x70) != 0))
			continue;
		uint64_t field = u->address + (uint64_t)(c.at - u->data);
		uint64_t start = take_value(&c, encoding);
		uint64_t size = take_value(&c, encoding & 0x07);
		if (encoding & RELATIVE)
			start += field;
		if (c.bad || !size || start + size < start)
			continue;
		if (start > queries[count - 1].address || start + size <= queries[0].address)
			continue;
		for (size_t i = count_before(q, count, queries[q].address < start);
		     i < count && queries[i].address - start < size; i++)
			if (needs_start(&queries[i])) {
				queries[i].function_start = start;
				queries[i].function_bytes = size;
			}
	}
}

void function_starts_lookup(Elf *elf, struct symbol_query *queries, size_t count)
{
	struct elf_bytes bytes = elf_section_bytes(elf, ".eh_frame");
	uint64_t address;
	if (bytes.data && elf_section_address(elf, ".eh_frame", &address))
		function_starts_in(&(struct unwind_bytes){bytes.data, bytes.size, address}, queries,
				   count);
}
