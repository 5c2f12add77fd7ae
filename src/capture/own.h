/* Hooks of functions that are not malloc's: those of other allocators (base/own_functions.h). Only the blob has them.
 *
 * There is one hook for each kind of call, not for each function. The near page puts the address of the function's
 * struct wire_blob_entry into the register of the sixth argument, and no such function has six. All five arguments
 * are passed on, whatever they are. */
#ifndef HEFT_CAPTURE_OWN_H
#define HEFT_CAPTURE_OWN_H

#include "capture/inside.h"
#include "wire/via.h"

#ifdef HEFT_BLOB

#define OWN_PARAMETERS                                                                             \
	uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,                                \
		const struct wire_blob_entry *entry
#define OWN_ARGUMENTS a, b, c, d, e, entry
typedef uint64_t heft_own_function_type(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

/* The functions as they were. What returns int or nothing leaves the rest of the register as it likes. */
#define OWN_NEXT() ((heft_own_function_type *)(uintptr_t)entry->next)(a, b, c, d, e)
#define OWN_TWIN() ((heft_own_function_type *)(uintptr_t)entry->twin)(a, b, c, d, e)

/* Argument `number` from 1; 0 gives 1, which is the count of what has none. */
#define OWN_ARGUMENT(number) (((const uint64_t[8]){1, a, b, c, d, e})[(number) & 7])
#define OWN_SIZE() (OWN_ARGUMENT(entry->size) * OWN_ARGUMENT(entry->count))
#define OWN_OLD() ((void *)(uintptr_t)OWN_ARGUMENT(entry->old))

#define OWN_HOOKS(ENTRY, name)                                                                     \
	HIDDEN uint64_t heft_blob_##name(OWN_PARAMETERS);                                          \
	HIDDEN uint64_t heft_exact_##name(OWN_PARAMETERS);                                         \
	HIDDEN uint64_t heft_sampled_##name(OWN_PARAMETERS);
WIRE_BLOB_OWN(OWN_HOOKS)
#undef OWN_HOOKS

#endif

#endif
