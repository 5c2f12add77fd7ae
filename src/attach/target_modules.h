/* The modules of a running process: where they stand, which functions they have, and where something can be mapped
 * near them. The process may run meanwhile; it is only read. */
#ifndef HEFT_ATTACH_TARGET_MODULES_H
#define HEFT_ATTACH_TARGET_MODULES_H

#include "attach/target_image.h"
#include "attach/target_maps.h"

struct target_module {
	const char *path;   /* as in maps: a name for people; owned by the maps */
	uint64_t low, high; /* from the first segment to the end of the last, run-time addresses */
	bool program;       /* the executable */
	bool deleted;       /* its file has no name any more */
	size_t mapping;     /* that of its header, in maps */
	struct target_image image;
};

struct target_modules {
	VECTOR_MEMBERS(struct target_module);
	struct target_maps maps;
	pid_t pid;
	int memory_fd;
};

/* A list that could not be read needs no fini. */
int target_modules_read(struct target_modules *m, pid_t pid, struct heft_error *err);
void target_modules_fini(struct target_modules *m);
/* The program's memory, by /proc/PID/mem. False: not all of it is there. */
bool target_modules_memory(const struct target_modules *m, uint64_t at, void *to, size_t bytes);
/* The module that has a run-time address in its span; -1: none has. */
ssize_t target_module_at(const struct target_modules *m, uint64_t address);

struct elf_file;
/* Opens the file of a module, if the one that is mapped can still be had. */
bool target_module_file(const struct target_modules *m, const struct target_module *module,
			struct elf_file *file);

struct target_function {
	uint64_t address; /* at run time; 0: not found, or refused */
	uint64_t bytes;   /* 0: not known */
	/* Bytes up to the next function, or to the end of the code; never less than `bytes`. */
	uint64_t room;
	bool exported; /* other modules can call it; else only the symbols of the file have it */
	const char *refused; /* why it cannot be used, in words; NULL */
};

/* Looks many functions up in one pass over the module's symbols: in the file, if it is the one that is mapped, else
 * in memory, where only exported ones are. Fails only if there are no symbols to look at; a function that the
 * module does not have has address 0. If it has several versions of one, the default is taken. */
int target_functions(const struct target_modules *m, size_t module, const char *const *names,
		     struct target_function *functions, size_t count, struct heft_error *err);
/* What stands before `name` in the first function of the module whose name ends so. False: it has none with a prefix. */
bool target_prefix(const struct target_modules *m, size_t module, const char *name, char *prefix,
		   size_t size);
/* Whether the functions that a module does not export can be found by name: its file is there and not stripped, or a
 * debug file is. */
/* False: it exports no symbol of that name. Much faster than to look for its address. */
bool target_may_export(const struct target_modules *m, size_t module, const char *name);
/* Its file has only the symbols that it exports; a debug file may have the others. */
bool target_is_stripped(const struct target_modules *m, size_t module);
bool target_has_symbols(const struct target_modules *m, size_t module);
/* The same of one. HEFT_ENOTFOUND: the module has none; HEFT_EREFUSED: it is an IFUNC, or there are several. */
int target_symbol(const struct target_modules *m, size_t module, const char *name,
		  uint64_t *address, uint64_t *bytes, struct heft_error *err);

/* A free place of `bytes` from where a jump reaches all of [low, high), and the other way; for MAP_FIXED_NOREPLACE.
 * 0: there is none. Never inside the span of a module, nor where the heap or a stack grows. */
uint64_t target_place_near(const struct target_modules *m, uint64_t low, uint64_t high,
			   size_t bytes);

#endif
