/* Which allocators a running program uses, which functions they have, and what else the blob must know of them. It only
 * reads: heft doctor can ask the same. */
#ifndef HEFT_ATTACH_TARGET_ALLOCATOR_H
#define HEFT_ATTACH_TARGET_ALLOCATOR_H

#include "attach/target_modules.h"
#include "wire/blob.h"

enum { TARGET_NAME = 64, TARGET_REASON = 160 };

/* A function that gives or takes blocks. */
struct target_entry {
	struct target_function function;
	size_t module;
	char name[TARGET_NAME];
	uint64_t twin; /* where the same function without exceptions is; 0: it needs none */
	struct wire_blob_entry wire; /* all but `next` and `twin` */
	char refused[TARGET_REASON]; /* why its calls cannot be seen; "": they can */
};

struct target_own {
	size_t module;
	const char *name; /* "jemalloc"; of malloc's: "malloc" */
	uint64_t low, high, usable;
	unsigned functions;
};

struct target_allocator {
	size_t module; /* the one whose malloc all modules call */
	/* The functions of that one come first, as the blob's hooks are numbered; one that it lacks is not in the
	 * list. Of two names for one function, the second is not. */
	struct target_entry entries[WIRE_BLOB_ENTRIES];
	size_t count;
	struct target_own own[WIRE_BLOB_ALLOCATORS]; /* [0]: that one */
	size_t own_count;
};

/* A function that somebody has named as one of an allocator (--alloc-fn). */
struct target_named {
	const char *name;
	uint8_t hook, size, count, old; /* as in struct wire_blob_entry */
	uint16_t via;
};

struct attach_function;
void attach_function_meaning(const struct attach_function *f, struct target_named *out);

int target_allocator_find(struct target_allocator *a, const struct target_modules *m,
			  struct heft_error *err);
/* Adds the functions that execute programs. */
void target_add_execs(struct target_allocator *a, const struct target_modules *m);
/* Whether a hook is of a function that is libc's, whoever has malloc. */
bool target_is_of_libc(uint32_t hook);
/* Adds what the modules have beside malloc, and the named functions. */
int target_own_find(struct target_allocator *a, const struct target_modules *m,
		    const struct target_named *named, size_t named_count, struct heft_error *err);
/* One more function, unless it is there or there is no space. */
void target_allocator_add(struct target_allocator *a, const struct target_entry *e);

/* Fills in what the blob must know of the program around it, but for its threads. */
void target_describe(struct wire_blob *shared, const struct target_modules *m,
		     const struct target_allocator *a);
/* The module's file is called so: "libc." for all versions of it. */
bool target_is_called(const struct target_module *module, const char *start);

#endif
