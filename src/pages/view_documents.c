/* The list of documents by the names that stand in addresses. */
#include "pages/view_documents.h"

#include <string.h>

const struct view_document_entry view_document_list[] = {
	{"summary", view_summary},     {"timeline", view_timeline},
	{"tree", view_tree},           {"sandwich", view_sandwich},
	{"sites", view_sites},         {"site", view_site},
	{"functions", view_functions}, {"files", view_files},
	{"source", view_source},       {"sizes", view_sizes},
	{"lifetimes", view_lifetimes}, {"threads", view_threads},
	{"ledger", view_ledger},       {NULL, NULL},
};

view_document *view_document_find(const char *name)
{
	for (const struct view_document_entry *e = view_document_list; e->name; e++)
		if (strcmp(e->name, name) == 0)
			return e->write;
	return NULL;
}
