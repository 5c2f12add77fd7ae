/* The dynamic section of a loaded object: its symbols, and the slots through which it calls. */
#ifndef HEFT_CAPTURE_LINKAGE_H
#define HEFT_CAPTURE_LINKAGE_H

#include "capture/object.h"

struct heft_relocations {
	const Elf64_Rela *list;
	uint64_t count;
};

struct heft_linkage {
	const Elf64_Sym *symbols;
	const char *strings;
	const uint16_t *versions; /* NULL: none */
	const uint32_t *gnu_hash; /* NULL: it has the other one, or neither */
	const uint32_t *sysv_hash;
	struct heft_relocations plain, calls; /* DT_RELA without the relative ones, DT_JMPREL */
};

/* 0, or -1: it has no symbols. */
HIDDEN int heft_linkage_of(const struct heft_object *o, struct heft_linkage *l);
/* The symbol of this name that the object defines for others (the default version), or NULL. An
 * undefined one does not count, even with a value: in a program that is not position independent and takes
 * the function's address, the value is the entry of the program's own PLT. */
HIDDEN const Elf64_Sym *heft_linkage_definition(const struct heft_linkage *l, const char *name);
/* The address of that symbol in memory; 0: the object does not define it. */
HIDDEN uintptr_t heft_defined_at(const struct heft_object *o, const char *name);

#endif
