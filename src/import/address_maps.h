/* Where a process had its modules: leads from a run-time address to a module of the profile and an address
 * as in its file. Ranges come from /proc/PID/maps text, from pprof or from heaptrack. */
#ifndef HEFT_IMPORT_ADDRESS_MAPS_H
#define HEFT_IMPORT_ADDRESS_MAPS_H

#include "hosted/hash_index.h"
#include "hosted/vector.h"
#include "profile/address_stacks.h"
#include "symbol/elf_layout.h"

struct address_range {
	uint64_t start, end; /* end is one beyond */
	uint64_t offset;     /* of the file's bytes at `start` */
	uint64_t slide;      /* run-time address minus the file's, once `ready` or if `biased` */
	const char *path;    /* in the profile's names */
	const uint8_t *build_id; /* as the input gives it, or NULL */
	uint32_t build_id_len;
	uint32_t module;
	bool biased; /* the input gave the slide */
	bool ready;  /* module and slide are known */
};

struct module_layout {
	struct elf_layout layout;
	bool readable; /* else layout is empty */
};

struct address_maps {
	VECTOR(struct address_range) ranges;
	size_t last; /* the range that was found last */
	bool sorted;
	uint64_t added,
		in_order;    /* ranges that were ever added, and put in order, again included */
	const char *program; /* the first file of maps text, which is the program's */
	VECTOR(struct module_layout) layouts; /* by module of the profile */
};

void address_maps_fini(struct address_maps *m);
void address_maps_clear(struct address_maps *m); /* for ranges of a later moment; modules stay */
/* 0, HEFT_ENOMEM, or HEFT_EFORMAT if there are too many. */
int address_maps_add(struct address_maps *m, const struct address_range *range);
/* Adds a line of /proc/PID/maps, which a NUL ends; skips what is not code of a file or cannot be read. */
int address_maps_add_line(struct address_maps *m, struct profile *p, const char *line,
			  size_t length);
/* An address in no range keeps its value and has no module. 0, HEFT_ENOMEM, or HEFT_EFORMAT if ranges are
 * added one by one, between searches, so that they are put in order again and again. */
int address_maps_find(struct address_maps *m, struct profile *p, uint64_t pc, uint32_t *module,
		      uint64_t *address);
/* The same for an address that is known to be in this range. */
int address_range_find(struct address_maps *m, struct profile *p, struct address_range *range,
		       uint64_t pc, uint32_t *module, uint64_t *address);

/* Stacks of run-time addresses as they are read; addresses are resolved at the end, because the
 * mappings often stand there. */
struct address_tree {
	VECTOR(struct address_node) nodes; /* `address` is the run-time address, inside the call */
	struct hash_index index;           /* by parent and address */
};

void address_tree_fini(struct address_tree *t);
/* Finds or makes the node. 0, HEFT_ENOMEM, or HEFT_EFORMAT if there are too many. */
int address_tree_add(struct address_tree *t, uint32_t parent, uint64_t pc, uint32_t *id);
/* (*nodes)[i] becomes the profile's node of tree node i, (*calls)[i] its call; free() them. */
int address_tree_load(struct address_tree *t, struct address_maps *m, struct profile *p,
		      const struct profile_selection *sel, uint32_t **nodes, uint32_t **calls);

#endif
