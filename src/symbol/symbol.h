/* From (module, address) to function, file and line, inlined calls included.
 *
 * A module is opened, asked once for all its addresses, and closed: so each
 * file is opened once and no debug information stays in memory. Everything
 * that comes from the file is hostile input. */
#ifndef HEFT_SYMBOL_SYMBOL_H
#define HEFT_SYMBOL_SYMBOL_H

#include "symbol/name_pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum symbol_state {
	SYMBOL_USABLE,
	SYMBOL_NOT_A_FILE, /* [vdso], JIT code, no path: there is nothing to open */
	SYMBOL_MISSING,    /* the file is gone or may not be read */
	SYMBOL_REPLACED,   /* its build id is not the recorded one */
	SYMBOL_NOT_ELF,
};

struct symbol_frame {
	const char *function; /* demangled, in the pool; NULL: only the line is known */
	const char *file;     /* in the pool; NULL: not known */
	uint32_t line;        /* 0: not known */
	bool inlined;         /* into the next frame */
};

struct symbol_query {
	uint64_t address; /* as in the ELF file, inside the instruction that is meant */
	const struct symbol_frame *frames; /* innermost first, in the pool */
	uint32_t frame_count;              /* 0: nothing is known */
	bool bare; /* while looking up: the outermost name lacks scope and parameters */
};

struct symbol_module;
/* *out is NULL unless the state is SYMBOL_USABLE. build_id_len 0: the module had none. Returns 0
 * or HEFT_ENOMEM. */
int symbol_module_open(struct symbol_module **out, enum symbol_state *state, struct name_pool *pool,
		       const char *path, const uint8_t *build_id, size_t build_id_len);
/* Only function names, from the symbol tables: opens no debug information, which can take tens of
 * milliseconds. For lookups after this call. */
void symbol_module_set_names_only(struct symbol_module *m, bool names_only);
/* Answers all queries, which must be sorted by address. Returns 0 or HEFT_ENOMEM. */
int symbol_module_lookup(struct symbol_module *m, struct symbol_query *queries, size_t count);
void symbol_module_close(struct symbol_module *m);

/* A name as people write it: C++ and Rust demangled, without return type and Rust's hash. Always
 * a string in the pool (the name itself if it is not mangled); NULL: no memory. */
const char *symbol_demangle(struct name_pool *pool, const char *name);

#endif
