/* Growing arrays, for all hosted code.
 *
 * VECTOR(type) is a vector: items, count, capacity. A struct with VECTOR_MEMBERS(type) is a vector with a
 * name, which functions can take. If a struct has its array as a pointer and a count (`p->sites`,
 * `p->site_count`), array_reserve grows that pointer. The capacity doubles, so n additions take time
 * proportional to n. If memory runs out, the array stays as it was, and the call returns false or NULL. */
#ifndef HEFT_HOSTED_VECTOR_H
#define HEFT_HOSTED_VECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Moves the array whose pointer is at `items_at` to one of at least count + more elements, and of at
 * most `most`. Returns its capacity; 0: no memory, or more than `most`. */
size_t array_grow(void *items_at, size_t capacity, size_t count, size_t more, size_t most,
		  size_t element_bytes);

/* Makes `items` large enough for `more` elements beyond `count`; false: no memory. The arguments have no
 * side effects. items and capacity are variables; capacity may have any unsigned type. */
#define array_reserve(items, count, capacity, more)                                                \
	((items) && (size_t)(more) <= (size_t)(capacity) - (size_t)(count) ? true : ({             \
		size_t most_ = sizeof(capacity) < 8 ? UINT32_MAX : SIZE_MAX;                       \
		size_t grown_ = array_grow(&(items), (capacity), (count), (more), most_,           \
					   sizeof *(items));                                       \
		if (grown_)                                                                        \
			(capacity) = (__typeof__(capacity))grown_;                                 \
		grown_ != 0;                                                                       \
	}))

#define VECTOR_MEMBERS(type)                                                                       \
	type *items;                                                                               \
	size_t count, capacity
#define VECTOR(type)                                                                               \
	struct {                                                                                   \
		VECTOR_MEMBERS(type);                                                              \
	}

#define vector_reserve(v, more) array_reserve((v)->items, (v)->count, (v)->capacity, (more))
/* The new last element, zeroed; NULL: no memory. */
#define vector_add(v)                                                                              \
	(vector_reserve(v, 1) ? (__typeof__((v)->items))memset(&(v)->items[(v)->count++], 0,       \
							       sizeof *(v)->items)                 \
			      : NULL)
/* Appends a value; false: no memory. */
#define vector_push(v, ...)                                                                        \
	((bool)(vector_reserve(v, 1) ? ((v)->items[(v)->count++] = (__VA_ARGS__), true) : false))
#define vector_free(v) (free((v)->items), (v)->items = NULL, (v)->count = (v)->capacity = 0)

#endif
