/* What a running process has mapped: /proc/PID/maps, line by line. */
#ifndef HEFT_ATTACH_TARGET_MAPS_H
#define HEFT_ATTACH_TARGET_MAPS_H

#include "hosted/vector.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct heft_error;

struct target_mapping {
	uint64_t start, end, offset;
	uint64_t inode; /* 0: not of a file */
	uint32_t device_major, device_minor;
	bool read, write, execute;
	bool shared;  /* writes go to the file */
	bool deleted; /* its file has no name any more */
	/* As the kernel writes it: of a file, or "[heap]", "[vdso]" and the like; "": anonymous. Without the
	 * " (deleted)". Owned by the list. */
	char *name;
};

/* In order of address, and they do not overlap. */
struct target_maps {
	VECTOR_MEMBERS(struct target_mapping);
};

int target_maps_read(struct target_maps *m, pid_t pid, struct heft_error *err);
/* Reads the text of such a file, which a NUL ends and which is changed. */
int target_maps_parse(struct target_maps *m, char *text, struct heft_error *err);
void target_maps_fini(struct target_maps *m);
/* The mapping that has the address; NULL: none has. */
const struct target_mapping *target_maps_find(const struct target_maps *m, uint64_t address);

#endif
