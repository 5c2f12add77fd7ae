/* The exported symbols of a module, read from the memory of the process. */
#ifndef HEFT_ATTACH_TARGET_DYNSYM_H
#define HEFT_ATTACH_TARGET_DYNSYM_H

#include "attach/target_image.h"

/* A symbol of a module, from whichever table. */
struct image_symbol {
	const char *name;
	uint64_t value, bytes; /* as in the file */
	uint8_t type, bind;
	bool defined, exported;
	bool old_version; /* not the default version of its name */
};

/* Calls `see` with each, the undefined too. False: the module has no such table, or it is damaged. */
bool target_dynsym_each(const struct target_image *im, const struct target_memory *memory,
			void (*see)(void *context, const struct image_symbol *symbol),
			void *context);

enum target_defines { TARGET_DEFINES_NOT, TARGET_DEFINES, TARGET_DEFINES_UNKNOWN };
/* Whether it exports a symbol of that name. This takes a few reads where there is a hash table of GNU's kind; where
 * there is none, it is not known. */
enum target_defines target_dynsym_defines(const struct target_image *im,
					  const struct target_memory *memory, const char *name);

#endif
