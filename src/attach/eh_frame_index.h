/* An index of .eh_frame, for modules without .eh_frame_hdr: static programs mostly have none. */
#ifndef HEFT_ATTACH_EH_FRAME_INDEX_H
#define HEFT_ATTACH_EH_FRAME_INDEX_H

#include "hosted/vector.h"
#include "wire/blob.h"

#include <stdbool.h>
#include <stddef.h>

struct eh_frame_index {
	VECTOR_MEMBERS(struct wire_blob_unwind);
};

/* Adds the entries of a section that will be at `address`, as in the file; low: what `code` and `entry` count from.
 * What cannot be read is left out, and so is what follows it. In order of code afterwards. False: no memory. */
bool eh_frame_index_add(struct eh_frame_index *x, const uint8_t *section, size_t bytes,
			uint64_t address, uint64_t low);
void eh_frame_index_fini(struct eh_frame_index *x);

#endif
