/* Sorted address ranges of DWARF entries, and the walk over a unit that finds its functions.
 *
 * Invariants: the walk's depth is bounded, for the input may be damaged; an entry without addresses
 * (a declaration, a function that the linker dropped) has no range. */
#include "symbol/die_ranges.h"

#include "hosted/error.h"
#include "hosted/sorted.h"

#include <dwarf.h>

/* Entries may share one list of a million ranges. A browser has two million functions. */
enum { DEEPEST_NAMESPACE = 32, MOST_RANGES = 1 << 23 };

static bool add_range(struct die_ranges *list, uint64_t low, uint64_t high, Dwarf_Off die)
{
	return low >= high || vector_push(list, (struct die_range){low, high, die});
}

int die_ranges_add(struct die_ranges *list, Dwarf_Die *die)
{
	Dwarf_Addr base, low, high;
	ptrdiff_t at = 0;
	/* Most functions in C++ are declarations; to see that takes no reading of values. */
	if (!dwarf_hasattr(die, DW_AT_low_pc) && !dwarf_hasattr(die, DW_AT_ranges))
		return 0;
	/* Low pc 0 is a function that the linker dropped. */
	while (list->looked_at++ < MOST_RANGES &&
	       (at = dwarf_ranges(die, at, &base, &low, &high)) > 0)
		if (low != 0 && !add_range(list, low, high, dwarf_dieoffset(die)))
			return HEFT_ENOMEM;
	return 0;
}

static int by_low(const void *a, const void *b)
{
	const struct die_range *x = a, *y = b;
	if (x->low != y->low)
		return x->low < y->low ? -1 : 1;
	return x->high > y->high ? -1 : x->high < y->high; /* the wider first */
}

void die_ranges_sort(struct die_ranges *list)
{
	if (list->count)
		qsort(list->items, list->count, sizeof *list->items, by_low);
}

const struct die_range *die_ranges_find(const struct die_ranges *list, uint64_t address)
{
	size_t at = count_before(i, list->count, list->items[i].low <= address);
	/* Ranges hardly ever overlap; a few steps back find the outer one where they do. */
	for (size_t steps = 0; at > 0 && steps < 8; steps++)
		if (address < list->items[--at].high)
			return &list->items[at];
	return NULL;
}

static int collect_functions(struct die_ranges *list, Dwarf_Die *parent, int depth, bool deep)
{
	Dwarf_Die die;
	if (depth > DEEPEST_NAMESPACE || dwarf_child(parent, &die) != 0)
		return 0;
	do {
		int rc = 0;
		switch (dwarf_tag(&die)) {
		case DW_TAG_subprogram:
			rc = die_ranges_add(list, &die);
			if (rc == 0 && deep)
				rc = collect_functions(list, &die, depth + 1, deep);
			break;
		case DW_TAG_namespace:
		case DW_TAG_module: rc = collect_functions(list, &die, depth + 1, deep); break;
		case DW_TAG_structure_type:
		case DW_TAG_class_type:
		case DW_TAG_union_type:
		case DW_TAG_lexical_block:
		case DW_TAG_inlined_subroutine:
			if (deep)
				rc = collect_functions(list, &die, depth + 1, deep);
			break;
		default: break;
		}
		if (rc < 0)
			return rc;
	} while (dwarf_siblingof(&die, &die) == 0);
	return 0;
}

int die_ranges_of_functions(struct die_ranges *list, Dwarf_Die *unit, bool deep)
{
	list->count = list->looked_at = 0;
	if (collect_functions(list, unit, 0, deep) < 0)
		return HEFT_ENOMEM;
	die_ranges_sort(list);
	return 0;
}
