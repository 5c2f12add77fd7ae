/* Inside src/symbol: split debug information, one file a unit (.dwo) or collected into one (.dwp). */
#ifndef HEFT_SYMBOL_SPLIT_PACKAGE_H
#define HEFT_SYMBOL_SPLIT_PACKAGE_H

#include "hosted/vector.h"
#include "symbol/symbol_evidence.h"

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

/* Units that were taken out of their files. All zero: none. */
struct opened_unit {
	Elf *elf;
	Dwarf *dw;
	void *image;
	size_t bytes; /* of the image */
};
struct split_units {
	VECTOR_MEMBERS(struct opened_unit);
	uint64_t bytes; /* of all images */
};
void split_units_fini(struct split_units *units);

struct split_package;
/* The package of a file: FILE.dwp. NULL: there is none that can be used. */
struct split_package *split_package_open(const char *file, struct symbol_evidence *evidence);
void split_package_close(struct split_package *p);
/* The unit that a skeleton unit stands for, from a package. Returns whether it is there; *unit then
 * lives as long as `units`. */
bool split_package_unit(const struct split_package *p, struct split_units *units,
			Dwarf_Die *skeleton, uint64_t id, Dwarf_Die *unit);
/* The same from a .dwo file. *refused_bytes: as in struct elf_file. */
bool split_file_unit(const char *path, struct split_units *units, Dwarf_Die *skeleton, uint64_t id,
		     Dwarf_Die *unit, uint64_t *refused_bytes);

#endif
