/* The allocation function that was called: the last node of every stack. A
 * recording has the same numbers (trace/trace.h). */
#ifndef HEFT_WIRE_VIA_H
#define HEFT_WIRE_VIA_H

#include "base/own_functions.h"

enum wire_via {
	WIRE_VIA_MALLOC,
	WIRE_VIA_CALLOC,
	WIRE_VIA_REALLOC,
	WIRE_VIA_POSIX_MEMALIGN,
	WIRE_VIA_ALIGNED_ALLOC,
	WIRE_VIA_MEMALIGN,
	WIRE_VIA_VALLOC,
	WIRE_VIA_PVALLOC,
	WIRE_VIA_REALLOCARRAY,
	WIRE_VIA_NEW,
	WIRE_VIA_NEW_ARRAY,
	WIRE_VIA_FREE, /* a free that took a call stack: no block has this one */
	WIRE_VIA_OWN,  /* from here on: HEFT_OWN_ALLOCATING, in that order */
	WIRE_VIA_COUNT = WIRE_VIA_OWN + HEFT_OWN_VIA_COUNT
};

#endif
