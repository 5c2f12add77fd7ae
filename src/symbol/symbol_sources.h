/* Inside src/symbol: the sources of names that a module tries one after the other. */
#ifndef HEFT_SYMBOL_SYMBOL_SOURCES_H
#define HEFT_SYMBOL_SYMBOL_SOURCES_H

#include "hosted/hash_index.h"
#include "hosted/vector.h"
#include "symbol/symbol.h"
#include "symbol/symbol_evidence.h"

#include <elfutils/libdw.h>
#include <gelf.h>
#include <libelf.h>

/* Demangled names by the address of the mangled ones, which stay mapped while a module is open. */
struct name_cache_entry {
	const char *mangled, *name;
};
struct name_cache {
	struct name_pool *pool;
	VECTOR(struct name_cache_entry) names;
	struct hash_index index; /* of the names, by the mangled one's address */
};
void name_cache_init(struct name_cache *c, struct name_pool *pool);
void name_cache_fini(struct name_cache *c);
const char *name_cache_get(struct name_cache *c, const char *mangled); /* NULL: no memory */

/* For every query without a function: looks in the symbol tables of one ELF file. names[i]
 * receives the raw name for queries[i], or stays NULL. */
void symbol_table_lookup(Elf *elf, uint32_t section_type, const struct symbol_query *queries,
			 const char **names, size_t count);

/* Says that sections of this file were not unpacked; the caller frees it. NULL: no memory. */
char *symbol_refused_words(const char *path, uint64_t refused_bytes);

struct dwarf_source;
struct dwarf_source_from {
	Dwarf *dw;
	const char *dw_path, *module_path; /* the file that dw was read from; the module's own */
	const struct symbol_options *options;
	struct name_cache *names;
	struct symbol_evidence *evidence;
};
struct dwarf_source *dwarf_source_new(const struct dwarf_source_from *from);
void dwarf_source_free(struct dwarf_source *s);
/* Fills the queries' frames as far as the debug information goes. Queries are sorted by address.
 * Returns 0 or HEFT_ENOMEM. */
int dwarf_source_lookup(struct dwarf_source *s, struct symbol_query *queries, size_t count);
/* As symbol_outcome's */
const char *dwarf_source_lacking(const struct dwarf_source *s);

#endif
