/* A process that stands still: what whoever looks into its memory finds. All of it is valid during the look. */
#ifndef HEFT_LEDGER_LEDGER_VIEW_H
#define HEFT_LEDGER_LEDGER_VIEW_H

#include "attach/stop.h"
#include "attach/target_modules.h"
#include "ledger/ledger_pages.h"

struct ledger_taking;

struct ledger_view {
	const struct ledger_request
		*request;                   /* NULL: nobody records it, and it has no blocks here */
	const struct ledger_blocks *blocks; /* live ones, in order of address */
	const struct target_maps *maps;     /* of this moment */
	const struct target_modules *modules; /* of a moment before */
	struct ledger_pages *pages;           /* that are in memory */
	const struct stop_thread *threads;    /* with registers, unless one is late */
	size_t thread_count;
	/* Memory of the process. False: not all of it is there. Ask `pages` first: reading a page that was never touched
	 * makes it resident. */
	bool (*read)(struct ledger_view *view, uint64_t at, void *to, size_t bytes);
	struct ledger_taking *taking;
};

#endif
