/* Inside src/symbol: split debug information that was collected into one file (.dwp). */
#ifndef HEFT_SYMBOL_SPLIT_PACKAGE_H
#define HEFT_SYMBOL_SPLIT_PACKAGE_H

#include "symbol/symbol_evidence.h"

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

struct split_package;
/* The package of a file: FILE.dwp. NULL: there is none that can be used. */
struct split_package *split_package_open(const char *file, struct symbol_evidence *evidence);
/* Whether FILE.dwp is there at all, for good or for bad. */
bool split_package_exists(const char *file);
/* The unit that a skeleton unit stands for. Returns whether it is there; *unit then belongs to the
 * package. */
bool split_package_unit(struct split_package *p, Dwarf_Die *skeleton, uint64_t id, Dwarf_Die *unit);
void split_package_close(struct split_package *p);

#endif
