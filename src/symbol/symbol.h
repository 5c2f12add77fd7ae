/* From (module, address) to function, file and line, inlined calls included.
 *
 * A session answers for one report: module by module, all addresses of a module at
 * once, first from the cache of earlier answers and then from the file, its debug
 * information and its symbol tables (symbol_module.h). Nothing of a module stays in
 * memory but its answers. Everything that comes from a file is hostile input.
 *
 * docs/symbols.md says what is looked for where, and when answers are kept. */
#ifndef HEFT_SYMBOL_SYMBOL_H
#define HEFT_SYMBOL_SYMBOL_H

#include "hosted/name_pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum symbol_state {
	SYMBOL_USABLE,
	SYMBOL_NOT_A_FILE, /* [heap], no path: there is nothing to open */
	SYMBOL_MISSING,    /* the file is gone or may not be read */
	SYMBOL_REPLACED,   /* its build id is not the recorded one */
	SYMBOL_NOT_ELF,
};

/* What debug information (DWARF) there is for a module */
enum symbol_debug {
	SYMBOL_DEBUG_NOT_ASKED,
	SYMBOL_DEBUG_NONE,
	SYMBOL_DEBUG_PARTIAL, /* a part of it is elsewhere (.dwo, .dwp, dwz) and not found */
	SYMBOL_DEBUG_WHOLE,
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
	/* The function by unwind tables, if it has no name; 0: not known */
	uint64_t function_start, function_bytes;
	bool bare; /* while looking up: the outermost name lacks scope and parameters */
};

/* Called now and then while a lookup goes on, with how much of it is done; outside this module
 * someone decides whether to show it. */
typedef void symbol_progress_fn(void *ctx, const char *path, size_t done, size_t total);

/* All zero: no cache, no network, the default folder */
struct symbol_options {
	/* Folders with debug files, separated by ':'; NULL: /usr/lib/debug. */
	const char *debug_roots;
	const char *cache_folder; /* NULL: no cache */
	const char *server_urls;  /* debuginfod's; NULL: never asked */
	unsigned server_seconds;  /* most that a session waits for servers in all */
	symbol_progress_fn *progress;
	void *progress_ctx;
};

struct symbol_module_id {
	const char *path;
	const uint8_t *build_id;
	size_t build_id_len; /* 0: the module had none */
};

struct symbol_outcome {
	enum symbol_state state;
	enum symbol_debug debug;
	const char
		*lacking; /* for SYMBOL_DEBUG_PARTIAL: "FILE is missing" or the like, in the pool */
};

struct symbol_session;
/* What the environment says: HEFT_DEBUG_ROOTS; XDG_CACHE_HOME or HOME for the cache (made in the
 * pool); DEBUGINFOD_URLS and HEFT_DEBUGINFOD_SECONDS. Returns 0 or HEFT_ENOMEM. */
int symbol_options_from_environment(struct symbol_options *options, struct name_pool *pool);
/* The strings in options must outlive the session. NULL: no memory. */
struct symbol_session *symbol_session_new(struct name_pool *pool,
					  const struct symbol_options *options);
void symbol_session_free(struct symbol_session *s);
/* Answers all queries, which must be sorted by address and in which no address is twice. With
 * names_only, what is not in the cache gets only a function's name from the symbol tables: opens no
 * debug information, which can take tens of milliseconds. Returns 0 or HEFT_ENOMEM. */
int symbol_session_lookup(struct symbol_session *s, const struct symbol_module_id *module,
			  bool names_only, struct symbol_query *queries, size_t count,
			  struct symbol_outcome *outcome);

/* Who opens files that we may not, or cannot see from here: returns a descriptor or -1. For all threads; set it before
 * the first look-up. NULL, as at the start: nobody. */
void symbol_files_from(int (*open_file)(const char *path));
/* The program sees other files under the same names: asks open_file first, which returns a descriptor or -1. For all
 * threads; set it before the first look-up. NULL: nobody. */
void symbol_files_elsewhere(int (*open_file)(const char *path));

/* A name as people write it: C++, Rust and D demangled, without return type and Rust's hash. Always
 * a string in the pool (the name itself if it is not mangled); NULL: no memory. */
const char *symbol_demangle(struct name_pool *pool, const char *name);

#endif
