/* One comparison for all lists that show the greatest first (ranking.h). */
#include "hosted/ranking.h"

#include "hosted/compare.h"

#include <stdlib.h>

static int greatest_first(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;
	return compare_numbers(y->value, x->value) ?: compare_numbers(x->index, y->index);
}

void rank_greatest_first(struct ranked *list, size_t count)
{
	if (count)
		qsort(list, count, sizeof *list, greatest_first);
}

uint32_t *rank_take_order(struct ranked *list, size_t count)
{
	uint32_t *order = list ? malloc((count + 1) * sizeof *order) : NULL;
	if (order)
		rank_greatest_first(list, count);
	for (size_t i = 0; order && i < count; i++)
		order[i] = list[i].index;
	free(list);
	return order;
}
