/* What will be changed in a process, worked out while it runs and without touching it: which functions, where the blob
 * and the near pages will lie, what they hold. */
#ifndef HEFT_ATTACH_PLACEMENT_PLAN_H
#define HEFT_ATTACH_PLACEMENT_PLAN_H

#include "attach/attach.h"
#include "attach/blob_image.h"
#include "attach/near_page.h"
#include "attach/placement.h"
#include "attach/stop.h"
#include "attach/target_allocator.h"
#include "attach/target_tables.h"

/* A jump reaches 2 GiB. Modules that lie further apart than that, as a program and its libraries do, need a near page
 * each. */
struct placement_page {
	struct near_page near;
	uint64_t low, high; /* the modules that it serves */
	unsigned functions;
	uint64_t at;
};

struct placement_plan {
	struct target_modules modules;
	struct target_allocator allocator;
	struct blob_image blob;
	struct placement_page pages[PLACEMENT_PAGES]; /* the blob lies right behind the first */
	unsigned page_count;
	/* For each entry of the allocator, where its near page has it */
	struct {
		unsigned page;
		int number; /* -1: not at all */
	} places[WIRE_BLOB_ENTRIES];
	struct target_tables tables;
	uint64_t tables_from; /* in the blob; 0: it needs none */
	struct stop_change changes[WIRE_BLOB_ENTRIES];
	size_t change_count;
};

/* p->blob must have been read. */
int placement_plan_make(struct placement_plan *p, const struct attach_options *o,
			struct attach_report *report, struct heft_error *err);
void placement_plan_fini(struct placement_plan *p);

#endif
