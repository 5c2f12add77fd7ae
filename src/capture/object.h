/* The loaded object that holds an address, without the loader's lock. */
#ifndef HEFT_CAPTURE_OBJECT_H
#define HEFT_CAPTURE_OBJECT_H

#include "capture/inside.h"
#include "capture/segments.h"
#include "wire/blob.h"

struct link_map;

struct heft_object {
	const struct link_map *map;
	uintptr_t start, end;          /* the piece that the loader has around the address */
	uintptr_t eh_frame_hdr;        /* 0: it has none */
	struct heft_segments segments; /* bias is always known */
	const struct wire_blob_unwind *unwind; /* in place of eh_frame_hdr; from start on */
	uint64_t unwind_count;
};

#ifdef HEFT_BLOB
/* 1: the address is in the blob, which the loader does not know, or in a module that the outside has listed. 0: it is
 * in neither. */
HIDDEN int heft_own_object(uintptr_t address, struct heft_object *o);
#else
static inline int heft_own_object(uintptr_t address, struct heft_object *o)
{
	(void)address, (void)o;
	return 0;
}
#endif
/* 0, or -1: the address belongs to no object (JIT code, say). The blob itself has no map. */
HIDDEN int heft_object_at(uintptr_t address, struct heft_object *o);
/* Whether the bytes from `at` on are readable memory of the object. */
HIDDEN int heft_object_holds(const struct heft_object *o, uintptr_t at, uint64_t bytes);
/* Its build id (at most 64 bytes), or NULL. */
HIDDEN const uint8_t *heft_object_build_id(const struct heft_object *o, uint32_t *bytes);

#endif
