/* Inside src/symbol: the sources of names that a module tries one after the other. */
#ifndef HEFT_SYMBOL_SYMBOL_SOURCES_H
#define HEFT_SYMBOL_SYMBOL_SOURCES_H

#include "symbol/symbol.h"

#include <elfutils/libdw.h>
#include <gelf.h>
#include <libelf.h>

/* Demangled names by the address of the mangled ones, which stay mapped while a module is open. */
struct name_cache {
	struct name_pool *pool;
	struct name_cache_entry {
		const char *mangled, *name;
	} * table;
	size_t mask, used;
};
void name_cache_init(struct name_cache *c, struct name_pool *pool);
void name_cache_fini(struct name_cache *c);
const char *name_cache_get(struct name_cache *c, const char *mangled); /* NULL: no memory */

/* Opens a regular file for reading, never a device or a pipe. -1: cannot. */
int debug_file_open_regular(const char *path);
/* The separate debug file of a stripped module, by build id, then by .gnu_debuglink; never over the
 * network. Returns an Elf (and its descriptor) or NULL. */
Elf *debug_file_find(Elf *stripped, const char *path, int *fd);
bool debug_file_build_id_is(Elf *elf, const uint8_t *id, size_t length);

/* For every query without a function: looks in the symbol tables of one ELF file. names[i]
 * receives the raw name for queries[i], or stays NULL. */
void symbol_table_lookup(Elf *elf, uint32_t section_type, const struct symbol_query *queries,
			 const char **names, size_t count);

struct dwarf_source;
struct dwarf_source *dwarf_source_new(Dwarf *dw, struct name_cache *names);
void dwarf_source_free(struct dwarf_source *s);
/* Fills the query's frames as far as the debug information goes. Returns 0 or HEFT_ENOMEM. */
int dwarf_source_lookup(struct dwarf_source *s, struct symbol_query *query);

#endif
