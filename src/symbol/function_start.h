/* Inside src/symbol (and its tests): where functions begin that no symbol names. */
#ifndef HEFT_SYMBOL_FUNCTION_START_H
#define HEFT_SYMBOL_FUNCTION_START_H

#include "symbol/symbol.h"

#include <libelf.h>

/* The bytes of .eh_frame, and the address that the file gives them */
struct unwind_bytes {
	const uint8_t *data;
	size_t size;
	uint64_t address;
};

/* Sets the start of every query whose outermost function has no name. Sorted by address. */
void function_starts_lookup(Elf *elf, struct symbol_query *queries, size_t count);
void function_starts_in(const struct unwind_bytes *u, struct symbol_query *queries, size_t count);

#endif
