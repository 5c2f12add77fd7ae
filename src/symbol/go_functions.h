/* Inside src/symbol (and its tests): names and lines of a Go program's functions. */
#ifndef HEFT_SYMBOL_GO_FUNCTIONS_H
#define HEFT_SYMBOL_GO_FUNCTIONS_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes from pcHeader on; more may follow. text: the address in the file that functions are counted from. */
struct go_functions {
	const uint8_t *data; /* NULL: the file is not Go's */
	size_t size;
	uint64_t text;
	uint64_t count, names, units, files, values, functions; /* offsets, but for the count */
	bool has_start_lines;
};

/* The strings are in the bytes. file is NULL if it is not known, or if the code was inlined: the line would be that of
 * another function, which these tables name in a way that needs more than the file. */
struct go_place {
	const char *function, *file;
	uint32_t line;
};

/* All zero if these bytes are not the tables. */
struct go_functions go_functions_in(const uint8_t *data, size_t size, uint64_t text);
/* Finds the tables in a file, with or without symbols. */
struct go_functions go_functions_open(Elf *elf);
bool go_functions_find(const struct go_functions *g, uint64_t address, struct go_place *place);

#endif
