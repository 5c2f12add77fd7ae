/* Reads .eh_frame from end to end: which code each entry (FDE) is about. Only the start of that code is needed; the
 * blob reads the rest when it comes there. The file is the program's own, and may be damaged: everything is checked. */
#include "attach/eh_frame_index.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

struct bytes {
	const uint8_t *at, *end;
	bool bad;
};

static uint64_t take(struct bytes *b, unsigned count)
{
	uint64_t v = 0;
	if (b->bad || (size_t)(b->end - b->at) < count) {
		b->bad = true;
		return 0;
	}
	memcpy(&v, b->at, count);
	b->at += count;
	return v;
}

static uint64_t take_uleb(struct bytes *b)
{
	uint64_t v = 0;
	for (unsigned shift = 0;; shift += 7) {
		uint64_t byte = take(b, 1);
		if (shift < 64)
			v |= (byte & 0x7f) << shift;
		if (!(byte & 0x80) || b->bad)
			return v;
	}
}

/* A pointer that stands at the address `here`. */
static uint64_t take_pointer(struct bytes *b, uint8_t encoding, uint64_t here)
{
	uint64_t v = 0;
	switch (encoding & 0x0f) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8: v = take(b, 8); break;
	case DW_EH_PE_udata4: v = take(b, 4); break;
	case DW_EH_PE_sdata4: v = (uint64_t)(int32_t)take(b, 4); break;
	case DW_EH_PE_udata2: v = take(b, 2); break;
	case DW_EH_PE_sdata2: v = (uint64_t)(int16_t)take(b, 2); break;
	default: b->bad = true;
	}
	if ((encoding & 0xf0) == DW_EH_PE_pcrel)
		return v + here;
	if (encoding & 0xf0)
		b->bad = true;
	return v;
}

/* What an entry has behind its length; the terminator and the 64-bit form are bad. */
static struct bytes entry_at(const uint8_t *section, size_t bytes, size_t at)
{
	struct bytes b = {section + (at < bytes ? at : bytes), section + bytes, false};
	uint64_t length = take(&b, 4);
	if (!length || length >= 0xfffffff0u || length > (size_t)(b.end - b.at))
		b.bad = true;
	else
		b.end = b.at + length;
	return b;
}

/* How pointers are written in the entries of a CIE; false: it is none. */
static bool pointer_encoding(struct bytes b, uint8_t *encoding)
{
	if (take(&b, 4) != 0)
		return false;
	uint64_t version = take(&b, 1);
	const char *letters = (const char *)b.at;
	while (take(&b, 1))
		;
	if (version == 4)
		take(&b, 2);
	take_uleb(&b);
	take_uleb(&b);
	if (version == 1)
		take(&b, 1);
	else
		take_uleb(&b);
	*encoding = DW_EH_PE_absptr;
	if (b.bad || letters[0] != 'z')
		return !b.bad && !letters[0];
	take_uleb(&b);
	for (letters++; *letters && !b.bad; letters++)
		switch (*letters) {
		case 'R': *encoding = (uint8_t)take(&b, 1); return !b.bad;
		case 'P': {
			uint8_t personality = (uint8_t)take(&b, 1);
			take_pointer(&b, personality & 0x0f, 0);
			break;
		}
		case 'L': take(&b, 1); break;
		case 'S':
		case 'B': break;
		default: return !b.bad;
		}
	return !b.bad;
}

static int by_code(const void *a, const void *b)
{
	const struct wire_blob_unwind *x = a, *y = b;
	return x->code < y->code ? -1 : x->code > y->code;
}

bool eh_frame_index_add(struct eh_frame_index *x, const uint8_t *section, size_t bytes,
			uint64_t address, uint64_t low)
{
	for (size_t at = 0; at < bytes;) {
		struct bytes b = entry_at(section, bytes, at);
		uint8_t encoding;
		if (b.bad)
			break;
		const size_t next = (size_t)(b.end - section), id_at = (size_t)(b.at - section);
		const uint64_t id = take(&b, 4);
		if (!b.bad && id && id <= id_at &&
		    pointer_encoding(entry_at(section, bytes, id_at - id), &encoding)) {
			uint64_t code = take_pointer(&b, encoding,
						     address + (uint64_t)(b.at - section)) -
					low;
			uint64_t entry = address + at - low;
			if (!b.bad && code <= UINT32_MAX && entry <= UINT32_MAX &&
			    !vector_push(x, ((struct wire_blob_unwind){(uint32_t)code,
								       (uint32_t)entry})))
				return false;
		}
		at = next;
	}
	if (x->count)
		qsort(x->items, x->count, sizeof *x->items, by_code);
	return true;
}

void eh_frame_index_fini(struct eh_frame_index *x)
{
	vector_free(x);
}
