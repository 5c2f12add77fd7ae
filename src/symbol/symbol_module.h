/* Inside src/symbol (and its tests): one module's file, debug information and symbol tables. */
#ifndef HEFT_SYMBOL_SYMBOL_MODULE_H
#define HEFT_SYMBOL_SYMBOL_MODULE_H

#include "symbol/symbol.h"
#include "symbol/symbol_evidence.h"

/* What all modules of a session share */
struct symbol_search {
	const struct symbol_options *options;
	uint64_t server_left_ms; /* what may still be waited for servers */
};
void symbol_search_init(struct symbol_search *search, const struct symbol_options *options);

struct symbol_module;
/* *out is NULL unless the state is SYMBOL_USABLE. A file that is gone or was replaced is usable
 * if a separate debug file has its build id. Returns 0 or HEFT_ENOMEM. */
int symbol_module_open(struct symbol_module **out, enum symbol_state *state, struct name_pool *pool,
		       struct symbol_search *search, const struct symbol_module_id *id);
void symbol_module_set_names_only(struct symbol_module *m, bool names_only);
/* Answers all queries, which must be sorted by address. Returns 0 or HEFT_ENOMEM. */
int symbol_module_lookup(struct symbol_module *m, struct symbol_query *queries, size_t count);
/* After a lookup: the debug information that there was, and what the answers depend on. */
enum symbol_debug symbol_module_debug(const struct symbol_module *m, const char **lacking);
/* After a lookup: whether somebody changed or cut its files meanwhile, so that the answers may be wrong. */
bool symbol_module_changed(const struct symbol_module *m);
/* Of the file that was at the module's path, also if it was another build's; all zero: there was none. */
struct symbol_origin symbol_module_origin(const struct symbol_module *m);
const struct symbol_evidence *symbol_module_evidence(const struct symbol_module *m);
void symbol_module_close(struct symbol_module *m);

#endif
