/* The list of a process's modules that the blob gets where it cannot ask a loader (struct wire_blob_module). */
#ifndef HEFT_ATTACH_TARGET_TABLES_H
#define HEFT_ATTACH_TARGET_TABLES_H

#include "attach/target_modules.h"
#include "wire/blob.h"

struct target_tables {
	uint8_t *bytes; /* as they will lie in the program; owned */
	size_t size;
	uint32_t modules;
};

int target_tables_make(struct target_tables *t, const struct target_modules *m,
		       struct heft_error *err);
void target_tables_fini(struct target_tables *t);

#endif
