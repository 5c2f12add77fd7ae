/* Which malloc a running program uses, and what else the blob must know of it. */
#ifndef HEFT_ATTACH_TARGET_ALLOCATOR_H
#define HEFT_ATTACH_TARGET_ALLOCATOR_H

#include "attach/target_modules.h"
#include "wire/blob.h"

/* The functions of the module that the program's calls lead to, by enum wire_blob_entry. One that it lacks has the
 * address 0; of two names for one function, the second has. */
struct target_allocator {
	size_t module;
	struct target_function functions[WIRE_BLOB_ENTRY_COUNT];
};

extern const char *const target_entry_names[WIRE_BLOB_ENTRY_COUNT];

int target_allocator_find(struct target_allocator *a, const struct target_modules *m,
			  struct heft_error *err);
/* Fills in what the blob must know of the program around it, but for its threads. */
int target_describe(struct wire_blob *shared, const struct target_modules *m,
		    const struct target_allocator *a, struct heft_error *err);

#endif
