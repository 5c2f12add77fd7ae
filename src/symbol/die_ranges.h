/* Inside src/symbol: which of many DWARF entries (units, functions) covers an address. */
#ifndef HEFT_SYMBOL_DIE_RANGES_H
#define HEFT_SYMBOL_DIE_RANGES_H

#include "hosted/vector.h"

#include <elfutils/libdw.h>

struct die_range {
	uint64_t low, high; /* [low, high) */
	Dwarf_Off die;
};

/* All zero: empty; vector_free frees it */
struct die_ranges {
	VECTOR_MEMBERS(struct die_range);
	size_t looked_at; /* ranges, with those that are empty */
};

/* Adds the ranges of one entry, as long as there are not absurdly many. 0 or HEFT_ENOMEM. */
int die_ranges_add(struct die_ranges *list, Dwarf_Die *die);
/* Must be called before the first search, and after anything was added. */
void die_ranges_sort(struct die_ranges *list);
/* Replaces the list by the functions of a unit, sorted; with `deep` the list also has those inside functions:
 * lambdas and members of local classes. 0 or HEFT_ENOMEM. */
int die_ranges_of_functions(struct die_ranges *list, Dwarf_Die *unit, bool deep);
/* The narrowest of the ranges that begin nearest before the address; NULL: none covers it. */
const struct die_range *die_ranges_find(const struct die_ranges *list, uint64_t address);

#endif
