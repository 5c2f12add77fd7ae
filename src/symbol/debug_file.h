/* Inside src/symbol: finding the files that hold what a module was stripped of. */
#ifndef HEFT_SYMBOL_DEBUG_FILE_H
#define HEFT_SYMBOL_DEBUG_FILE_H

#include "symbol/elf_file.h"
#include "symbol/elf_section.h"
#include "symbol/symbol_module.h"

#include <elfutils/libdw.h>
#include <limits.h>

struct debug_file {
	struct elf_file file;
	char path[PATH_MAX];
};

struct debug_file_search {
	struct symbol_search *session;
	struct symbol_evidence *evidence; /* every place looked at goes here */
	const char *module_path;
	const uint8_t *build_id;
	size_t build_id_len;
};

bool debug_file_build_id_is(Elf *elf, const uint8_t *id, size_t length);
/* The separate debug file of a module: by build id, then (if the module's own file is at hand: not
 * NULL) by its .gnu_debuglink, then from a server if one may be asked. */
bool debug_file_find(const struct debug_file_search *s, Elf *stripped, struct debug_file *out);
/* The file that dwz moved common parts of this debug information to, by the bytes of
 * .gnu_debugaltlink: a name and a build id. dw_path is the file that has this section. */
bool debug_file_find_alternate(const struct debug_file_search *s, struct elf_bytes link,
			       const char *dw_path, struct debug_file *out);

/* Asks the debuginfod servers of the session for a file with debug information, and waits no
 * longer than the session has left. 1: path is a file of ours now; 0: they do not have it, or may
 * not be asked; -1: no answer in time, or no client library. */
int debug_server_fetch(struct symbol_search *session, const uint8_t *id, size_t length, char *path,
		       size_t size);

/* The ELF file inside .gnu_debugdata (a symbol table of the functions that were stripped, packed
 * with xz); NULL: none. *memory is to be freed after elf_end. */
Elf *mini_debug_open(Elf *elf, void **memory);

#endif
