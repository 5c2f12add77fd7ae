/* Grows an array: at least to double its size, to at least 16 elements, never to more than its index can
 * count. */
#include "hosted/vector.h"

enum { FIRST_CAPACITY = 16 };

size_t array_grow(void *items_at, size_t capacity, size_t count, size_t more, size_t most,
		  size_t element_bytes)
{
	if (count > most || more > most - count)
		return 0;
	size_t bigger = capacity > most / 2 ? most : capacity * 2;
	if (bigger < FIRST_CAPACITY)
		bigger = FIRST_CAPACITY;
	if (bigger < count + more)
		bigger = count + more;
	void *items;
	memcpy(&items, items_at, sizeof items); /* a pointer of another type */
	items = reallocarray(items, bigger, element_bytes);
	if (!items)
		return 0;
	memcpy(items_at, &items, sizeof items);
	return bigger;
}
